"""Section 7.2 over HTTP itself: protocol errors have rows in the table, the same on both engines.

`tests/gateway/server/test_time_bounds.py` has the timeouts (408).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.node import OpenNode, open_test_node
from tests.spec.raw import raw_request
from tests.spec.refusals import assert_refused

PROFILE = "/v1/github/profile?handle=octocat"
GET = f"GET {PROFILE} HTTP/1.1"
SOCKET = "GET /v1/events/ws HTTP/1.1"
HANDSHAKE = ("connection: upgrade", "upgrade: websocket", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


@dataclass(frozen=True, slots=True)
class Sent:
    """A request's head, its body, and the error."""

    code: str
    status: int
    lines: tuple[str, ...]
    body: bytes = b""
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def wrong(param: str, *lines: str, body: bytes = b"") -> Sent:
    return Sent("INVALID_REQUEST", 400, lines, body, param)


SENT = {
    "an unknown method": Sent("METHOD_NOT_ALLOWED", 405, (f"BREW {PROFILE} HTTP/1.1",), headers={"allow": "GET, HEAD"}),
    "an unknown method on a POST-only path": Sent(
        "METHOD_NOT_ALLOWED", 405, ("BREW /v1/monitors/mon_1/run HTTP/1.1",), headers={"allow": "POST"}
    ),
    "an unknown method on a page": Sent(
        "METHOD_NOT_ALLOWED", 405, ("POST /docs/errors HTTP/1.1",), headers={"allow": "GET, HEAD"}
    ),
    "an unknown method on an unknown path": Sent("ENDPOINT_NOT_FOUND", 404, ("BREW /v1/nowhere HTTP/1.1",)),
    "a proxy's method": Sent("NOT_IMPLEMENTED", 501, ("CONNECT a.example:443 HTTP/1.1",)),
    "a method in lower case": wrong("request", f"get {PROFILE} HTTP/1.1"),
    "letters without percent-encoding": wrong("request", "GET /v1/github/profile?handle=\u00fc HTTP/1.1"),
    "a long target": Sent("URI_TOO_LONG", 414, (f"GET /v1/github/profile?handle={'a' * 17_000} HTTP/1.1",)),
    "many headers": Sent("HEADERS_TOO_LARGE", 431, (GET, *[f"x-{number}: a" for number in range(101)])),
    "another expectation": Sent("EXPECTATION_FAILED", 417, (GET, "expect: 200-ok")),
    "another version": Sent("HTTP_VERSION_NOT_SUPPORTED", 505, (f"GET {PROFILE} HTTP/1.2",)),
    "another version of WebSocket": Sent(
        "UPGRADE_REQUIRED", 426, (SOCKET, *HANDSHAKE, "sec-websocket-version: 8"), headers={"upgrade": "websocket"}
    ),
    "a request without a WebSocket handshake": Sent(
        "UPGRADE_REQUIRED", 426, (SOCKET,), headers={"upgrade": "websocket"}
    ),
    "a compressed body": Sent(
        "UNSUPPORTED_MEDIA_TYPE",
        415,
        ("POST /v1/monitors HTTP/1.1", "content-encoding: gzip", "content-length: 2"),
        b"{}",
        "Content-Encoding",
        {"accept-encoding": "identity"},
    ),
    "a repeated field name": wrong(
        "recipe", "POST /v1/monitors HTTP/1.1", "content-length: 27", body=b'{"recipe":"a","recipe":"b"}'
    ),
    "two idempotency keys": wrong("idempotency-key", GET, "idempotency-key: a", "idempotency-key: a"),
    "two API keys": wrong("x-api-key", GET, "x-api-key: sl_x"),
}


@BOTH
async def test_http_errors_use_the_envelope_and_match_their_table_row(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        for name, sent in SENT.items():
            answer = await raw_request(node.url, (*sent.lines, f"x-api-key: {node.key}"), sent.body)
            details = assert_refused(answer, sent.code, sent.status)
            assert details.get("param") == sent.param, name
            assert {header: answer.headers.get(header) for header in sent.headers} == sent.headers, name
        assert await node.money() == (100_000, 0)


async def stream_of(node: OpenNode, *accept: str) -> str:
    lines = ("GET /v1/hackernews/search?query=trio&limit=1 HTTP/1.0", f"x-api-key: {node.key}")
    answer = await raw_request(node.url, (*lines, *(f"accept: {one}" for one in accept)), ends_with_connection=True)
    return answer.headers["content-type"]


@BOTH
async def test_accept_qualities_are_respected(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        for accept in (("text/event-stream",), ("application/json;q=0.5", "text/event-stream")):
            assert (await stream_of(node, *accept)).startswith("text/event-stream"), accept
        for accept in (("application/json, text/event-stream;q=0.5",), ("text/event-stream;q=0.5", "*/*")):
            assert await stream_of(node, *accept) == "application/json", accept
