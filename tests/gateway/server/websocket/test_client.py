"""A widely used WebSocket client, against both engines."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
import trio
import trustme
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection, wrap_client_stream

from gateway.server.hypercorn import serve_hypercorn
from tests.gateway.server.raw_client import PATIENCE_S, edge_answer, open_served
from tests.gateway.server.socket_apps import BIG, PATHS, SocketApp

BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


@asynccontextmanager
async def talking(port: int, path: str, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[WebSocketConnection]:
    """Open the client on the test's own TCP stream.

    The client leaves its stream open when the server closes or rejects the WebSocket.
    """
    stream: trio.abc.Stream = await trio.open_tcp_stream("127.0.0.1", port)
    if tls is not None:
        stream = trio.SSLStream(stream, tls, server_hostname="localhost", https_compatible=True)
    async with stream, trio.open_nursery() as nursery:
        socket = await wrap_client_stream(nursery, stream, "localhost", path, max_message_size=len(BIG))
        yield socket
        await socket.aclose()


@BOTH
async def test_messages_pass_in_both_directions(engine: str):
    async with (
        open_served(SocketApp(), engine=engine, websocket_paths=PATHS) as served,
        talking(served.port, "/talk") as socket,
    ):
        for said in ("", "é😀", b"", b"\0" * 1_000, "x" * 60_000):
            await socket.send_message(said)
            assert await socket.get_message() == said
        await socket.ping()


@BOTH
async def test_either_side_closes_cleanly(engine: str):
    app = SocketApp()
    async with open_served(app, engine=engine, websocket_paths=PATHS) as served:
        async with talking(served.port, "/greet") as socket:
            assert [len(await socket.get_message()) for _ in range(4)] == [0, 100, 200, len(BIG)]
            with pytest.raises(ConnectionClosed) as closed:
                await socket.get_message()
            assert closed.value.reason is not None
            assert closed.value.reason.code == 1000
        async with talking(served.port, "/talk") as socket:
            await socket.aclose(3_000, "done")
        await app.left.wait()


@BOTH
async def test_rejected_client_receives_the_apps_response(engine: str):
    async with open_served(SocketApp(), engine=engine, websocket_paths=PATHS) as served:
        with pytest.RaisesGroup(ConnectionRejected) as refused:
            async with talking(served.port, "/refuse"):
                pass
    [refusal] = refused.value.exceptions
    assert refusal.status_code == 429
    assert refusal.body == b"not now"
    assert dict(refusal.headers)[b"retry-after"] == b"7"


@BOTH
async def test_many_clients_exchange_messages_concurrently(engine: str):
    async def talk(number: int) -> None:
        async with talking(served.port, "/talk") as socket:
            for turn in range(5):
                await socket.send_message(f"{number} {turn}")
                assert await socket.get_message() == f"{number} {turn}"

    async with open_served(SocketApp(), engine=engine, websocket_paths=PATHS) as served, trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(talk, number)


@asynccontextmanager
async def tls_served(protocol: str) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """Hypercorn over TLS with one protocol. Yields its port, and the client's TLS context."""
    authority = trustme.CA()
    server_tls, client_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server_tls)
    authority.configure_trust(client_tls)
    for context in (server_tls, client_tls):
        context.set_alpn_protocols([protocol])
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    shutdown = trio.Event()
    serve = partial(serve_hypercorn, SocketApp(), listeners, shutdown=shutdown, drain_s=0.2, edge_answer=edge_answer)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, tls=lambda: server_tls, websocket_paths=PATHS))
            yield listeners[0].socket.getsockname()[1], client_tls
            shutdown.set()


async def test_tls_client_exchanges_messages_and_is_closed_for_a_long_one():
    async with tls_served("http/1.1") as (port, tls), talking(port, "/talk", tls=tls) as socket:
        await socket.send_message("secret")
        assert await socket.get_message() == "secret"
        await socket.send_message(b"x" * 65_537)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.get_message()
        assert closed.value.reason is not None
        assert closed.value.reason.code == 1009


async def test_http_2_rejects_websockets():
    """RFC 8441, 3: a client must not request a WebSocket over HTTP/2 unless the server offers it."""
    async with tls_served("h2") as (port, tls):
        plain = await trio.open_tcp_stream("127.0.0.1", port)
        async with trio.SSLStream(plain, tls, server_hostname="localhost", https_compatible=True) as stream:
            connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
            connection.initiate_connection()
            ask = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/talk")]
            connection.send_headers(1, [*ask, (":authority", "localhost"), ("sec-websocket-version", "13")])
            await stream.send_all(connection.data_to_send())
            answered = None
            while answered is None:
                for event in connection.receive_data(await stream.receive_some(10_000)):
                    if isinstance(event, h2.events.ResponseReceived):
                        answered = dict(event.headers)[b":status"]
            assert answered == b"403"
            assert connection.remote_settings[h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL] == 0
