"""The named shapes: every record has all of its fields, and every row in a list wraps a record."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from upstreams.model import archetypes
from upstreams.model.archetypes import Archetype, article, author, byline, comment, post, release, repository

Constructor = Callable[..., dict[str, Any]]
WRAPPERS = {
    "Author": {"author", "computed"},
    "AuthorList": {"author", "computed"},
    "Post": {"post", "computed"},
    "PostList": {"post", "computed"},
    "CommentList": {"comment"},
    "Repository": {"repository"},
    "RepositoryList": {"repository"},
    "ReleaseList": {"release"},
    "Article": {"article"},
}
MADE: tuple[Constructor, ...] = (author, byline, post, comment, repository, release, article)
CONSTRUCTORS = {constructor.__name__: constructor for constructor in MADE}
every_record = pytest.mark.parametrize("constructor", MADE, ids=CONSTRUCTORS)
COMPUTED = {"engagement_rate", "language", "content_category", "estimated_reach"}


def emptiest(constructor: Constructor) -> dict[str, Any]:
    """Return the record of an upstream that sent no values."""
    required = [p.name for p in inspect.signature(constructor).parameters.values() if p.default is p.empty]
    return constructor(**dict.fromkeys(required))


def known() -> dict[str, Archetype]:
    return {found.name: found for found in vars(archetypes).values() if isinstance(found, Archetype)}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    return [] if value == [] else [value]


@every_record
def test_missing_values_are_null(constructor: Constructor) -> None:
    assert set(leaves(emptiest(constructor))) == {None}


@every_record
def test_every_field_can_be_set(constructor: Constructor) -> None:
    names = inspect.signature(constructor).parameters
    record = constructor(**{name: f"the {name}" for name in names})
    assert sorted(leaves(record)) == sorted(f"the {name}" for name in names)


@pytest.mark.parametrize("constructor", [author, post, release, article], ids=lambda constructor: constructor.__name__)
def test_records_share_no_objects(constructor: Constructor) -> None:
    first, second = emptiest(constructor), emptiest(constructor)
    first["ext"]["changed"] = True
    assert second["ext"] == {}


@pytest.mark.parametrize("name", WRAPPERS)
def test_row_wraps_its_record(name: str) -> None:
    archetype = known()[name]
    record = emptiest(CONSTRUCTORS[archetype.key])
    row = archetype.wrap(record, [])
    assert row.keys() == WRAPPERS[name]
    assert row[archetype.key] == record
    assert "computed" not in row or row["computed"].keys() == COMPUTED


def test_list_archetype_is_named_after_its_record() -> None:
    for name, archetype in known().items():
        assert archetype.many == name.endswith("List"), name


def test_composite_has_its_own_members() -> None:
    record: dict[str, Any] = {"repository": {}, "releases": None}
    assert known()["RepositoryDossier"].wrap(record, []) == record


def test_wrapping_passes_warnings_of_computed_fields() -> None:
    warnings: list[str] = []
    known()["Author"].wrap(author(id="1", likes_count=3, followers=2), warnings)
    assert len(warnings) == 1
