"""The published schemas describe the type, nullability and meaning of every field, and match every response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from gateway.calls.shaping import shape
from gateway.docs.schemas import schema_of
from upstreams.model.archetypes import ARCHETYPES, Archetype, author, byline, comment, post
from upstreams.model.archetypes.shape import computed
from upstreams.model.computed import author_computed, post_computed
from upstreams.model.steps import Page, Single

BASE = "https://sluice.example"
EVERY = pytest.mark.parametrize("archetype", ARCHETYPES.values(), ids=lambda archetype: archetype.name)


def described(schema: Any) -> Iterator[dict[str, Any]]:
    """Every field's own schema."""
    if isinstance(schema, dict):
        for inner in schema.get("properties", {}).values():
            yield inner
        for inner in schema.values():
            yield from described(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from described(inner)


@EVERY
def test_schema_is_valid_and_names_itself(archetype: Archetype) -> None:
    schema = schema_of(archetype, BASE)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"{BASE}/schemas/{archetype.name}.json"


@EVERY
def test_every_field_has_a_type_and_a_meaning(archetype: Archetype) -> None:
    schema = schema_of(archetype, BASE)
    for field in described(schema["$defs"]):
        assert field["description"].endswith("."), field
        assert field.keys() & {"type", "$ref", "anyOf"}, field


def answered(archetype: Archetype, record: dict[str, Any]) -> dict[str, Any]:
    result = Page([record], total=1) if archetype.many else Single(record)
    return shape(archetype, result, lambda _state: "").data


ALONE = [one for one in ARCHETYPES.values() if one.key and one.beside is None]
"""Checks records only. `test_operations` checks the real examples of endpoints."""


@pytest.mark.parametrize("archetype", ALONE, ids=lambda one: one.name)
def test_response_without_optional_data_matches_its_schema(archetype: Archetype) -> None:
    names = archetype.make.__kwdefaults__ or {}
    needed = [name for name in archetype.make.__annotations__ if name not in names and name != "return"]
    known = {"id": "1"} if "id" in archetype.make.__annotations__ else {}
    record = archetype.make(**{**dict.fromkeys(needed), **known})
    Draft202012Validator(schema_of(archetype, BASE)).validate(answered(archetype, record))


def test_comment_tree_matches_schema_and_nested_error_is_found() -> None:
    reply = comment(id="2", author=byline(id="u"), likes=3)
    data = answered(ARCHETYPES["CommentList"], comment(id="1", replies=[reply]))
    schema = Draft202012Validator(schema_of(ARCHETYPES["CommentList"], BASE))
    schema.validate(data)
    data["items"][0]["comment"]["replies"][0]["engagement"]["likes"] = "3"
    with pytest.raises(ValidationError, match="'3' is not of type 'integer'"):
        schema.validate(data)


@pytest.mark.parametrize(
    ("make", "record"),
    [(author_computed, author(id="1")), (post_computed, post(id="1", url=None, text=None, author=None))],
    ids=["author", "post"],
)
def test_computed_fields_match_declaration(make: Any, record: dict[str, Any]) -> None:
    assert make(record, []).keys() == computed.__annotations__.keys() - {"return"}
