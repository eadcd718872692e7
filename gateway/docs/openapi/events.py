"""The schemas of events and of the messages of streams: a type of event decides the schema of its `data`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from events.log.kinds import data_schemas
from gateway.docs.samples import Schema

_REF: Final = "#/components/schemas/{name}"
_EVENT: Final = "EventItem"
_PLACE = re.compile(r" \(spec [^)]*\)")


def events_typed(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """The schemas with one for each shape of events in the place of `EventItem`, which becomes any of them."""
    if _EVENT not in schemas:
        return schemas
    by_type, shapes = data_schemas(_REF)
    types: dict[str, list[str]] = {}
    for type_, reference in by_type.items():
        types.setdefault(reference["$ref"].rpartition("/")[2], []).append(type_)
    kinds = {f"{shape}Event": _event_of(schemas[_EVENT], shape, names) for shape, names in types.items()}
    described = {name: _without_places(one) for name, one in shapes.items()}
    any_kind = {
        "description": schemas[_EVENT]["description"],
        "oneOf": [{"$ref": _REF.format(name=name)} for name in kinds],
        "discriminator": {
            "propertyName": "type",
            "mapping": {type_: _REF.format(name=f"{shape}Event") for shape, names in types.items() for type_ in names},
        },
    }
    return {**schemas, _EVENT: any_kind, **kinds, **described}


def _event_of(item: Schema, shape: str, types: list[str]) -> Schema:
    """An event with this shape of `data`."""
    named = {**item["properties"]["type"], "enum": types, "examples": types[:1]}
    properties = {**item["properties"], "type": named, "data": {"$ref": _REF.format(name=shape)}}
    return {
        **item,
        "title": f"{shape}Event",
        "description": f"An event of {', '.join(types)}.",
        "properties": properties,
    }


def _without_places(schema: Mapping[str, Any]) -> Schema:
    """A schema whose description does not name places of the specification."""
    return {**schema, "description": _PLACE.sub("", " ".join(schema["description"].split()))}
