"""The same app on both engines sends the same responses."""

import pytest

from tests.gateway.server.apps import BIG, STREAMED, PathApp
from tests.gateway.server.raw_client import Answer, open_served

H = b"Host: a\r\n"
SAME = {
    "fixed": (b"GET / HTTP/1.1\r\n" + H + b"\r\n", b"ok"),
    "missing": (b"GET /nowhere HTTP/1.1\r\n" + H + b"\r\n", b"missing"),
    "echo": (b"POST /echo HTTP/1.1\r\n" + H + b"Content-Length: 3\r\n\r\nabc", b"abc"),
    "chunks": (
        b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
        b"abc",
    ),
    "stream": (b"GET /stream HTTP/1.1\r\n" + H + b"\r\n", b"".join(STREAMED)),
    "big": (b"GET /big HTTP/1.1\r\n" + H + b"\r\n", BIG),
    "empty": (b"GET /empty HTTP/1.1\r\n" + H + b"\r\n", b""),
    "unchanged": (b"GET /unchanged HTTP/1.1\r\n" + H + b"\r\n", b""),
    "scope": (b"GET /scope?a=%20b&c HTTP/1.1\r\n" + H + b"X-Y: z\r\n\r\n", None),
    "encoded": (b"GET /%73cope HTTP/1.1\r\n" + H + b"\r\n", None),
    "failing": (
        b"GET /boom HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n",
        b"edge 500: The server failed on this request.",
    ),
    "websocket": (
        b"GET /nowhere HTTP/1.1\r\n" + H + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        b"missing",
    ),
}


def comparable(answer: Answer) -> tuple[int, set[tuple[bytes, bytes]], bytes]:
    """Return a response without its date and its framing, which differ between engines."""
    own = {b"date", b"transfer-encoding", b"content-length", b"connection"}
    return answer.status, {header for header in answer.headers if header[0].lower() not in own}, answer.body


@pytest.mark.parametrize(("request_bytes", "body"), SAME.values(), ids=SAME.keys())
async def test_both_engines_send_the_same_response(request_bytes: bytes, body: bytes | None):
    answers = []
    for engine in ("native", "hypercorn"):
        async with open_served(PathApp(), engine=engine) as served, await served.connect() as client:
            answers.append(await client.ask(request_bytes))
    assert comparable(answers[0]) == comparable(answers[1])
    assert body is None or answers[0].body == body


@pytest.mark.parametrize("engine", ["native", "hypercorn"])
async def test_receive_reports_disconnect_to_a_parked_app(engine: str):
    app = PathApp()
    async with open_served(app, engine=engine) as served:
        async with await served.connect() as client:
            await client.send(b"GET /park HTTP/1.1\r\n" + H + b"\r\n")
            await app.parked.wait()
        await app.left.wait()
        assert app.seen == ["http.disconnect"]
