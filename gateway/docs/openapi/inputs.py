"""The parameters and request bodies of the OpenAPI document. A parameter shared by operations is defined once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, Final

from gateway.docs.guide import canonical_form, example_body
from gateway.docs.openapi.answers import REF
from gateway.docs.operations import ApiOperation
from gateway.docs.samples import Schema
from gateway.http.params import FIELDS
from upstreams.model.params import Param

_TYPES: Final = {"string": "string", "url": "string", "integer": "integer", "boolean": "boolean"}
_ONCE: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes retries safe: a request repeated with the same key is run and charged once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_ONCE_REF: Final = {"$ref": "#/components/parameters/once"}
REFRESH_REF: Final = {"$ref": "#/components/parameters/fresh"}
_SHORT: Final = {"max_credits": "max", "dry_run": "dry"}
"""Names of parameters that every data endpoint refers to."""
_REFRESH: Final = {
    "name": "Cache-Control",
    "in": "header",
    "description": "`no-cache` requests a billed refresh.",
    "schema": {"type": "string", "examples": ["no-cache"]},
}


def _header(description: str, kind: str = "integer", *, always: bool = False) -> Schema:
    header: Schema = {"description": description, "schema": {"type": kind}}
    return {**header, "required": True} if always else header


HEADERS: Final[dict[str, Schema]] = {
    "X-Request-Id": _header("The request's id, as in the body.", "string", always=True),
    "X-Credits-Used": _header("Credits that the request cost. A stream has them in its last event."),
    "X-Credits-Remaining": _header("The balance after the request; omitted if unknown."),
    "X-Sluice-Overhead-Ms": _header("Milliseconds not spent upstream.", "number"),
    "X-Cache": {
        "description": "Whether the response came from the cache.",
        "schema": {"type": "string", "enum": ["HIT", "MISS"]},
    },
    "X-RateLimit-Limit": _header("Requests that the key may make per minute.", always=True),
    "X-RateLimit-Remaining": _header("Requests left.", always=True),
    "X-RateLimit-Reset": _header("Seconds until another request is allowed.", always=True),
    "RateLimit-Policy": _header("The limit as a structured field.", "string", always=True),
    "RateLimit": _header("The remaining quota as a structured field.", "string", always=True),
    "X-Next-Cursor": _header("`pagination.next_cursor`, if the body is not JSON.", "string"),
    "ETag": _header("Send it back in `If-None-Match` to skip the body if nothing has changed.", "string"),
    "Retry-After": _header("Seconds to wait before retrying."),
    "Allow": _header("The methods that the path supports, if it does not support this one.", "string"),
}


class Inputs:
    """Builds the parameters of operations, and collects the shared parameters."""

    def __init__(self, operations: Iterable[ApiOperation], *, is_brief: bool) -> None:
        """With `is_brief`, parameters omit their canonical form, and data endpoints omit `Cache-Control`.

        Then `fields` also has no example, because its examples differ by archetype.
        """
        self._is_brief = is_brief
        users: dict[Param, list[ApiOperation]] = {}
        for one in operations:
            for param in (*one.in_path, *self._query(one)):
                users.setdefault(param, []).append(one)
        self.parameters: dict[str, Schema] = {"once": _ONCE, "fresh": _REFRESH}
        self.schemas: dict[str, Schema] = {}
        """The schemas that parameters and bodies refer to."""
        self._names: dict[Param, str] = {}
        self._in_path = {param for one in users.values() for user in one for param in user.in_path}
        shared = [param for param in users if len(users[param]) > 1]
        for param in sorted(shared, key=lambda one: -len(users[one])):
            self._share(param, users[param])

    def _share(self, param: Param, users: Sequence[ApiOperation]) -> None:
        """Register a parameter under the first free name: its own, with its platform, or with a number."""
        platforms = {one.platform for one in users}
        of_platform = f"{users[0].platform}.{param.name}" if len(platforms) == 1 else _SHORT.get(param.name, param.name)
        numbered = (f"{param.name}.{number}" for number in count(2))
        name = next(one for one in chain((of_platform,), numbered) if one not in self.parameters)
        self._names[param] = name
        made = self._parameter(param, "path" if param in self._in_path else "query")
        if "enum" in made["schema"]:
            made["schema"] = self._named(f"{type_name(name)}Choice", made["schema"])
        self.parameters[name] = made

    def _named(self, name: str, schema: Schema) -> Schema:
        self.schemas[name] = schema
        return {"$ref": REF.format(name=name)}

    def of(self, operation: ApiOperation) -> list[Schema]:
        """Return the parameters of an operation."""
        found = [*(self._one(param, "path") for param in operation.in_path), *map(self._one, self._query(operation))]
        if operation.once:
            found.append(_ONCE_REF)
        if operation.listing is not None and not self._is_brief:
            found.append(REFRESH_REF)
        return found

    def _query(self, operation: ApiOperation) -> list[Param]:
        is_shared = self._is_brief and operation.listing is not None
        return [replace(one, example="") if is_shared and one.name == FIELDS.name else one for one in operation.query]

    def _one(self, param: Param, place: str = "query") -> Schema:
        shared = self._names.get(param)
        return self._parameter(param, place) if shared is None else {"$ref": f"#/components/parameters/{shared}"}

    def _parameter(self, param: Param, place: str) -> Schema:
        made: dict[str, Any] = {
            "name": param.name,
            "in": place,
            "description": param.description,
            "schema": _schema(param),
        }
        if param.example:
            made["example"] = _typed(param, param.example)
        if param.required:
            made["required"] = True
        if not self._is_brief and (canonical := canonical_form(param)):
            made["x-canonical"] = {name: canonical[name] for name in canonical if canonical[name] and name != "example"}
        return made

    def body(self, operation: ApiOperation) -> Schema | None:
        """Return the request body; None if the operation has none."""
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
        name = f"{type_name(operation.name)}Body"
        media = {"schema": self._named(name, self._with_references(schema)), "example": example_body(operation)}
        return {"required": bool(due), "content": {operation.route.takes: media}}

    def _with_references(self, value: Any) -> Any:
        """Move each object with a title to a schema of that name, and replace it with a reference."""
        if isinstance(value, list):
            return [self._with_references(one) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {name: self._with_references(one) for name, one in value.items()}
        if "title" not in value or "properties" not in value:
            return inner
        beside = {name: inner.pop(name) for name in ("description", "examples") if name in inner}
        reference = self._named(inner.pop("title"), {**inner, "type": "object"})
        is_nullable = isinstance(value["type"], list)
        return {**beside, **({"anyOf": [reference, {"type": "null"}]} if is_nullable else reference)}


def type_name(name: str) -> str:
    """Return the type name for an operation or a parameter."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[._-]", name))


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
