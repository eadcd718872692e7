"""Simplifies schemas, and builds an example of a schema from the examples of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.http.routing import RouteDoc

Schema = dict[str, Any]
_BY_TYPE: Final[Mapping[str, Any]] = {
    "string": "...",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "null": None,
}


def plain_schema(schema: Schema) -> Schema:
    """Resolve the references of a msgspec schema and remove its internal defaults.

    Required fields are listed in `required`. Null defaults are removed, because in the code they only mean that a field
    was not sent.
    """
    definitions = schema.get("$defs", {})
    body: Schema = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    fields = {name: dict(_resolved(one, definitions)) for name, one in body["properties"].items()}
    due = [name for name, one in fields.items() if one.pop("x-required", False) or name in body.get("required", ())]
    for one in fields.values():
        if one.get("default", 0) is None:
            del one["default"]
    return {"type": "object", "properties": fields, "required": due, "additionalProperties": False}


def _resolved(value: Any, definitions: Mapping[str, Schema]) -> Any:
    """Replace each reference with its target. The recursion always ends, because no request body refers to itself."""
    if isinstance(value, list):
        return [_resolved(one, definitions) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _resolved(definitions[value["$ref"].rpartition("/")[2]], definitions)
    return {name: _resolved(one, definitions) for name, one in value.items()}


def sample_of_answer(doc: RouteDoc) -> Any:
    """Return an example of a route's response."""
    (top,), definitions = msgspec.json.schema_components([doc.answer])
    sample = sample_of(top, definitions)
    return {**sample, **doc.sample} if doc.sample else sample


def sample_of(schema: Schema, definitions: Mapping[str, Schema]) -> Any:
    """Return an example of a schema. `definitions` maps the last part of each reference to its target."""
    if "$ref" in schema:
        return sample_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    for given in ("examples", "enum"):
        if schema.get(given):
            return schema[given][0]
    if "anyOf" in schema:
        return sample_of(schema["anyOf"][0], definitions)
    return _sample_of_kind(schema, definitions)


def _sample_of_kind(schema: Schema, definitions: Mapping[str, Schema]) -> Any:
    kind = schema.get("type", "null")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: sample_of(fields[name], definitions) for name in fields if name in schema.get("required", ())}
    if kind == "array":
        return [sample_of(schema["items"], definitions)] if "items" in schema else []
    return _BY_TYPE[kind]
