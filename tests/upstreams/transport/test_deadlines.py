"""Calls end by their deadlines, whatever a real server does."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.fakes.upstream_server import Peer, UpstreamServer, always, open_upstream_server, reply
from tests.upstreams.transport.connected import connected
from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.connection import UpstreamConnection
from upstreams.transport.http import HttpAnswer, HttpCall, via_httpx
from upstreams.transport.ordinary_head import AnswerHeadReader
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import Transport, open_transport

SOON_S = 0.1
"""A deadline in real time, for which the tests wait."""
CONNECTED_S = 0.5
"""A time within which a connection is established even on a busy machine."""


# A connection


class LateWire:
    """A wire on which the answer arrives exactly at the deadline."""

    def __init__(self) -> None:
        self.connection: UpstreamConnection | None = None

    def send_nowait(self, data: bytes) -> int:
        return len(data)

    async def wait_to_send(self) -> None:
        """Never called, because sending never blocks."""

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        assert self.connection is not None
        self.connection.expire()
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    def is_quiet(self) -> bool:
        return True

    def wake(self) -> None:
        """Do nothing, because no task waits."""

    def close(self) -> None:
        """Do nothing, because there is nothing to close."""


async def test_connection_that_expired_with_its_answer_is_not_reused() -> None:
    wire = LateWire()
    connection = wire.connection = UpstreamConnection(
        wire, AnswerParser(AnswerHeadReader(), header_bytes_max=1000, body_bytes_max=1000)
    )
    answer = await connection.exchange("GET", b"GET / HTTP/1.1\r\n\r\n", phases=None)
    assert answer.body == b"{}"
    assert not connection.reusable


# Real peers


async def silent(peer: Peer) -> None:
    await peer.request()
    await trio.sleep_forever()


async def deaf(_peer: Peer) -> None:
    await trio.sleep_forever()


async def trickling(peer: Peer) -> None:
    """Send an endless answer one byte at a time, so that no single wait is long."""
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await peer.send(b"1\r\nx\r\n")
        await trio.sleep(0.005)


async def trickling_head(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await peer.send(b"A: b\r\n")
        await trio.sleep(0.005)


GET = HttpCall("GET", Origin("http", "127.0.0.1", 0), "/")
LONG_POST = GET._replace(method="POST", body=bytes(30_000_000))
UNDER_TLS = GET._replace(origin=Origin("https", "127.0.0.1", 0))


def to(server: UpstreamServer, call: HttpCall) -> HttpCall:
    return call._replace(origin=call.origin._replace(port=server.origin.port))


@pytest.mark.parametrize(
    ("script", "call", "problem"),
    [
        (silent, GET, httpx.ReadTimeout),
        (trickling, GET, httpx.ReadTimeout),
        (trickling_head, GET, httpx.ReadTimeout),
        (deaf, LONG_POST, httpx.WriteTimeout),
        (deaf, UNDER_TLS, httpx.ConnectTimeout),
    ],
)
async def test_call_ends_at_its_deadline_in_every_phase(
    script: Callable[[Peer], Awaitable[None]], call: HttpCall, problem: type[Exception]
) -> None:
    async with connected(script, within_s=10) as (server, transport):
        started = trio.current_time()
        with pytest.raises(problem):
            await transport.exchange(to(server, call), started + CONNECTED_S)
        assert CONNECTED_S <= trio.current_time() - started < 5.0
        assert transport.statistics().origins == {}


async def test_call_waiting_for_a_connection_ends_at_its_deadline() -> None:
    with trio.fail_after(5):
        async with (
            open_upstream_server(silent) as server,
            open_transport(max_connections=1) as transport,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(transport.exchange, server.call())
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(httpx.PoolTimeout):
                await transport.exchange(server.call(), trio.current_time() + SOON_S)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kept_connection", [False, True])
async def test_expired_call_ends_immediately_and_keeps_the_pool_consistent(kept_connection: bool) -> None:
    async with connected(always(reply())) as (server, transport):
        if kept_connection:
            await transport.exchange(server.call())
        with pytest.raises(httpx.TimeoutException):
            await transport.exchange(server.call(), trio.current_time() - 1.0)
        assert (await transport.exchange(server.call(), trio.current_time() + 5.0)).status == 200


async def test_deadline_of_one_call_does_not_affect_others() -> None:
    async def slow(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(3 * SOON_S)
        await peer.send(reply(b"{}"))

    answers: list[HttpAnswer] = []
    async with connected(slow) as (server, transport):

        async def patient() -> None:
            answers.append(await transport.exchange(server.call(), trio.current_time() + 5.0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(patient)
            with pytest.raises(httpx.ReadTimeout):
                await transport.exchange(server.call(), trio.current_time() + SOON_S)
    assert [answer.body for answer in answers] == [b"{}"]


# httpx's transports in place of ours


class Stream(httpx.AsyncByteStream):
    """A body that pauses before each piece, and again while it is closed."""

    def __init__(self, pause_s: float, closing_s: float = 0.0) -> None:
        self.closed = False
        self._pause_s = pause_s
        self._closing_s = closing_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in (b"[1", b", 2", b"]"):
            await trio.sleep(self._pause_s)
            yield piece

    async def aclose(self) -> None:
        await trio.sleep(self._closing_s)
        self.closed = True


class Slowly(httpx.AsyncBaseTransport):
    """Answers with `stream` after a pause of `pause_s`."""

    def __init__(self, stream: Stream, pause_s: float = 0.0) -> None:
        self._stream = stream
        self._pause_s = pause_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await trio.sleep(self._pause_s)
        return httpx.Response(200, stream=self._stream)


async def test_httpx_answer_in_time_closes_its_stream(autojump_clock: MockClock) -> None:
    stream = Stream(1.0)
    assert (await via_httpx(Slowly(stream, 1.0))(GET, 4.5)).body == b"[1, 2]"
    assert stream.closed


@pytest.mark.parametrize(("before_s", "between_s"), [(math.inf, 0.0), (9.0, 0.0), (0.0, 2.0), (2.5, 0.4)])
async def test_httpx_late_answer_is_a_read_timeout(
    autojump_clock: MockClock, before_s: float, between_s: float
) -> None:
    stream = Stream(between_s)
    with pytest.raises(httpx.ReadTimeout):
        await via_httpx(Slowly(stream, before_s))(GET, 3.0)
    assert trio.current_time() == 3.0
    assert stream.closed is (before_s < 3.0)


async def test_httpx_close_has_one_extra_second(autojump_clock: MockClock) -> None:
    for closing_s, closed in ((0.5, True), (50.0, False)):
        stream = Stream(math.inf, closing_s)
        started = trio.current_time()
        with pytest.raises(httpx.ReadTimeout):
            await via_httpx(Slowly(stream))(GET, started + 3.0)
        assert stream.closed is closed
        assert trio.current_time() - started == min(3.0 + closing_s, 4.0)


async def test_httpx_outer_cancellation_is_not_a_timeout(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1.0) as scope:
        await via_httpx(Slowly(Stream(math.inf)))(GET, 3.0)
    assert scope.cancelled_caught


async def test_unopened_transport_still_limits_connecting() -> None:
    with trio.fail_after(5):
        async with open_upstream_server(deaf) as server:
            transport = Transport(connect_s=SOON_S)
            with pytest.raises(httpx.ConnectTimeout):
                await transport.exchange(to(server, UNDER_TLS))
            await transport.aclose()
