"""The toxic proxy over real sockets: each fault takes effect in both directions at any time."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import trio

from tests.servers.poison import HARMLESS, STALLED, Direction, Poison
from tests.servers.toxic import Toxic, open_toxic

LONG = bytes(range(256)) * 4_000
SIDES = pytest.mark.parametrize("side", [lambda t: t.up, lambda t: t.down], ids=["up", "down"])
Side = Callable[[Toxic], Direction]


async def echo(stream: trio.SocketStream) -> None:
    """Echo everything, and end when the other side ends."""
    try:
        while data := await stream.receive_some(65_536):
            await stream.send_all(data)
        await stream.send_eof()
    except trio.BrokenResourceError:
        pass
    finally:
        await stream.aclose()


@asynccontextmanager
async def open_proxied_echo() -> AsyncIterator[Toxic]:
    """An echo server behind a proxy."""
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, echo, 0, host="127.0.0.1"))
            async with open_toxic("127.0.0.1", listeners[0].socket.getsockname()[1]) as toxic:
                yield toxic
            nursery.cancel_scope.cancel()


@pytest.fixture
async def toxic() -> AsyncIterator[Toxic]:
    async with open_proxied_echo() as opened:
        yield opened


@pytest.fixture
async def stream(toxic: Toxic) -> AsyncIterator[trio.SocketStream]:
    """Open a connection through the proxy."""
    async with await connect(toxic) as opened:
        yield opened


async def all_are_gone(toxic: Toxic) -> None:
    while toxic.statistics().open:  # noqa: ASYNC110 - there is no event for it
        await trio.sleep(0.01)


async def is_reset(stream: trio.SocketStream) -> None:
    """Read everything that was sent, and then expect a reset instead of an end."""
    with pytest.raises(trio.BrokenResourceError):
        await receive(stream, 1_000_000)


async def connect(toxic: Toxic) -> trio.SocketStream:
    return await trio.open_tcp_stream(toxic.host, toxic.port)


async def receive(stream: trio.SocketStream, size: int) -> bytes:
    got = b""
    while len(got) < size:
        data = await stream.receive_some(size - len(got))
        if not data:
            return got
        got += data
    return got


async def said_again(stream: trio.SocketStream, data: bytes) -> float:
    """Send data and receive it back. Return the elapsed seconds."""
    began_at = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, data)
        assert await receive(stream, len(data)) == data
    return trio.current_time() - began_at


async def test_harmless_proxy_forwards_and_counts_everything(toxic: Toxic, stream: trio.SocketStream) -> None:
    await said_again(stream, LONG)
    now = toxic.statistics()
    assert (now.accepted, now.open, now.up_bytes, now.down_bytes) == (1, 1, len(LONG), len(LONG))
    await stream.send_eof()
    assert await stream.receive_some(1) == b""


async def test_end_of_stream_is_forwarded_separately_for_each_side(toxic: Toxic, stream: trio.SocketStream) -> None:
    await stream.send_all(b"last")
    await stream.send_eof()
    assert await receive(stream, 5) == b"last"
    await all_are_gone(toxic)
    assert (toxic.statistics().cut, toxic.statistics().reset) == (0, 0)


@SIDES
async def test_latency_delays_in_order_until_removed(toxic: Toxic, stream: trio.SocketStream, side: Side) -> None:
    side(toxic).set(Poison(latency_s=0.2, jitter_s=0.05))
    assert await said_again(stream, LONG) >= 0.2
    side(toxic).set(Poison(latency_s=60.0))
    await stream.send_all(b"late")
    await trio.sleep(0.05)
    side(toxic).set(HARMLESS)
    assert await receive(stream, 4) == b"late"


async def test_latency_does_not_limit_throughput(toxic: Toxic, stream: trio.SocketStream) -> None:
    toxic.down.set(Poison(latency_s=0.3))
    assert await said_again(stream, LONG) < 3


@SIDES
async def test_stalled_connection_stays_open_and_continues(toxic: Toxic, stream: trio.SocketStream, side: Side) -> None:
    await said_again(stream, b"before")
    side(toxic).set(STALLED)
    await stream.send_all(b"in between")
    with trio.move_on_after(0.2) as scope:
        await stream.receive_some(1)
    assert scope.cancelled_caught
    toxic.heal()
    assert await receive(stream, 10) == b"in between"


async def test_stall_blocks_the_sender_of_a_long_stream(toxic: Toxic, stream: trio.SocketStream) -> None:
    toxic.up.set(STALLED)
    with trio.move_on_after(0.5) as scope:
        while True:
            await stream.send_all(LONG)
    assert scope.cancelled_caught
    assert toxic.statistics().up_bytes == 0


@SIDES
async def test_cut_forwards_an_exact_number_of_bytes_and_ends(
    toxic: Toxic, stream: trio.SocketStream, side: Side
) -> None:
    await said_again(stream, b"uncounted")
    side(toxic).set(Poison(cut_after=700))
    await stream.send_all(LONG[:1_000])
    got = await receive(stream, 1_000)
    assert got == LONG[: len(got)]
    if side(toxic) is toxic.down:
        assert len(got) == 700  # otherwise, the response to the last byte would be too late
    assert (toxic.statistics().cut, toxic.statistics().reset) == (1, 0)


@SIDES
async def test_reset_after_bytes_breaks_every_connection(toxic: Toxic, side: Side) -> None:
    side(toxic).set(Poison(reset_after=5))
    for _ in range(3):
        async with await connect(toxic) as stream:
            await stream.send_all(b"0123456789")
            await is_reset(stream)
    assert toxic.statistics().reset == 3


async def test_reset_breaks_open_connections_and_allows_new_ones() -> None:
    async with open_proxied_echo() as toxic, await connect(toxic) as one, await connect(toxic) as two:
        for stream in (one, two):
            await said_again(stream, b"alive")
        toxic.reset()
        for stream in (one, two):
            await is_reset(stream)
        async with await connect(toxic) as three:
            await said_again(three, b"alive")
        assert toxic.statistics().reset == 2


async def test_slow_close_delays_only_the_end(toxic: Toxic, stream: trio.SocketStream) -> None:
    toxic.down.set(Poison(close_delay_s=0.3))
    await stream.send_all(b"last")
    await stream.send_eof()
    assert await receive(stream, 4) == b"last"
    began_at = trio.current_time()
    assert await stream.receive_some(1) == b""
    assert trio.current_time() - began_at > 0.2


@SIDES
async def test_bandwidth_limit_applies_and_can_be_removed(toxic: Toxic, stream: trio.SocketStream, side: Side) -> None:
    side(toxic).set(Poison(bytes_per_s=100_000))
    assert 0.3 < await said_again(stream, LONG[:50_000]) < 5
    side(toxic).set(Poison(bytes_per_s=1))
    await stream.send_all(b"ab")
    await trio.sleep(0.1)
    side(toxic).set(HARMLESS)
    assert await receive(stream, 2) == b"ab"


async def test_refusing_affects_only_new_connections_and_keeps_the_port(
    toxic: Toxic, stream: trio.SocketStream
) -> None:
    await said_again(stream, b"alive")
    toxic.refuse()
    with pytest.raises(OSError, match="connect"):
        await connect(toxic)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((toxic.host, toxic.port))
    await said_again(stream, b"still alive")
    toxic.heal()
    async with await connect(toxic) as new:
        await said_again(new, b"alive")


async def test_missing_target_resets_clients() -> None:
    with trio.fail_after(90), socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        async with open_toxic(*unheard.getsockname()) as toxic, await connect(toxic) as stream:
            await is_reset(stream)
            assert toxic.statistics().unreachable == 1


async def test_reset_of_one_side_reaches_the_other(toxic: Toxic) -> None:
    stream = await connect(toxic)
    await said_again(stream, b"alive")
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    await stream.aclose()
    await all_are_gone(toxic)
    assert toxic.statistics().reset == 1


async def test_closed_proxy_ends_its_connections_and_stops_listening() -> None:
    async with open_proxied_echo() as toxic:
        toxic.up.set(STALLED)
        stream = await connect(toxic)
        await stream.send_all(b"never")
    async with stream:
        with suppress(trio.BrokenResourceError):
            assert await stream.receive_some(1) == b""
        with pytest.raises(OSError, match="connect"):
            await connect(toxic)
