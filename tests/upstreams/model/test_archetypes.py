"""The named shapes: every record has all of its fields, and every row in a list wraps a record."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from upstreams.model import archetypes
from upstreams.model.archetypes import (
    ARCHETYPES,
    LOOKUP,
    Archetype,
    article,
    author,
    byline,
    comment,
    post,
)
from upstreams.model.archetypes.apps import app, review
from upstreams.model.archetypes.commerce import product
from upstreams.model.archetypes.shape import Field, fields_of

Constructor = Callable[..., dict[str, Any]]
WRAPPERS = {
    "Author": {"author", "computed"},
    "PostList": {"post", "computed"},
    "CommentList": {"comment"},
    "Repository": {"repository"},
    "NewsArticleList": {"article"},
    "ProductList": {"product"},
}
PLAIN = [one for one in ARCHETYPES.values() if not one.has_legs]
"""The archetypes of platforms, without composites."""
MADE: dict[str, Constructor] = {"byline": byline, **{one.make.__name__: one.make for one in PLAIN}}
every_record = pytest.mark.parametrize("constructor", MADE.values(), ids=MADE)
COMPUTED = {"engagement_rate", "language", "content_category", "estimated_reach"}
CONSTANT = {"page": {"fetch.cache_state"}}
"""Fields with a value even if the upstream sent none."""


def emptiest(constructor: Constructor) -> dict[str, Any]:
    """Return the record of an upstream that sent no values."""
    required = [p.name for p in inspect.signature(constructor).parameters.values() if p.default is p.empty]
    return constructor(**dict.fromkeys(required))


def leaves(value: Any, at: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in leaves(inner, f"{at}.{name}".lstrip("."))]
    return [] if value == [] else [(at, value)]


@every_record
def test_missing_values_are_null(constructor: Constructor) -> None:
    found = leaves(emptiest(constructor))
    assert {path for path, value in found if value is not None} == CONSTANT.get(constructor.__name__, set())


@every_record
def test_every_field_can_be_set(constructor: Constructor) -> None:
    names = inspect.signature(constructor).parameters
    record = constructor(**{name: f"the {name}" for name in names})
    assert sorted(value for _, value in leaves(record)) == sorted(f"the {name}" for name in names)


@pytest.mark.parametrize(
    "constructor",
    [one for one in MADE.values() if "ext" in inspect.signature(one).parameters],
    ids=lambda one: one.__name__,
)
def test_records_share_no_objects(constructor: Constructor) -> None:
    first, second = emptiest(constructor), emptiest(constructor)
    first["ext"]["changed"] = True
    for name, value in first.items():
        if isinstance(value, list):
            value.append(name)
    assert second == emptiest(constructor)
    assert second["ext"] == {}


@pytest.mark.parametrize("name", WRAPPERS)
def test_row_wraps_its_record(name: str) -> None:
    archetype = ARCHETYPES[name]
    record = emptiest(archetype.make)
    row = archetype.wrap(record, [])
    assert row.keys() == WRAPPERS[name]
    assert row[archetype.key] == record
    assert "computed" not in row or row["computed"].keys() == COMPUTED


@pytest.mark.parametrize("name", ["SearchResult", "MediaList", "Transcript"])
def test_record_without_a_key_is_its_own_row(name: str) -> None:
    archetype = ARCHETYPES[name]
    record = emptiest(archetype.make)
    row = archetype.wrap(record, [])
    assert row == record
    assert row is not record


def test_list_archetype_is_named_after_its_record() -> None:
    for name, archetype in ARCHETYPES.items():
        assert archetype.many == (name.endswith("List") or name == "SearchResult"), name


def test_composite_has_its_own_members() -> None:
    record: dict[str, Any] = {"repository": {}, "releases": None}
    assert ARCHETYPES["RepositoryDossier"].wrap(record, []) == record


def test_wrapping_passes_warnings_of_computed_fields() -> None:
    warnings: list[str] = []
    ARCHETYPES["Author"].wrap(author(id="1", likes_count=3, followers=2), warnings)
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("name", "record", "is_empty"),
    [
        ("Post", post(id=None, url="https://a.test", text="words", author=None), True),
        ("Article", article(id=None, url=None, title="words", text=None), True),
        ("Article", article(id=None, url=None, title=None, text="words"), False),
        ("Article", article(id="1", url=None, title=None, text=None), False),
        ("NewsArticleList", emptiest(ARCHETYPES["NewsArticleList"].make), True),
        ("Audience", emptiest(ARCHETYPES["Audience"].make), False),
        ("SearchResult", emptiest(ARCHETYPES["SearchResult"].make), True),
    ],
)
def test_record_without_an_id_is_empty(name: str, record: dict[str, Any], *, is_empty: bool) -> None:
    assert ARCHETYPES[name].is_empty(record) is is_empty


@pytest.mark.parametrize(
    ("name", "found", "nothing"),
    [
        ("Audience", {"subject": "ada", "locations": [{"country": "FR"}]}, {"subject": "ada", "locations": []}),
        ("Analytics", {"items": [{"rank": 1}], "ext": {}}, {"items": [], "ext": {"asked": 3}}),
    ],
)
def test_response_without_findings_is_free(name: str, found: dict[str, Any], nothing: dict[str, Any]) -> None:
    assert ARCHETYPES[name].found_nothing(nothing)
    assert not ARCHETYPES[name].found_nothing(found)


def test_new_fields_have_their_places() -> None:
    made = post(id="1", url=None, text=None, author=None, likes_hidden=True, views_hidden=False)
    assert made["flags"]["likes_hidden"] is True
    assert made["flags"]["views_hidden"] is False
    assert made["flags"]["comments_hidden"] is None
    assert app(id="1", store=None, installs=1000, installs_displayed="1,000+")["installs"] == {
        "display": "1,000+",
        "count": 1000,
    }
    assert review(id="1", entity_id=None, image_urls=["https://a.test/1.jpg"])["images"] == ["https://a.test/1.jpg"]
    assert comment(id="1", ext={"replies_token": "t"})["ext"] == {"replies_token": "t"}
    assert product(id="1", url=None, title=None, price=3.5, price_original=4.0, currency="EUR")["price"] == {
        "current": 3.5,
        "original": 4.0,
        "currency": "EUR",
    }


def table() -> dict[str, str]:
    lines = Path(__file__).with_name("records.txt").read_text("utf-8").splitlines()
    return {name: fields for line in lines if line[0] != "#" for name, _, fields in [line.partition(": ")]}


TABLE = table()
_TOKEN = re.compile(r"(\w+)((?:\[?\{)|\[=\w+\]|=\w+|\[\])?|(\}\]?)")


def parsed(text: str) -> dict[str, Any]:
    """Return the fields of a row: the mark of each, or the fields of the object or of the objects in the list."""
    levels: list[dict[str, Any]] = [{}]
    for found in _TOKEN.finditer(text):
        name, mark, end = found.groups()
        if end:
            levels.pop()
        elif mark in ("{", "[{"):
            levels[-1][name] = mark, {}
            levels.append(levels[-1][name][1])
        else:
            levels[-1][name] = mark or ""
    return levels[0]


def described(fields: Iterable[Field]) -> dict[str, Any]:
    """Return the fields of a constructor in the same form."""
    return {one.name: _described(one) for one in fields}


def _described(one: Field) -> Any:
    of_record = {MADE[name.lower()]: name for name in ("Byline", "Comment", "Place")}
    if one.make in of_record:
        return f"[={of_record[one.make]}]" if one.kind == "array" else f"={of_record[one.make]}"
    inner = fields_of(one.make) if one.make is not None else one.members
    if one.kind == "array":
        return ("[{", described(inner)) if one.make is not None else "[]"
    return ("{", described(inner)) if one.kind == "object" else ""


CONSTRUCTORS = {
    **{name.removesuffix("List"): one.make for name, one in ARCHETYPES.items() if not one.has_legs},
    "Byline": byline,
}


@pytest.mark.parametrize("name", TABLE)
def test_record_has_the_specified_fields(name: str) -> None:
    assert described(fields_of(CONSTRUCTORS[name])) == parsed(TABLE[name])


def test_names_roles_and_ranks_are_unique() -> None:
    """Goal: two modules that define the same thing are noticed. Otherwise, the last one would silently win."""
    modules = (import_module(f"{archetypes.__name__}.{one.name}") for one in iter_modules(archetypes.__path__))
    every = [one for module in modules for one in getattr(module, "ARCHETYPES", ())]
    names = Counter(one.name for one in every)
    roles = Counter(role.role for one in every for role in one.roles)
    ranks = Counter(one.lookup_rank for one in every if one.lookup_rank)
    keys = Counter(one.key for one in every if one.lookup_rank)
    assert {name for found in (names, roles, ranks, keys) for name, times in found.items() if times > 1} == set()
    assert {*names, "Lookup"} == ARCHETYPES.keys()


def nested(make: Constructor, found: dict[Constructor, str]) -> dict[Constructor, str]:
    """Return a constructor, and all constructors of records inside its records, with their names."""
    if make not in found:
        found[make] = make.__name__
        stack = list(fields_of(make))
        while stack:
            one = stack.pop()
            stack += one.members
            if one.make is not None:
                nested(one.make, found)
    return found


def test_names_of_constructors_are_unique() -> None:
    """Goal: every record has its own schema. Schemas are named after constructors, including those of composites."""
    found: dict[Constructor, str] = {}
    for archetype in ARCHETYPES.values():
        for make in (archetype.make, *archetype.makes_beside):
            nested(make, found)
    assert len(found) > 100
    assert {name for name, times in Counter(found.values()).items() if times > 1} == set()


def test_only_single_records_can_be_looked_up() -> None:
    for one in ARCHETYPES.values():
        assert not one.lookup_rank or (one.key and not one.many and not one.has_legs), one.name
        assert one.row_kind is None or (one.many and one.key), one.name


def test_lookup_has_a_field_for_each_kind_of_record() -> None:
    kinds = sorted((one.lookup_rank, one.key) for one in ARCHETYPES.values() if one.lookup_rank)
    fields = fields_of(LOOKUP.make)
    assert [one.name for one in fields] == ["resolved", *(key for _, key in kinds), "page", "computed"]
    assert {one.name for one in fields} >= {"post", "product", "track", "job", "ad", "market", "place", "title"}
    assert all(one.kind == "object" and one.nullable and one.make is not None for one in fields)
    told = {one.name: one.description for one in fields}
    assert told["author"] == "Set if the URL leads to an account."
    assert all(re.match(r"Set if the URL leads to an? \w", told[key]) for _, key in kinds)


def test_lookup_sets_only_the_field_of_a_record() -> None:
    record = {"id": "1"}
    found = LOOKUP.make(resolved={"platform": "a"}, job=record)
    assert {name for name, value in found.items() if value is not None} == {"resolved", "job"}
    assert found.keys() == {one.name for one in fields_of(LOOKUP.make)}


@pytest.mark.parametrize("archetype", PLAIN, ids=lambda archetype: archetype.name)
def test_constructor_of_the_table_is_described(archetype: Archetype) -> None:
    first = (archetype.make.__doc__ or "").partition("\n")[0]
    assert first.endswith("."), "its first line is the description of the schema"
    assert all(one.description.endswith(".") for one in fields_of(archetype.make))
