"""The answers of the OpenAPI document: an envelope around the data of each archetype, and errors by their status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from gateway.docs.operations import ApiOperation
from gateway.docs.samples import Schema
from gateway.docs.schemas import openapi_schemas
from gateway.http.codes import CODES, OF_THE_EDGE
from upstreams.model.archetypes import Archetype

_REF: Final = "#/components/schemas/{name}"
_ID: Final = {"type": "string", "description": "The request's id."}
_BALANCE: Final = {"type": ["integer", "null"], "description": "The balance after it; null while it is not known."}
_ENVELOPE: Final[Schema] = {
    "type": "object",
    "description": "The fields of every success.",
    "properties": {
        "success": {"const": True},
        "platform": {"type": "string"},
        "endpoint": {"type": "string", "description": "The path that was called."},
        "credits_used": {"type": "integer", "minimum": 0},
        "credits_remaining": _BALANCE,
        "request_id": _ID,
        "cached": {"type": "boolean"},
        "idempotent_replay": {"type": "boolean"},
        "replayed": {"type": "boolean"},
    },
    "required": ["success", "platform", "endpoint", "credits_used", "credits_remaining", "request_id", "cached"],
}
_PAGINATION: Final[Schema] = {
    "type": "object",
    "properties": {
        "next_cursor": {"type": ["string", "null"], "description": "Send it back as `cursor`."},
        "has_more": {"type": "boolean"},
        "page_size": {"type": "integer"},
    },
    "required": ["next_cursor", "has_more", "page_size"],
}
_ERROR: Final[Schema] = {
    "type": "object",
    "properties": {
        "success": {"const": False},
        "error": {
            "type": "object",
            "properties": {
                "type": {"type": "string", "enum": list(CODES)},
                "message": {"type": "string"},
                "status": {"type": "integer"},
                "doc_url": {"type": "string", "format": "uri"},
                "details": {"type": "object", "description": "A `reason` or `did_you_mean`, and more."},
            },
            "required": ["type", "message", "status", "doc_url"],
        },
        "credits_used": {"type": "integer", "minimum": 0},
        "credits_remaining": _BALANCE,
        "request_id": _ID,
        "idempotent_replay": {"type": "boolean"},
    },
    "required": ["success", "error", "credits_used", "credits_remaining", "request_id"],
}
_DRY_RUN: Final[Schema] = {
    "description": "With `dry_run`: nothing was made.",
    "content": {
        "application/json": {"schema": {"allOf": [{"$ref": _REF.format(name="Envelope")}, {"required": ["data"]}]}}
    },
}
_TEXT: Final = {
    "text/csv": "The rows, a column for each field.",
    "application/x-ndjson": "The rows, each as JSON on a line of its own.",
    "text/event-stream": "Server-sent events: a `page` event for each page read, then `result` with the envelope.",
}
_FEED_STREAM: Final = "Server-sent events: each has an event's cursor as `id`, its type as `event`, its JSON as `data`."
_FREE_HEADERS: Final = ("X-Request-Id", "X-Credits-Used", "X-Credits-Remaining", "X-RateLimit-Limit")
_WINDOW: Final = ("X-RateLimit-Remaining", "X-RateLimit-Reset")


class Answers:
    """Makes the answers of operations, and keeps what they refer to."""

    def __init__(self) -> None:
        self.responses: dict[str, Schema] = {}
        self._types: dict[str, Any] = {}

    def of(self, operation: ApiOperation, forms: Sequence[str]) -> dict[str, Schema]:
        """The operation's success by its status."""
        doc = operation.route.doc
        if doc is None:
            name = operation.archetype + ("Stream" if "text/event-stream" in forms else "")
            if name not in self.responses:
                self.responses[name] = self._data_response(operation, forms)
            return {"200": {"$ref": f"#/components/responses/{name}"}}
        if doc.answer is not None:
            self._types[operation.archetype] = doc.answer
        found = {str(doc.status): self._described(operation, forms)}
        return {"200": _DRY_RUN, **found} if doc.beside else found

    def take(self, type_: Any) -> Schema:
        """Return a reference to the schema of a type."""
        self._types[type_.__name__] = type_
        return {"$ref": _REF.format(name=type_.__name__)}

    def schemas(self, archetypes: Iterable[Archetype]) -> dict[str, Schema]:
        """The schemas that any answer may refer to."""
        _, own = msgspec.json.schema_components(list(self._types.values()), ref_template=_REF)
        return {"Envelope": _ENVELOPE, "Pagination": _PAGINATION, "Error": _ERROR, **openapi_schemas(archetypes), **own}

    def _data_response(self, operation: ApiOperation, forms: Sequence[str]) -> Schema:
        extra = ("X-Cache", "X-Next-Cursor") if operation.paginated else ("X-Cache",)
        return {
            "description": f"{operation.archetype}, in the envelope.",
            "headers": _headers((*_FREE_HEADERS, *_WINDOW, *extra)),
            "content": {form: self._media(operation, form) for form in forms},
        }

    def _described(self, operation: ApiOperation, forms: Sequence[str]) -> Schema:
        doc = operation.route.doc
        assert doc is not None, "a data endpoint's answer is shared"
        names = ("X-Request-Id",) if doc.is_public else (*_FREE_HEADERS, *_WINDOW)
        response: Schema = {"description": _said(doc.status, operation.summary), "headers": _headers(names)}
        if doc.status not in (101, 204):
            response["content"] = {form: self._media(operation, form) for form in forms}
        return response

    def _media(self, operation: ApiOperation, form: str) -> Schema:
        if form != "application/json":
            told = _FEED_STREAM if operation.listing is None and form == "text/event-stream" else _TEXT.get(form)
            return {"schema": {"type": "string", **({"description": told} if told else {})}}
        return {"schema": _enveloped(operation) if operation.archetype else {"type": "object"}}


