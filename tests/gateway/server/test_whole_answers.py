"""A response sent in one message equals the response sent in ASGI's two messages."""

import pytest

from gateway.server.asgi import EXTENSION, Receive, Scope, Send
from gateway.server.http1.fields import fields_of
from tests.gateway.server.raw_client import Answer, open_served

BODIES = {b"/empty": b"", b"/small": b"x" * 900, b"/joined": b"y" * 65_536, b"/apart": b"z" * 3_000_000}
HEADERS = [(b"Content-Type", b"text/plain"), (b"x-a", b"100%"), (b"x%b", b"1"), (b"x-a", b"2"), (b"x-empty", b"")]
REQUESTS = [
    f"{method} {path} HTTP/{version}\r\nHost: a\r\n{more}\r\n".encode()
    for method in ("GET", "HEAD")
    for path in ("/empty", "/small", "/joined", "/apart")
    for version, more in (
        ("1.1", ""),
        ("1.0", ""),
        ("1.0", "Connection: keep-alive\r\n"),
        ("1.1", "Connection: close\r\n"),
    )
]


def app_of(status: int, *, whole: bool, headers: list[tuple[bytes, bytes]] = HEADERS):
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        body = BODIES[scope["raw_path"]] if status == 200 else b""
        if whole:
            assert EXTENSION in scope["extensions"]
            await send({"type": "sluice.answer", "status": status, "fields": fields_of(headers), "body": body})
            return
        sized = [*headers, (b"content-length", b"%d" % len(body))] if status == 200 else headers
        await send({"type": "http.response.start", "status": status, "headers": sized})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return app


async def answers(status: int, request: bytes, *, whole: bool) -> list[Answer]:
    async with open_served(app_of(status, whole=whole)) as served, await served.connect() as client:
        is_head = request.startswith(b"HEAD")
        responses = [await client.ask(request, head=is_head)]
        if responses[0].header(b"connection") != b"close":
            responses.append(await client.ask(request, head=is_head))
        return responses


def undated(answer: Answer) -> list[tuple[bytes, bytes]]:
    return sorted(header for header in answer.headers if header[0] != b"date")


@pytest.mark.parametrize("status", [200, 204, 304])
@pytest.mark.parametrize("request_bytes", REQUESTS, ids=range(len(REQUESTS)))
async def test_response_in_one_message_equals_the_usual_messages(status: int, request_bytes: bytes) -> None:
    whole, parts = [await answers(status, request_bytes, whole=whole) for whole in (True, False)]
    assert len(whole) == len(parts)
    for one, other in zip(whole, parts, strict=True):
        assert (one.status, one.body, one.version) == (other.status, other.body, other.version)
        assert undated(one) == undated(other)


@pytest.mark.parametrize("headers", [[(b"x", b"a\r\nb: c")], [(b"x\nb", b"c")], [(b"content-length", b"x")]])
async def test_invalid_header_becomes_the_servers_own_response(headers: list[tuple[bytes, bytes]]) -> None:
    app = app_of(200, whole=True, headers=headers)
    async with open_served(app) as served, await served.connect() as client:
        answer = await client.ask(b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (answer.status, answer.header(b"b")) == (500, None)


@pytest.mark.parametrize("first", ["http.response.start", "sluice.answer"])
async def test_response_in_one_message_excludes_other_messages(first: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        whole = {"type": "sluice.answer", "status": 200, "fields": ((), ()), "body": b"ok"}
        await send({"type": "http.response.start", "status": 200} if first == "http.response.start" else whole)  # type: ignore[arg-type]
        await send(whole)  # type: ignore[arg-type]

    async with open_served(app) as served, await served.connect() as client:
        response = await client.ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert response.status == (200 if first == "sluice.answer" else 500), (
            "the response is sent although the app failed after it"
        )
