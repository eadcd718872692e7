"""Generates a platform's stand-in from the platform's cases: `python -m tests.platforms.stand_in SLUG`.

Review the file before you commit it, and complete by hand what a placeholder cannot express. When it runs again, the
generator keeps the file's content, adds members that readers have started to read, and removes those that they no
longer read. It prints everything that it leaves out (`dropped:`) or cannot decide (`warning:`). With `--strict`, it
exits with code 1 if there is such a line.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import orjson

from tests.platforms.case import Case
from tests.platforms.file_checks import faults_in, lacking
from tests.platforms.made_calls import Json, calls_of
from tests.platforms.merging import head_of, merge, served_by_hand
from tests.platforms.playing import Exchange, play
from tests.platforms.templates import choices_in, constants_of
from upstreams.model.endpoint import Platform
from upstreams.platforms import platform_slugs
from upstreams.suppliers import resolve_address

FOLDER = Path(__file__).resolve().parents[2] / "upstreams" / "sandbox" / "made"
_FAULTS = ("dropped: ", "warning: ")


def main(arguments: Sequence[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the file, print what it lacks, and return the exit code."""
    parser = ArgumentParser(prog="python -m tests.platforms.stand_in", description=__doc__)
    parser.add_argument("slug", choices=platform_slugs(), help="the platform", metavar="SLUG")
    parser.add_argument("--strict", action="store_true", help="exit with code 1 if anything is dropped or unclear")
    given = parser.parse_args(arguments)
    lines = list(generate(*load(given.slug), folder / f"{given.slug}.json"))
    print("\n".join(lines))
    return int(given.strict and any(line.startswith(_FAULTS) for line in lines))


def load(slug: str) -> tuple[Platform, tuple[Case, ...]]:
    """Return a platform and its cases."""
    return import_module(f"upstreams.platforms.{slug}").PLATFORM, import_module(f"tests.platforms.{slug}.cases").CASES


def generate(platform: Platform, cases: Sequence[Case], file: Path) -> Iterator[str]:
    """Write the file of a platform's stand-in, and yield what it lacks."""
    before = orjson.loads(file.read_bytes()) if file.exists() else {}
    exchanges = [exchange for case in cases for exchange in play(platform, case)]
    made, lines = generated(platform, exchanges, before)
    file.write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2) + b"\n")
    yield f"{file}: {len(made['calls'])} calls"
    yield from lines


def made_of(platform: Platform, exchanges: list[Exchange], before: Json) -> Json:
    """Return the template file, with the manual edits of the previous one."""
    return generated(platform, exchanges, before)[0]


def generated(platform: Platform, exchanges: list[Exchange], before: Json) -> tuple[Json, list[str]]:
    """Return the template file with the manual edits of the previous one, and what it lacks."""
    served, others = served_by_hand(before, exchanges)
    calls: dict[str, list[Exchange]] = {}
    for exchange in others:
        calls.setdefault(exchange.pattern, []).append(exchange)
    known: dict[str, list[Json]] = {}
    for call in before.get("calls", ()):
        known.setdefault(call["call"], []).append(call)
    params = (param for endpoint in platform.endpoints for param in endpoint.params)
    literals = choices_in(constants_of(f"upstreams.platforms.{platform.slug}"), params)
    found = [
        call for pattern, own in calls.items() for call in calls_of(pattern, own, literals, known.get(pattern, ()))
    ]
    merged, notes = merge(before, [*served, *found])
    made = {**head_of(before, _aliases(platform)), "calls": [one.call for one in merged]}
    lines = (*notes, *lacking(platform, exchanges, merged), *faults_in(platform, made, exchanges))
    return made, list(dict.fromkeys(lines))


def _aliases(platform: Platform) -> dict[str, str]:
    """Return the hosts of mirrors, which give the same answers as the first source."""
    hosts = {name: resolve_address(base).split("/")[2] for name, base in platform.sources.items()}
    first = next(iter(hosts.values()))
    mirrors = (one for endpoint in platform.endpoints for one in endpoint.fallbacks if one.read is None)
    return {hosts[one.source]: first for one in mirrors if hosts[one.source] != first}


if __name__ == "__main__":
    sys.exit(main())
