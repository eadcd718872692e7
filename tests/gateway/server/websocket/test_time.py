"""WebSockets over time: pings, clients that do not read, a graceful stop; with real time and short limits."""

from contextlib import suppress

import pytest
import trio

from gateway.server.bounds import Bounds
from tests.gateway.server.frames import CLOSE, PING, PONG, TEXT, Frame, closing, end_of, frame, handshake, next_frame
from tests.gateway.server.socket_apps import SocketApp, open_sockets
from tests.gateway.server.websocket.test_engine import opened

BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])
QUICK = Bounds(ping_s=0.2)


@BOTH
async def test_idle_client_is_pinged_and_stays_while_it_answers(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine, bounds=QUICK) as served, await opened(served) as client:
        began_at = trio.current_time()
        for _ in range(4):
            ping = await next_frame(client)
            assert ping.opcode == PING
            await client.send(frame(PONG, ping.payload))
        assert trio.current_time() - began_at > 0.6
        await client.send(frame(TEXT, b"still here"))
        assert (await next_frame(client)).payload == b"still here"
        assert app.received == ["still here"]


@BOTH
async def test_client_without_pongs_is_disconnected_despite_messages(engine: str):
    """Method: an app that only receives. An app that is sending would notice the lost client by its sends."""
    app = SocketApp()
    app.release.set()
    async with open_sockets(app, engine=engine, bounds=QUICK) as served, await opened(served, b"/deaf") as client:
        with trio.fail_after(10):
            with suppress(trio.BrokenResourceError):
                while not app.left.is_set():
                    await client.send(frame(TEXT, b"a"))
                    await trio.sleep(0.03)
            await app.left.wait()  # the client may notice it first
        assert app.received[-1] == 1006


@BOTH
async def test_busy_client_is_also_pinged(engine: str):
    async with open_sockets(SocketApp(), engine=engine, bounds=QUICK) as served, await opened(served) as client:
        pings = 0
        with trio.move_on_after(4):
            while pings < 3:
                await client.send(frame(TEXT, b"a"))
                while (received := await next_frame(client)).opcode == PING:
                    pings += 1
                    await client.send(frame(PONG, received.payload))
        assert pings == 3


async def test_unread_pong_counts_as_an_answer():
    app = SocketApp()
    async with open_sockets(app, bounds=QUICK) as served, await opened(served, b"/deaf") as client:
        await trio.sleep(0.7)
        await client.send(frame(TEXT, b"kept") + frame(PONG))
        app.release.set()
        ping = await next_frame(client)
        await client.send(frame(PONG, ping.payload) + closing(1000))
        assert await end_of(client) == 1000
        assert app.received == ["kept", 1000]


@BOTH
async def test_client_that_does_not_read_is_disconnected(engine: str, caplog: pytest.LogCaptureFixture):
    """Goal: a send lasts at most `write_s`. Method: small buffers, an app that sends without end, no reads."""
    app = SocketApp()
    async with (
        open_sockets(app, engine=engine, bounds=Bounds(write_s=0.2)) as served,
        await served.connect(buffer_bytes=4_096) as client,
    ):
        await client.send(handshake(b"/flood"))
        await app.opened.wait()
        with trio.fail_after(4):
            await app.left.wait()
    assert app.failed == ["ClientGone"]
    assert caplog.records == []


async def test_slow_reader_gets_everything_and_its_pongs():
    app = SocketApp()
    bounds = Bounds(write_s=0.5, answer_bytes_per_s=1_000, ping_s=3)
    async with (
        open_sockets(app, bounds=bounds) as served,
        await served.connect(buffer_bytes=16_384) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.send, handshake() + frame(TEXT, b"x" * 60_000) * 20 + frame(PING, b"?"))
        assert (await client.answer()).status == 101
        got = []
        while len(got) < 21:
            await trio.sleep(0.01)
            received = await next_frame(client)
            if received.opcode != PING:
                got.append(received)
        assert got[-1] == Frame(PONG, b"?")
        assert {message.payload for message in got[:-1]} == {b"x" * 60_000}


async def test_client_that_only_pings_uses_bounded_memory():
    """Goal: unsent pongs are limited. Method: pings until the socket is full, in both directions."""
    app = SocketApp()
    async with (
        open_sockets(app, bounds=Bounds(ping_s=0.3)) as served,
        await served.connect(buffer_bytes=4_096) as client,
    ):
        assert (await client.ask(handshake())).status == 101
        with trio.move_on_after(6), suppress(trio.BrokenResourceError):
            while not app.left.is_set():
                await client.send(frame(PING, b"x" * 125) * 100)
                await trio.lowlevel.checkpoint()
        assert app.received == [1006]


@BOTH
async def test_websocket_outlives_every_time_limit_of_plain_requests(engine: str):
    bounds = Bounds(header_s=0.25, idle_s=0.25, body_s=0.25, write_s=0.25)
    async with open_sockets(SocketApp(), engine=engine, bounds=bounds) as served, await opened(served) as client:
        for _ in range(2):
            await trio.sleep(0.5)
            await client.send(frame(TEXT, b"a"))
            assert (await next_frame(client)).payload == b"a"


@BOTH
async def test_app_that_notices_the_stop_sends_its_own_close(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine, drain_s=5) as served, await opened(served, b"/wait") as client:
        await app.opened.wait()
        served.shutdown.set()
        await client.send(frame(TEXT, b"still served"))
        await trio.sleep(0.1)
        assert app.received == ["still served"]
        app.release.set()
        assert await next_frame(client) == Frame(CLOSE, (1012).to_bytes(2) + b"restart")
        await client.send(closing(1012))
        assert await client.closed()
        with trio.fail_after(2):
            await served.ended.wait()


@BOTH
async def test_open_websockets_get_a_close_at_the_stop(engine: str, caplog: pytest.LogCaptureFixture):
    async with (
        open_sockets(SocketApp(), engine=engine, drain_s=0.2) as served,
        await opened(served, b"/wait") as client,
        await opened(served, b"/talk") as other,
    ):
        served.shutdown.set()
        with trio.fail_after(2):
            assert await end_of(client) == 1001
            assert await end_of(other) == 1001
            await served.ended.wait()
    assert caplog.records == []


async def test_stop_does_not_wait_for_an_unread_websocket():
    app = SocketApp()
    async with open_sockets(app, drain_s=0.2) as served, await served.connect() as client:
        await client.send(handshake(b"/flood"))
        await app.opened.wait()
        served.shutdown.set()
        with trio.fail_after(1.5):
            await served.ended.wait()


async def test_open_websocket_is_not_closed_to_make_room():
    bounds = Bounds(connections=2)
    async with (
        open_sockets(SocketApp(), bounds=bounds) as served,
        await opened(served) as client,
        await served.connect() as plain,
    ):
        request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        assert (await plain.ask(request)).status == 200
        async with await served.connect() as waiting:
            assert (await waiting.ask(request)).status == 200
            assert await plain.closed()
        await client.send(frame(TEXT, b"a"))
        assert (await next_frame(client)).payload == b"a"