def _enveloped(operation: ApiOperation) -> Schema:
    reference = {"$ref": _REF.format(name=operation.archetype)}
    envelope = {"$ref": _REF.format(name="Envelope")}
    if operation.route.doc is not None and operation.route.doc.beside:
        return {"allOf": [envelope, reference]}
    own: Schema = {"type": "object", "properties": {"data": reference}, "required": ["data"]}
    if operation.paginated or operation.archetype.endswith("sData"):
        own["properties"]["pagination"] = {"$ref": _REF.format(name="Pagination")}
    return {"allOf": [envelope, own]}


def _said(status: int, summary: str) -> str:
    return {204: "It is done; there is no body.", 101: "The connection is a WebSocket from here on."}.get(
        status, summary
    )


def _headers(names: Iterable[str]) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def error_responses(base_url: str) -> dict[str, Schema]:
    """The answers with an error, by their status; `x-error-codes` lists the codes."""
    by_status: defaultdict[int, list[str]] = defaultdict(list)
    for code in CODES.values():
        by_status[code.status].append(code.name)
    found = {f"E{status}": _error_response(status, names, base_url) for status, names in by_status.items()}
    edge = _error_response(431, list(OF_THE_EDGE.values()), base_url)
    return {**found, "EdgeError": {**edge, "description": "Refused before the API was asked: HTTP's own rules."}}


def _error_response(status: int, names: Sequence[str], base_url: str) -> Schema:
    more = {405: ("Allow",), 409: ("Retry-After",), 429: ("Retry-After",), 503: ("Retry-After",)}.get(status, ())
    example = {
        "success": False,
        "error": {
            "type": names[0],
            "message": CODES[names[0]].condition,
            "status": status,
            "doc_url": f"{base_url}/docs/errors#{names[0]}",
        },
        "credits_used": 0,
        "credits_remaining": None,
        "request_id": "req_01a1fd6f28fd7bba92988ba98f5dc154",
    }
    media = {"schema": {"$ref": _REF.format(name="Error")}, "example": example}
    return {
        "description": " ".join(CODES[name].condition for name in names),
        "headers": _headers(("X-Request-Id", *more)),
        "content": {"application/json": media},
        "x-error-codes": list(names),
    }
