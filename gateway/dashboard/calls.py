"""Forms that call any operation: the operation, the values of its fields, and the resulting request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from gateway.dashboard.forms import FieldRefused
from gateway.docs.guide import example_body
from gateway.docs.operations import ApiOperation, Reference
from gateway.http.params import DRY_RUN

QUERY: Final = "p."
BODY: Final = "b."
"""Prefixes of form field names for values in the query (or path), and in the body."""
_HIDDEN: Final = (DRY_RUN.name,)
_LONG: Final = 120


@dataclass(frozen=True, slots=True)
class CallField:
    """A field of a call: its name in the form, and how it is displayed."""

    name: str
    label: str
    hint: str
    example: str
    value: str
    required: bool
    choices: tuple[str, ...] = ()
    kind: str = "text"
    """The kind of input: text, number, or area for JSON. URLs use text, because users may omit the scheme."""


@dataclass(frozen=True, slots=True)
class CallRequestDraft:
    """The request that a form describes."""

    method: str
    target: str
    body: Any = None

    @property
    def encoded(self) -> bytes:
        """Return the encoded body."""
        return b"" if self.body is None else orjson.dumps(self.body)


def find_operation(reference: Reference, id_: str, method: str) -> ApiOperation | None:
    """Return the operation with this id. Without a method, return the first one that can be called."""
    found = [one for one in callable_operations(reference) if one.id == id_ and method in ("", one.method)]
    return found[0] if found else None


def callable_operations(reference: Reference) -> list[ApiOperation]:
    """Return the operations that a page can call: all except streams and file uploads."""
    return [one for one in reference.offered if not one.path.endswith("/ws") and not one.is_form]


def fields_of_call(operation: ApiOperation, sent: Mapping[str, str]) -> list[CallField]:
    """Return the fields of an operation's form, required fields first. `sent` has their current values."""
    grouped = {name for group in operation.one_of for name in group}
    shown = [param for param in operation.query if param.name not in _HIDDEN]
    taken = [(param, True) for param in operation.in_path]
    taken += [(param, param.required or param.name in grouped) for param in shown]
    fields = [
        CallField(
            name=f"{QUERY}{param.name}",
            label=param.name,
            hint=param.description + (" One of these is required." if param.name in grouped else ""),
            example=param.example,
            value=sent.get(f"{QUERY}{param.name}", ""),
            required=is_first,
            choices=("true", "false") if param.type == "boolean" else param.choices,
            kind="number" if param.type == "integer" else "text",
        )
        for param, is_first in taken
    ]
    fields += _body_fields(operation, sent)
    return sorted(fields, key=lambda field: not field.required)


def _body_fields(operation: ApiOperation, sent: Mapping[str, str]) -> Iterable[CallField]:
    examples = example_body(operation)
    for field in operation.body:
        name = f"{BODY}{field.name}"
        example = orjson.dumps(examples[field.name]).decode() if field.name in examples else ""
        value = sent.get(name, example if field.required else "")
        hint = f"{field.schema.get('description', '')} As JSON; text needs no quotes.".strip()
        kind = "area" if field.schema.get("type") in ("array", "object") or len(value) > _LONG else "text"
        yield CallField(name, field.name, hint, example, value, field.required, kind=kind)


def request_of(operation: ApiOperation, sent: Mapping[str, str], *, is_dry: bool = False) -> CallRequestDraft:
    """Build the request from the fields that are not empty.

    Raises:
        FieldRefused: a path parameter is missing, or a field is not valid JSON.
    """
    path = operation.path
    for param in operation.in_path:
        value = sent.get(f"{QUERY}{param.name}", "")
        if not value:
            raise FieldRefused(f"{QUERY}{param.name}", "is part of the path and is required")
        path = path.replace(f"{{{param.name}}}", quote(value, safe=""))
    names = [param.name for param in operation.query if param.name not in _HIDDEN]
    query = [(name, sent[f"{QUERY}{name}"]) for name in names if sent.get(f"{QUERY}{name}")]
    if is_dry:
        query.append((DRY_RUN.name, "1"))
    target = f"{path}?{urlencode(query)}" if query else path
    return CallRequestDraft(operation.method, target, _body_of(operation, sent) if operation.body else None)


def _body_of(operation: ApiOperation, sent: Mapping[str, str]) -> dict[str, Any]:
    body = {}
    for field in operation.body:
        if text := sent.get(f"{BODY}{field.name}", ""):
            body[field.name] = _json(f"{BODY}{field.name}", text)
    return body


def _json(name: str, text: str) -> Any:
    """Parse text that looks like JSON; return any other text unchanged."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        if text[0] in '[{"':
            raise FieldRefused(name, f"is not valid JSON: {exc}") from exc
        return text


def can_be_priced(operation: ApiOperation) -> bool:
    """Return whether the price of the operation can be estimated before the call."""
    return any(param.name == DRY_RUN.name for param in operation.query)
