"""The tables of platforms in the documents match the declarations; none is written by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.docs.catalog import CATEGORY_TITLES
from tests.docs.platform_tables import TABLES, credentials_table, platforms_table, with_table
from tests.processes.commands import PROJECT
from upstreams.platforms import load_platforms, platform_slugs


@pytest.mark.parametrize(("place", "lines"), TABLES.items(), ids=lambda one: one[1] if isinstance(one, tuple) else "")
def test_platform_table_matches_declarations(place: tuple[Path, str], lines: Callable[[], Iterator[str]]) -> None:
    path, name = place
    text = path.read_text()
    assert with_table(text, name, lines()) == text, "run `python -m tests.docs.platform_tables`"


def test_every_platform_is_in_the_table_once_with_its_category() -> None:
    rows = [line.strip("| ").split(" | ") for line in platforms_table()][2:]
    listed = [(title, category) for category, titles in rows for title in titles.split(", ")]
    assert sorted(listed) == sorted((one.title, CATEGORY_TITLES[one.category]) for one in load_platforms())


def test_every_credential_setting_is_in_the_table() -> None:
    rows = list(credentials_table())[2:]
    for platform in load_platforms():
        told = [row for row in rows if row.startswith(f"| {platform.slug} |")]
        assert len(told) == bool(platform.credentials)
        assert all(f"{name}_env" in told[0] or name == "contact" for name in platform.credentials)


def test_platforms_are_listed_only_in_generated_tables() -> None:
    """Goal: each fact is written once.

    Method: find table rows that start with a platform, outside the generated tables.
    """
    row = re.compile(rf"^\| (?:{'|'.join(platform_slugs())}) \|", re.MULTILINE)
    places = {path for path, _ in TABLES}
    for path in (PROJECT / "README.md", *(PROJECT / "docs").glob("*.md"), *(PROJECT / "bench").glob("*.md")):
        made = [line for (at, _), lines in TABLES.items() if at == path for line in lines()]
        assert len(row.findall(path.read_text())) == len(row.findall("\n".join(made))), path
    assert len(places) == len(TABLES)
