"""The tables of platforms in the documents match the declarations; none is written by hand."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gateway.docs.catalog import CATEGORY_TITLES
from gateway.docs.platform_reference import reference_page
from gateway.docs.platform_tables import TABLES, credentials_table, outdated, platforms_table, with_table
from tests.gate.changed import INTEGRATION, changed_platforms
from tests.processes.commands import PROJECT
from upstreams.model.archetypes import ARCHETYPES
from upstreams.model.fields import readers
from upstreams.platforms import load_platforms, platform_slugs


def test_tables_and_reference_match_the_code() -> None:
    """A branch that changes a platform leaves the tables to the integrator, so that branches do not conflict."""
    if INTEGRATION not in os.environ and changed_platforms():
        pytest.skip("the change touches a platform, so the integrator writes the tables")
    assert [*outdated(PROJECT)] == [], "run `sluice platforms tables`"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the documents that contain tables."""
    (tmp_path / "docs").mkdir()
    for name, _ in TABLES:
        (tmp_path / name).write_text((PROJECT / name).read_text())
    return tmp_path


def test_outdated_tables_are_found_and_written(checkout: Path) -> None:
    for path, text in outdated(checkout).items():
        path.write_text(text)
    assert outdated(checkout) == {}
    readme = (checkout / "README.md").read_text()
    (checkout / "README.md").write_text(with_table(readme, "platforms", iter(["a wrong line"])))
    (checkout / "docs" / "platform-reference.md").unlink()
    found = outdated(checkout)
    assert {path.name for path in found} == {"README.md", "platform-reference.md"}
    assert found[checkout / "README.md"] == readme


def test_reference_lists_every_reader_and_constructor() -> None:
    page = reference_page()
    own = [one for one in vars(readers).values() if getattr(one, "__module__", "") == readers.__name__]
    names = [one.__name__ for one in own if callable(one) and one.__name__[0].islower()]
    assert [name for name in names if f"| `{name}(" not in page] == []
    assert len(names) >= 20
    makes = {one.make.__name__ for one in ARCHETYPES.values() if not one.has_legs}
    assert [name for name in makes if f"### {name}\n" not in page] == []


def test_reference_refuses_a_reader_without_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(name: str) -> None: ...

    silent.__module__ = readers.__name__
    monkeypatch.setattr(readers, "silent", silent, raising=False)
    with pytest.raises(ValueError, match="`silent` has no docstring"):
        reference_page()


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
    for path in (PROJECT / "README.md", *(PROJECT / "docs").glob("*.md"), *(PROJECT / "bench").glob("*.md")):
        text = path.read_text()
        for name, table in TABLES:
            if PROJECT / name == path:
                text = with_table(text, table, iter(()))
        assert row.findall(text) == [], path
