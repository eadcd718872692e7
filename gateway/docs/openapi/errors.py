"""The errors of the OpenAPI document: a shared response for each status, and a default for errors of any request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gateway.docs.errors import REASONS, errors_of
from gateway.docs.operations import ApiOperation
from gateway.docs.samples import Schema
from gateway.http.codes import CODES, OF_THE_EDGE

_ANYWHERE: Final = ("METHOD_NOT_ALLOWED", *OF_THE_EDGE.values())
_OF_KEYS: Final = ("MISSING_API_KEY", "INVALID_API_KEY", "RATE_LIMITED", "CONCURRENCY_LIMIT", "SERVICE_UNAVAILABLE")
_OF_MONEY: Final = ("INSUFFICIENT_CREDITS", "KEY_BUDGET_EXCEEDED", *(name for name in CODES if "IDEMPOTENCY" in name))
_OF_DATA: Final = ("RESOURCE_NOT_FOUND", "UPSTREAM_ERROR")
_DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "AnyError": _ANYWHERE,
        "KeyError": (*_ANYWHERE, *_OF_KEYS),
        "DataError": (*_ANYWHERE, *_OF_KEYS, *_OF_MONEY, *_OF_DATA),
    }
)
"""The error codes that default responses cover: for any operation, for operations that require a key, and for data
endpoints. Data endpoints have no other errors, so that 500 of them need only one reference each.
"""
BALANCE: Final = {
    "type": ["integer", "null"],
    "description": "The balance after the request; null if unknown.",
}
REQUEST_ID: Final = {"type": "string", "description": "The request's id."}
_ERROR_BODY: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": list(CODES)},
        "message": {"type": "string"},
        "status": {"type": "integer"},
        "doc_url": {"type": "string", "format": "uri"},
        "details": {"type": "object", "description": "A `reason` or `did_you_mean`, and more."},
    },
    "required": ["type", "message", "status", "doc_url"],
}
_ERROR: Final[Schema] = {
    "type": "object",
    "properties": {
        "success": {"const": False},
        "error": {"$ref": "#/components/schemas/ErrorBody"},
        "credits_used": {"type": "integer", "minimum": 0},
        "credits_remaining": BALANCE,
        "request_id": REQUEST_ID,
        "idempotent_replay": {"type": "boolean"},
    },
    "required": ["success", "error", "credits_used", "credits_remaining", "request_id"],
}
ERROR_SCHEMAS: Final = {"Error": _ERROR, "ErrorBody": _ERROR_BODY}


def errors_in(operation: ApiOperation) -> dict[str, Schema]:
    """Return the error responses of an operation, by status."""
    doc = operation.route.doc
    default = "DataError" if doc is None else "AnyError" if doc.is_public else "KeyError"
    shared = {CODES[name].status for name in _DEFAULTS[default]}
    statuses = {CODES[name].status for name in errors_of(operation)} - shared
    found = {str(status): {"$ref": f"#/components/responses/E{status}"} for status in sorted(statuses)}
    return {**found, "default": {"$ref": f"#/components/responses/{default}"}}


def error_responses(base_url: str) -> dict[str, Schema]:
    """Return the error responses. `x-error-codes` lists their codes, `x-error-reasons` the reasons in `details`."""
    by_status: defaultdict[int, list[str]] = defaultdict(list)
    for code in CODES.values():
        by_status[code.status].append(code.name)
    found = {f"E{status}": _error_response(status, names, base_url) for status, names in by_status.items()}
    return {**found, **{name: _default(codes, base_url) for name, codes in _DEFAULTS.items()}}


def _default(codes: Sequence[str], base_url: str) -> Schema:
    """Return the default response, for errors without an entry by status. `x-error-codes` lists all of them."""
    response = _error_response(CODES[codes[0]].status, codes, base_url)
    headers = headers_of(("Allow", "Retry-After"))
    return {**response, "description": "An error that any request of this kind can return.", "headers": headers}


def headers_of(names: Iterable[str]) -> Schema:
    """Return references to headers, by name."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


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
    media = {"schema": {"$ref": "#/components/schemas/Error"}, "example": example}
    response: Schema = {
        "description": " ".join(CODES[name].condition for name in names),
        **({"headers": headers_of(more)} if more else {}),
        "content": {"application/json": media},
        "x-error-codes": list(names),
    }
    reasons = {name: [one.name for one in REASONS.values() if one.code == name] for name in names}
    if any(reasons.values()):
        response["x-error-reasons"] = {name: found for name, found in reasons.items() if found}
    return response
