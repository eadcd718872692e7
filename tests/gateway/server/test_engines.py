"""The same app on both engines sends the same responses, and requests that once crashed Hypercorn are harmless."""

import logging
import ssl
from functools import partial

import h2.config
import h2.connection
import h2.events
import pytest
import trio
import trustme

from gateway.server.hypercorn import serve_hypercorn
from tests.gateway.server.apps import BIG, STREAMED, PathApp
from tests.gateway.server.raw_client import PATIENCE_S, Answer, edge_answer, open_served

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


U = H + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
V = b"Sec-WebSocket-Version: 13\r\n"
K = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
MALFORMED = {
    "no key": b"GET / HTTP/1.1\r\n" + U + V + b"\r\n",
    "no key, and more bytes": b"GET / HTTP/1.1\r\n" + U + V + b"\r\n" + b"\x81\x85abcd" * 50,
    "no version": b"GET / HTTP/1.1\r\n" + U + K + b"\r\n" + b"more",
    "a bad version": b"GET / HTTP/1.1\r\n" + U + K + b"Sec-WebSocket-Version: banana\r\n\r\n" + b"more",
    "Upgrade without Connection": b"GET / HTTP/1.1\r\n" + H + b"Upgrade: websocket\r\n" + V + K + b"\r\n" + b"more",
    "Connection without Upgrade": b"GET / HTTP/1.1\r\n" + H + b"Connection: Upgrade\r\n" + V + K + b"\r\n" + b"more",
    "HTTP/1.0": b"GET / HTTP/1.0\r\n" + U + V + K + b"\r\n" + b"more",
    "no Host": b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + V + K + b"\r\n",
    "high bytes in Connection": b"GET / HTTP/1.1\r\n" + H + b"Connection: \xff, Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "high bytes in an extension": b"GET / HTTP/1.1\r\n" + U + V + K + b"Sec-WebSocket-Extensions: \xff\r\n\r\n",
    "high bytes in a protocol": b"GET / HTTP/1.1\r\n" + U + V + K + b"Sec-WebSocket-Protocol: \xff\r\n\r\n",
    "a valid request and early frames": b"GET / HTTP/1.1\r\n" + U + V + K + b"\r\n" + b"\x81\x85abcd" * 50,
    "with a body": b"GET /echo HTTP/1.1\r\n" + U + V + K + b"Content-Length: 5\r\n\r\nhello",
    "h2c": b"GET / HTTP/1.1\r\n" + H + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
    "h2c with bad settings": b"GET / HTTP/1.1\r\n" + H + b"Upgrade: h2c\r\nHTTP2-Settings: !\xff!\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
    "the preface with Host": b"PRI * HTTP/2.0\r\n" + H + b"\r\nSM\r\n\r\n" + b"\xff" * 100,
    "CONNECT": b"CONNECT a:443 HTTP/1.1\r\n" + H + b"\r\nmore",
    "noise": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("engine", ["native", "hypercorn"])
async def test_malformed_upgrade_does_not_end_the_server(engine: str, caplog: pytest.LogCaptureFixture):
    """Goal: pgjones/hypercorn#225 stays fixed. Method: each form whole, and cut right after its head."""
    async with open_served(PathApp(), engine=engine) as served, await served.connect() as bystander:
        for data in MALFORMED.values():
            for sent in (data, data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"):
                async with await served.connect() as client:
                    await client.send(sent)
                    with trio.move_on_after(0.05):
                        await client.stream.receive_some(1_000)
                    await client.send(b"and more\r\n\r\n")
                    with trio.move_on_after(0.02):
                        await client.stream.receive_some(1_000)
        assert (await bystander.ask(b"GET / HTTP/1.1\r\n" + H + b"\r\n")).body == b"ok"
        assert not served.ended.is_set()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_hypercorn_serves_http_2_over_tls():
    authority = trustme.CA()
    server_tls, client_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server_tls)
    authority.configure_trust(client_tls)
    for context in (server_tls, client_tls):
        context.set_alpn_protocols(["h2"])
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    shutdown = trio.Event()
    serve = partial(
        serve_hypercorn,
        PathApp(),
        listeners,
        shutdown=shutdown,
        drain_s=1,
        edge_answer=edge_answer,
        tls=lambda: server_tls,
    )
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            plain = await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1])
            async with trio.SSLStream(plain, client_tls, server_hostname="localhost", https_compatible=True) as stream:
                assert await ask_http_2(stream) == (b"200", b"ok")
            shutdown.set()


async def ask_http_2(stream: trio.SSLStream) -> tuple[bytes, bytes]:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
    connection.initiate_connection()
    headers = [(":method", "GET"), (":path", "/"), (":scheme", "https"), (":authority", "localhost")]
    connection.send_headers(1, headers, end_stream=True)
    await stream.send_all(connection.data_to_send())
    status = body = b""
    while True:
        for event in connection.receive_data(await stream.receive_some(10_000)):
            if isinstance(event, h2.events.ResponseReceived):
                status = dict(event.headers)[b":status"]
            elif isinstance(event, h2.events.DataReceived):
                body += event.data
            elif isinstance(event, h2.events.StreamEnded):
                return status, body
