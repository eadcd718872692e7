"""Sources at suppliers: their place in each ladder, and no word about a supplier outside of the operators' files."""

from __future__ import annotations

from pathlib import Path

import pytest

from upstreams.model.endpoint import PARTNER_MARK, Platform
from upstreams.platforms import load_platforms
from upstreams.suppliers import interface_names

PROJECT = Path(__file__).resolve().parents[2]
KINDS = ("official", "partner", "public")
"""The kinds of sources in the order in which they are tried. A source's name begins with its kind."""
OPERATORS = ("upstreams/suppliers/", "upstreams/sandbox/made/", "docs/operators/", "config.toml")
"""Files that may name a supplier: its interface, stand-ins for its host, and texts that only operators read."""
READ = ("*.py", "*.md", "*.html", "*.json", "*.toml", "*.txt", "*.js", "*.ts", "*.yaml", "*.yml")
FOLDERS = ("gateway", "upstreams", "scheduler", "events", "billing", "docs", "client", "client-js", "deploy")


def kinds_of(platform: Platform, resource: str) -> list[int]:
    """Return the positions in `KINDS` of an endpoint's sources, in the order in which they are tried."""
    endpoint = next(one for one in platform.endpoints if one.resource == resource)
    names = [next(iter(platform.sources)), *(one.source for one in endpoint.fallbacks)]
    return [KINDS.index(kind) for name in names if (kind := name.partition("-")[0]) in KINDS]


@pytest.mark.parametrize("platform", load_platforms(), ids=lambda platform: platform.slug)
def test_ladder_goes_from_official_to_partner_to_public(platform: Platform) -> None:
    for endpoint in platform.endpoints:
        kinds = kinds_of(platform, endpoint.resource)
        assert kinds == sorted(kinds), endpoint.resource


def test_only_operators_files_name_a_supplier() -> None:
    """A declaration may name an interface as the address of a source."""
    files = [file for folder in FOLDERS for pattern in READ for file in (PROJECT / folder).rglob(pattern)]
    files += PROJECT.glob("*.*")
    assert len(files) > 500
    named = {}
    for file in files:
        path = file.relative_to(PROJECT).as_posix()
        if path.startswith(OPERATORS) or not file.is_file() or file.suffix not in {one[1:] for one in READ}:
            continue
        text = file.read_text("utf-8").lower()
        for name in interface_names():
            if name in text.replace(f'"{PARTNER_MARK}{name}"', ""):
                named[path] = name
    assert named == {}
