"""The tables of platforms in README.md and docs/operating.md, and docs/platform-reference.md, from the declarations.

`sluice platforms tables` writes them. A table is between two comments, `<!-- name: made -->` and `<!-- name: end -->`.
Only the integrator of several branches writes the tables, so that two branches never change the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gateway.docs.catalog import by_category
from gateway.docs.platform_reference import reference_page
from upstreams.platforms import load_platforms

CONTACT: Final = "contact"
"""The placeholder for the operator's own contact. It is not a secret in the settings."""
REFERENCE: Final = "docs/platform-reference.md"


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
            endpoints = "all" if len(needing) == len(platform.endpoints) else ", ".join(needing) or "none"
            yield f"| {platform.slug} | {settings} | {endpoints} |"


def _setting(name: str) -> str:
    return "`upstreams.operator_contact`" if name == CONTACT else f"`{name}_env`"


TABLES: Final[Mapping[tuple[str, str], Callable[[], Iterator[str]]]] = MappingProxyType(
    {
        ("README.md", "platforms"): platforms_table,
        ("docs/operating.md", "credentials"): credentials_table,
    }
)
"""The functions that return the lines of each table, by the path of its document and its name there."""


def outdated(checkout: Path) -> dict[Path, str]:
    """Return the documents of a checkout that differ from the declarations, with the text that each should have."""
    found: dict[Path, str] = {checkout / REFERENCE: reference_page()}
    for (name, table), lines in TABLES.items():
        path = checkout / name
        found[path] = with_table(found.get(path) or path.read_text(), table, lines())
    return {path: text for path, text in found.items() if not path.exists() or path.read_text() != text}


def with_table(text: str, name: str, lines: Iterator[str]) -> str:
    """Replace a table in the text of a document with these lines."""
    begin, end = f"<!-- {name}: made -->", f"<!-- {name}: end -->"
    found = re.search(f"(?<={re.escape(begin)}\n).*(?={re.escape(end)})", text, re.DOTALL)
    assert found is not None, f"the table of {name} is missing in the document"
    return text[: found.start()] + "".join(f"{line}\n" for line in lines) + text[found.end() :]
