"""Joins JSON envelopes from encoded parts, so that a cached response is never encoded twice (spec 2.1, 7.1)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from gateway.http.errors import Refused

_REMEMBERED_MAX = 500
"""Maximum length, in characters, of a message whose encoded form is cached."""


def fragment(platform: str, endpoint: str, data: Any, pagination: Any = None) -> bytes:
    """Encode the part of a successful response that is the same for all callers. The cache stores this part."""
    body = {"platform": platform, "endpoint": endpoint, "data": data}
    if pagination is not None:
        body["pagination"] = pagination
    return orjson.dumps(body)[1:-1]


def success(stored: bytes, *, request_id: str, credits_used: int, balance: int | None, cached: bool) -> bytes:
    """Return a complete success envelope around a fragment."""
    return b"".join(
        (
            b'{"success":true,',
            stored,
            b',"credits_used":',
            b"%d" % credits_used,
            b',"credits_remaining":',
            b"null" if balance is None else b"%d" % balance,
            b',"request_id":"',
            request_id.encode(),
            b'","cached":true}' if cached else b'","cached":false}',
        )
    )


def failure(refused: Refused, *, request_id: str, credits_used: int, balance: int | None, base_url: str) -> bytes:
    """Return an error envelope."""
    return b"".join(
        (
            b'{"success":false,',
            error_fragment(refused, base_url),
            b',"credits_used":%d,"credits_remaining":' % credits_used,
            b"null" if balance is None else b"%d" % balance,
            b',"request_id":"',
            request_id.encode(),
            b'"}',
        )
    )


def error_fragment(refused: Refused, base_url: str) -> bytes:
    """Encode the part of an error envelope that is the same for all callers."""
    code = refused.code
    if not refused.details and len(refused.message) <= _REMEMBERED_MAX:
        return _plain_error(code.name, refused.message, code.status, base_url)
    details = {"details": refused.details} if refused.details else {}
    return _error(code.name, refused.message, code.status, base_url, **details)


def _error(name: str, message: str, status: int, base_url: str, **details: Any) -> bytes:
    doc_url = f"{base_url}/docs/errors#{name}"
    error = {"type": name, "message": message, "status": status, "doc_url": doc_url, **details}
    return orjson.dumps({"error": error})[1:-1]


_plain_error = lru_cache(maxsize=1_000)(_error)
"""During a flood, most errors have no details and are identical, so their text is cached. The gain was measured."""


def error_name(stored: bytes) -> str:
    """Return the name of the error code in an encoded error fragment."""
    return str(orjson.loads(b"{%b}" % stored)["error"]["type"])


def replay(stored: bytes, *, status: int, request_id: str, balance: int | None, cached: bool) -> bytes:
    """Return the envelope of an earlier outcome: its stored fragment and request id, at no cost (decisions 7)."""
    tail = (b',"cached":true' if cached else b',"cached":false') if status < 400 else b""
    return b"".join(
        (
            b'{"success":true,' if status < 400 else b'{"success":false,',
            stored,
            b',"credits_used":0,"credits_remaining":',
            b"null" if balance is None else b"%d" % balance,
            b',"request_id":"',
            request_id.encode(),
            b'"',
            tail,
            b',"idempotent_replay":true}',
        )
    )
