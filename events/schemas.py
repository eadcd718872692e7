"""The JSON schemas of the events' data, from the same structs that write it: for OpenAPI and the pages of the docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from events.log.kinds import KINDS

Schema: TypeAlias = Mapping[str, Any]


def data_schema(type_name: str) -> Schema:
    """The whole schema of one type's `data`, with what it refers to in `$defs`."""
    return msgspec.json.schema(KINDS[type_name].data)


def data_schemas(
    ref_template: str = "#/components/schemas/{name}",
) -> tuple[Mapping[str, Schema], Mapping[str, Schema]]:
    """Each type's reference to the schema of its `data`, and the schemas that are referred to, by name."""
    shapes = list(dict.fromkeys(kind.data for kind in KINDS.values()))
    references, components = msgspec.json.schema_components(shapes, ref_template=ref_template)
    by_shape = dict(zip(shapes, references, strict=True))
    return {name: by_shape[kind.data] for name, kind in KINDS.items()}, components
