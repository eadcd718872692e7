"""JSON Schemas of the archetypes' `data`, with the type and description of every field (spec 2.2, decisions 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from upstreams.model.archetypes import Archetype
from upstreams.model.archetypes.shape import Field, Make, computed, fields_of

_TYPES = {"text": "string"}
_WARNINGS = {
    "type": "array",
    "description": "Why the response is incomplete, if it is.",
    "items": {"type": "string"},
}
_TOTAL = {"type": ["integer", "null"], "description": "The total count, if the platform provides it."}
Schema = dict[str, Any]


def schema_of(archetype: Archetype, base_url: str) -> Schema:
    """Return the schema of an archetype's `data`. Records are under `$defs`, named after their constructors."""
    records = _RecordSchemas()
    row = records.row_of(archetype)
    body = _page_of(row) if archetype.many else row
    for make in archetype.makes_beside:
        records.add(body, make)
    body["properties"]["_warnings"] = _WARNINGS
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{base_url}/schemas/{archetype.name}.json",
        "title": archetype.name,
        **body,
        "$defs": records.definitions,
    }


def openapi_schemas(archetypes: Iterable[Archetype]) -> dict[str, Schema]:
    """Return the schemas of all archetypes and their records for one document.

    No field is required there, because the `fields` parameter can exclude any of them.
    """
    found: dict[str, Schema] = {}
    for archetype in archetypes:
        schema = schema_of(archetype, "")
        definitions = schema.pop("$defs")
        found |= {_title(name): one for name, one in definitions.items()}
        found[archetype.name] = {name: one for name, one in schema.items() if name not in ("$schema", "$id", "title")}
    return {name: _optional(schema) for name, schema in found.items()}


def _title(name: str) -> str:
    """Return the name of a record's schema, from the name of its constructor."""
    return "".join(part.capitalize() for part in name.split("_")) + "Record"


def _optional(value: Any) -> Any:
    """Make all fields of a schema optional, and point its references to the document's components."""
    if isinstance(value, dict):
        if "$ref" in value:
            return {**value, "$ref": f"#/components/schemas/{_title(value['$ref'].rpartition('/')[2])}"}
        return {name: _optional(one) for name, one in value.items() if name != "required" or not isinstance(one, list)}
    return [_optional(one) for one in value] if isinstance(value, list) else value


def _page_of(row: Schema) -> Schema:
    items = {"type": "array", "description": "The rows of the page.", "items": row}
    return {"type": "object", "properties": {"items": items, "total": _TOTAL}, "required": ["items"]}


class _RecordSchemas:
    """Collects the records that a schema refers to."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def row_of(self, archetype: Archetype) -> Schema:
        if not archetype.key:
            return self._object(fields_of(archetype.make))
        row = {archetype.key: self.reference(archetype.make)}
        if archetype.computed is not None:
            row["computed"] = self.reference(computed)
        return {"type": "object", "properties": row, "required": list(row)}

    def reference(self, make: Make) -> Schema:
        """Return a reference to a record's schema."""
        name = make.__name__
        if name not in self.definitions:
            # Registered before its fields are built, because a record may contain itself: a comment contains comments.
            self.definitions[name] = {}
            description = (make.__doc__ or "").strip().partition("\n")[0]
            self.definitions[name] |= {"description": description, **self._object(fields_of(make))}
        return {"$ref": f"#/$defs/{name}"}

    def add(self, body: Schema, make: Make) -> None:
        """Add the fields of a constructor to an object."""
        more = self._object(fields_of(make))
        body["properties"] |= more["properties"]
        body["required"] += more["required"]

    def _object(self, fields: Iterable[Field]) -> Schema:
        properties = {one.name: self._field(one) for one in fields}
        return {"type": "object", "properties": properties, "required": list(properties)}

    def _field(self, one: Field) -> Schema:
        schema: Schema = {"description": one.description}
        if one.kind == "object" and one.make is not None:
            record = self.reference(one.make)
            return {**schema, "anyOf": [record, {"type": "null"}]} if one.nullable else {**schema, **record}
        plain = _TYPES.get(one.kind, one.kind)
        schema["type"] = [plain, "null"] if one.nullable else plain
        if one.format:
            schema["format"] = one.format
        if one.members:
            schema |= self._object(one.members)
        if one.entries is not None:
            entry: Schema = {"type": _TYPES.get(one.entries, one.entries)}
            schema["items"] = entry if one.make is None else self.reference(one.make)
        return schema
