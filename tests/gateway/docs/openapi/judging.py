"""Read the OpenAPI document of a node, and validate values with its schemas."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator

from tests.fakes.node import OpenNode


class Document(dict[str, Any]):
    """An OpenAPI document."""

    @cached_property
    def strict_components(self) -> dict[str, Any]:
        """The components, whose schemas reject unknown fields. Making them takes longer than using them."""
        return {"schemas": closed(self["components"]["schemas"])}


async def document_of(node: OpenNode, query: str = "") -> Document:
    """The document, which is public and cacheable."""
    answer = await node.get(f"/v1/openapi.json{query}", key=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), answer.body[:300]
    assert answer.headers["cache-control"] == "public, max-age=300"
    return Document(answer.json)


def closed(schemas: dict[str, Any]) -> dict[str, Any]:
    """Make schemas reject unknown fields, so that undescribed fields are found."""
    joined = {ref for one in schemas.values() for part in one.get("allOf", ()) for ref in [part.get("$ref")] if ref}
    return {name: _closed(one, is_part=f"#/components/schemas/{name}" in joined) for name, one in schemas.items()}


def _closed(value: Any, *, is_part: bool = False) -> Any:
    if isinstance(value, list):
        return [_closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "allOf" in value:
        return {
            **value,
            "allOf": [_closed(one, is_part=True) for one in value["allOf"]],
            "unevaluatedProperties": False,
        }
    inner = {name: _closed(one) for name, one in value.items()}
    is_open = is_part or not isinstance(value.get("properties"), dict)
    return inner if is_open else {"additionalProperties": False, **inner}


def flaws(document: Document, schema: dict[str, Any], value: Any) -> list[str]:
    """Return the differences between a value and a schema of the document. Unknown fields count as differences."""
    errors = Draft202012Validator({**schema, "components": document.strict_components}).iter_errors(value)
    return [f"{list(error.path)}: {error.message[:300]}" for error in errors]
