"""Counts each platform's lines of code per endpoint: `python -m tests.platforms.lines`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.docs.source import texts
from upstreams.platforms import load_platforms

_PROJECT = Path(__file__).resolve().parents[2]
CONVERTED = frozenset({"bluesky", "github", "hackernews", "stackexchange"})
"""The oldest platforms, which were first written in another form. All others are declared in the current form."""
LINES_MAX = 60
"""The maximum of the median lines per endpoint. The names of the arguments take about one line of them."""


class Lines(NamedTuple):
    """The lines of one platform, not counting blank lines, docstrings and generated stand-ins."""

    slug: str
    endpoints: int
    adapter: int
    cases: int
    traps: int

    @property
    def each(self) -> float:
        """Lines per endpoint."""
        return (self.adapter + self.cases + self.traps) / self.endpoints


@cache
def lines_of_platforms() -> tuple[Lines, ...]:
    """The lines of every platform."""
    return tuple(_counted())


def _counted() -> Iterator[Lines]:
    for platform in load_platforms():
        tested = _PROJECT / "tests" / "platforms" / platform.slug
        traps = sorted(tested.glob("test_*.py"))
        rest = [path for path in tested.glob("*.py") if path not in traps]
        adapter = (_PROJECT / "upstreams" / "platforms" / platform.slug).rglob("*.py")
        stand_in = [_PROJECT / "upstreams" / "sandbox" / f"{platform.slug}.py"]
        stand_in += (_PROJECT / "upstreams" / "sandbox" / platform.slug).glob("*.py")
        written = [*adapter, *(path for path in stand_in if path.is_file())]
        yield Lines(
            platform.slug, len(platform.endpoints), *(sum(map(_lines, each)) for each in (written, rest, traps))
        )


def median_of_declared() -> float:
    """Return the median lines of an endpoint, over the platforms that were written in the current form from the start.

    Platforms count by their endpoints, because the fixed lines of a platform are many if it has few of them.
    """
    declared = [one for one in lines_of_platforms() if one.slug not in CONVERTED]
    return median(one.each for one in declared for _ in range(one.endpoints))


def _lines(path: Path) -> int:
    source = path.read_text()
    docstrings = texts(ast.parse(source))
    documented = {line + at for line, text in docstrings for at in range(text.count("\n") + 1)}
    return sum(1 for at, line in enumerate(source.splitlines(), 1) if line.strip() and at not in documented)


def main() -> None:
    """Print one line per platform, followed by the medians."""
    found = lines_of_platforms()
    print(f"{'platform':16}{'endpoints':>10}{'adapter':>10}{'cases':>8}{'traps':>8}{'per endpoint':>14}")
    for one in found:
        print(f"{one.slug:16}{one.endpoints:10}{one.adapter:10}{one.cases:8}{one.traps:8}{one.each:14.1f}")
    total = sum(one.endpoints for one in found)
    print(f"median {median(one.each for one in found):.1f} lines per endpoint, {total} endpoints")
    print(f"median {median_of_declared():.1f} without the {len(CONVERTED)} oldest, which were written in another form")


if __name__ == "__main__":
    main()
