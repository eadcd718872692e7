"""The named shapes: every record has all of its fields, and every row in a list wraps a record."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from upstreams.model import archetypes
from upstreams.model.archetypes import Archetype, article, author, byline, comment, post, release, repository

BYLINE = "id username display_name avatar_url verified url"
Constructor = Callable[..., dict[str, Any]]
FIELDS: dict[Constructor, str] = {
    author: "id username display_name avatar_url bio verified followers following posts_count likes_count url private "
    "joined_at location external_url ext",
    byline: BYLINE,
    post: "id url content author engagement flags published_at ext",
    comment: "id url parent_id post_id text author engagement flags published_at replies",
    repository: "id url full_name name owner description homepage language topics license stars forks watchers "
    "open_issues size_kb default_branch archived fork created_at updated_at pushed_at",
    release: "id url tag name text prerelease author published_at ext",
    article: "id url title text description image_url language updated_at ext",
}
"""The fields of each record, as listed in decisions 3."""
INNER = {
    (post, "content"): "text media_urls thumbnail_url duration_seconds",
    (post, "engagement"): "views likes comments shares saves",
    (post, "flags"): "pinned deleted nsfw spoiler",
    (comment, "engagement"): "likes replies",
    (comment, "flags"): "pinned deleted",
}
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
CONSTRUCTORS = {constructor.__name__: constructor for constructor in FIELDS}
COMPUTED = {"engagement_rate", "language", "content_category", "estimated_reach"}


def emptiest(constructor: Constructor) -> dict[str, Any]:
    """Return the record of an upstream that sent no values."""
    required = [p.name for p in inspect.signature(constructor).parameters.values() if p.default is p.empty]
    return constructor(**dict.fromkeys(required))


def known() -> dict[str, Archetype]:
    return {found.name: found for found in vars(archetypes).values() if isinstance(found, Archetype)}


@pytest.mark.parametrize("constructor", FIELDS, ids=lambda constructor: constructor.__name__)
def test_record_has_every_field_of_its_archetype(constructor: Constructor) -> None:
    assert emptiest(constructor).keys() == set(FIELDS[constructor].split())


@pytest.mark.parametrize(("constructor", "name"), INNER, ids=lambda part: getattr(part, "__name__", part))
def test_nested_objects_have_every_field(constructor: Constructor, name: str) -> None:
    assert emptiest(constructor)[name].keys() == set(INNER[constructor, name].split())


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    return [] if value == [] else [value]


@pytest.mark.parametrize("constructor", FIELDS, ids=lambda constructor: constructor.__name__)
def test_missing_values_are_null(constructor: Constructor) -> None:
    assert set(leaves(emptiest(constructor))) == {None}


@pytest.mark.parametrize("constructor", FIELDS, ids=lambda constructor: constructor.__name__)
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
