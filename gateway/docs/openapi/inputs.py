"""The parameters and bodies of the OpenAPI document; a parameter that several operations have stands there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from gateway.docs.guide import example_body
from gateway.docs.operations import ApiOperation
from gateway.docs.samples import Schema
from upstreams.model.params import Param

_TYPES: Final = {"string": "string", "url": "string", "integer": "integer", "boolean": "boolean"}
_ONCE: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes a repetition safe: the same key and request are charged and done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_REFRESH: Final = {
    "name": "Cache-Control",
    "in": "header",
    "description": "`no-cache` asks for a billed refresh.",
    "schema": {"type": "string", "examples": ["no-cache"]},
}


def _header(description: str, kind: str = "integer") -> Schema:
    return {"description": description, "schema": {"type": kind}}


HEADERS: Final[dict[str, Schema]] = {
    "X-Request-Id": _header("The request's id, as in the body.", "string"),
    "X-Credits-Used": _header("Credits that the request cost."),
    "X-Credits-Remaining": _header("The balance after it; left out while it is not known."),
    "X-Cache": {"description": "Whether the cache answered.", "schema": {"type": "string", "enum": ["HIT", "MISS"]}},
    "X-RateLimit-Limit": _header("Requests that a key may make in a minute."),
    "X-RateLimit-Remaining": _header("Requests that are left."),
    "X-RateLimit-Reset": _header("Seconds until a place is free again."),
    "X-Next-Cursor": _header("`pagination.next_cursor`, where the body is no JSON.", "string"),
    "Retry-After": _header("Seconds to wait before the next try."),
    "Allow": _header("The methods that the path takes.", "string"),
}


class Inputs:
    """Makes the parameters of operations, and keeps those that are shared."""

    def __init__(self, operations: Iterable[ApiOperation]) -> None:
        used = Counter(param for one in operations for param in (*one.in_path, *one.query))
        self.parameters: dict[str, Schema] = {"IdempotencyKey": _ONCE, "CacheControl": _REFRESH}
        self._names: dict[Param, str] = {}
        self._in_path = {param for one in operations for param in one.in_path}
        for param, times in used.items():
            if times > 1:
                self._share(param)

    def _share(self, param: Param) -> None:
        number = sum(1 for other in self._names if other.name == param.name)
        name = param.name if number == 0 else f"{param.name}.{number + 1}"
        self._names[param] = name
        self.parameters[name] = _parameter(param, "path" if param in self._in_path else "query")

    def of(self, operation: ApiOperation) -> list[Schema]:
        """The parameters of an operation."""
        found = [*(self._one(param, "path") for param in operation.in_path), *map(self._one, operation.query)]
        if operation.once:
            found.append({"$ref": "#/components/parameters/IdempotencyKey"})
        if operation.listing is not None:
            found.append({"$ref": "#/components/parameters/CacheControl"})
        return found

    def _one(self, param: Param, place: str = "query") -> Schema:
        shared = self._names.get(param)
        return _parameter(param, place) if shared is None else {"$ref": f"#/components/parameters/{shared}"}

    def body(self, operation: ApiOperation) -> Schema | None:
        """The request's body; None where it has none."""
        if operation.route.body is None:
            return None
        due = [field.name for field in operation.body if field.required]
        schema: Schema = {
            "type": "object",
            "properties": {field.name: field.schema for field in operation.body},
            "additionalProperties": False,
        }
        if due:
            schema["required"] = due
        media = {"schema": schema, "example": example_body(operation)}
        return {"required": bool(due), "content": {"application/json": media}}


def _parameter(param: Param, place: str) -> Schema:
    made: dict[str, Any] = {
        "name": param.name,
        "in": place,
        "description": param.description,
        "schema": _schema(param),
        "example": _typed(param, param.example),
    }
    if param.required:
        made["required"] = True
    return made


def _schema(param: Param) -> Schema:
    schema: Schema = {"type": _TYPES[param.type]}
    if param.choices:
        schema["enum"] = list(param.choices)
    elif schema["type"] == "string":
        schema["maxLength"] = param.length_max
    bounds = {"minimum": param.minimum, "maximum": param.maximum, "default": param.default}
    return schema | {name: value for name, value in bounds.items() if value is not None}


def _typed(param: Param, text: str) -> Any:
    if param.type == "integer":
        return int(text)
    return text in ("1", "true") if param.type == "boolean" else text
