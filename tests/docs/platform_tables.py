"""The tables of platforms in the documents, from declarations. `python -m tests.docs.platform_tables` writes them.

A table is between two comments, `<!-- name: made -->` and `<!-- name: end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gateway.docs.catalog import by_category
from tests.processes.commands import PROJECT
from upstreams.platforms import load_platforms

CONTACT = "contact"
"""The placeholder for the operator's own contact. It is not a secret in the settings."""


def platforms_table() -> Iterator[str]:
    """Yield the lines of a table of all platforms by category. It grows with platforms, but not with endpoints."""
    yield "| category | platforms |"
    yield "|---|---|"
    for group in by_category(load_platforms()):
        yield f"| {group.title} | {', '.join(one.title for one in group.platforms)} |"


def credentials_table() -> Iterator[str]:
    """Yield the lines of a table of the platforms that use credentials, with the endpoints that need them."""
    yield "| platform | settings | endpoints that need them |"
    yield "|---|---|---|"
    for platform in load_platforms():
        if platform.credentials:
            settings = ", ".join(map(_setting, platform.credentials))
            needing = [one.resource for one in platform.endpoints if one.needs]
            told = "all" if len(needing) == len(platform.endpoints) else ", ".join(needing) or "none"
            yield f"| {platform.slug} | {settings} | {told} |"


def _setting(name: str) -> str:
    return "`upstreams.operator_contact`" if name == CONTACT else f"`{name}_env`"


TABLES: Mapping[tuple[Path, str], Callable[[], Iterator[str]]] = {
    (PROJECT / "README.md", "platforms"): platforms_table,
    (PROJECT / "docs" / "operating.md", "credentials"): credentials_table,
}


def with_table(text: str, name: str, lines: Iterator[str]) -> str:
    """Replace a table in the text of a document with these lines."""
    begin, end = f"<!-- {name}: made -->", f"<!-- {name}: end -->"
    found = re.search(f"(?<={re.escape(begin)}\n).*(?={re.escape(end)})", text, re.DOTALL)
    assert found is not None, f"the table of {name} is missing in the document"
    return text[: found.start()] + "".join(f"{line}\n" for line in lines) + text[found.end() :]


def main() -> None:
    """Write every table into its document."""
    for (path, name), lines in TABLES.items():
        path.write_text(with_table(path.read_text(), name, lines()))


if __name__ == "__main__":
    main()
