"""A widely used WebSocket client, against both engines."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h2.settings
import pytest
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection, wrap_client_stream

from tests.gateway.server.hypercorn.h2_client import Stream, h2_client, open_tls_served, secured
from tests.gateway.server.raw_client import Served
from tests.gateway.server.socket_apps import BIG, PATHS, SocketApp, open_sockets

BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


@asynccontextmanager
async def talking(served: Served, path: str, *, tls: bool = False) -> AsyncIterator[WebSocketConnection]:
    """Open the client on the test's own stream, because it leaves its stream open when the server closes it."""
    stream = await secured(served, "http/1.1") if tls else (await served.connect()).stream
    async with stream, trio.open_nursery() as nursery:
        socket = await wrap_client_stream(nursery, stream, "localhost", path, max_message_size=len(BIG))
        yield socket
        await socket.aclose()


async def code_of_close(socket: WebSocketConnection) -> int:
    """Return the code with which the server closes instead of sending a message."""
    with pytest.raises(ConnectionClosed) as closed:
        await socket.get_message()
    assert closed.value.reason is not None
    return closed.value.reason.code


@BOTH
async def test_client_exchanges_messages_and_either_side_closes(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served:
        async with talking(served, "/greet") as socket:
            assert [len(await socket.get_message()) for _ in range(4)] == [0, 100, 200, len(BIG)]
            assert await code_of_close(socket) == 1000
        async with talking(served, "/talk") as socket:
            for said in ("", "é😀", b"", b"\0" * 1_000, "x" * 60_000):
                await socket.send_message(said)
                assert await socket.get_message() == said
            await socket.ping()
            await socket.aclose(3_000, "done")
        await app.left.wait()


@BOTH
async def test_rejected_client_receives_the_apps_response(engine: str):
    async with open_sockets(SocketApp(), engine=engine) as served:
        with pytest.RaisesGroup(ConnectionRejected) as refused:
            async with talking(served, "/refuse"):
                pass
    [refusal] = refused.value.exceptions
    assert (refusal.status_code, refusal.body) == (429, b"not now")
    assert dict(refusal.headers)[b"retry-after"] == b"7"


@BOTH
async def test_many_clients_exchange_messages_concurrently(engine: str):
    async def talk(number: int) -> None:
        async with talking(served, "/talk") as socket:
            for turn in range(5):
                await socket.send_message(f"{number} {turn}")
                assert await socket.get_message() == f"{number} {turn}"

    async with open_sockets(SocketApp(), engine=engine) as served, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(talk, number)


async def test_tls_client_exchanges_messages_and_is_closed_for_a_long_one():
    async with (
        open_tls_served(SocketApp(), drain_s=0.2, websocket_paths=PATHS) as served,
        talking(served, "/talk", tls=True) as socket,
    ):
        await socket.send_message("secret")
        assert await socket.get_message() == "secret"
        await socket.send_message(b"x" * 65_537)
        assert await code_of_close(socket) == 1009


async def test_http_2_rejects_websockets():
    """RFC 8441, 3: a client must not request a WebSocket over HTTP/2 unless the server offers it."""
    async with open_tls_served(SocketApp(), drain_s=0.2, websocket_paths=PATHS) as served, h2_client(served) as client:
        ask = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/talk")]
        client.h2.send_headers(1, [*ask, (":authority", "localhost"), ("sec-websocket-version", "13")])
        client.streams[1] = answer = Stream()
        await client.flush()
        await client.until(lambda: answer.status)
        assert answer.status == 403
        assert client.h2.remote_settings[h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL] == 0
