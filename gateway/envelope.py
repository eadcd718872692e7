"""The JSON envelopes, joined from encoded parts so that a cached answer is never encoded twice (spec 2.1, 7.1)."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.errors import Refused


def fragment(platform: str, endpoint: str, data: Any, pagination: Any = None) -> bytes:
    """The part of a success that does not depend on who asked: what the cache stores."""
    body = {"platform": platform, "endpoint": endpoint, "data": data}
    if pagination is not None:
        body["pagination"] = pagination
    return orjson.dumps(body)[1:-1]


def success(stored: bytes, *, request_id: str, credits_used: int, balance: int | None, cached: bool) -> bytes:
    """A whole success envelope around a fragment."""
    return b'{"success":true,%b,"credits_used":%d,"credits_remaining":%b,"request_id":"%b","cached":%b}' % (
        stored,
        credits_used,
        _balance(balance),
        request_id.encode(),
        b"true" if cached else b"false",
    )


def failure(
    refused: Refused,
    *,
    request_id: str,
    credits_used: int,
    balance: int | None,
    base_url: str,
    status: int | None = None,
) -> bytes:
    """An error envelope; `status` where the HTTP edge answers with one of its own."""
    return b'{"success":false,%b,"credits_used":%d,"credits_remaining":%b,"request_id":"%b"}' % (
        error_fragment(refused, base_url, status),
        credits_used,
        _balance(balance),
        request_id.encode(),
    )


def error_fragment(refused: Refused, base_url: str, status: int | None = None) -> bytes:
    """The part of an error envelope that does not depend on who asked."""
    code = refused.code
    error: dict[str, Any] = {
        "type": code.name,
        "message": refused.message,
        "status": status or code.status,
        "doc_url": f"{base_url}/docs/errors#{code.name}",
    }
    if refused.details:
        error["details"] = refused.details
    return orjson.dumps({"error": error})[1:-1]


def error_name(stored: bytes) -> str:
    """The code's name in the fragment of an error."""
    return str(orjson.loads(b"{%b}" % stored)["error"]["type"])


def replay(stored: bytes, *, status: int, request_id: str, balance: int | None, cached: bool) -> bytes:
    """The envelope of an earlier outcome: its own fragment and request id, at no cost (decisions 7)."""
    tail = b',"cached":%b' % (b"true" if cached else b"false") if status < 400 else b""
    return b'{"success":%b,%b,"credits_used":0,"credits_remaining":%b,"request_id":"%b"%b,"idempotent_replay":true}' % (
        b"true" if status < 400 else b"false",
        stored,
        _balance(balance),
        request_id.encode(),
        tail,
    )


def _balance(balance: int | None) -> bytes:
    return b"null" if balance is None else b"%d" % balance
