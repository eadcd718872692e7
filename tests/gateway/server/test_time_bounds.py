"""Clients that are too slow are disconnected, with real time and short limits."""

import pytest
import trio

from gateway.server.bounds import Bounds
from tests.gateway.server.apps import PathApp
from tests.gateway.server.raw_client import Client, open_served

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
LONG_S = 60.0


async def test_slow_headers_get_408():
    async with open_served(PathApp(), bounds=Bounds(header_s=0.2)) as served:
        for start in (b"G", b"GET / HTTP/1.1\r\nHost", b"\r\n\r\nGET /"):
            answers = await served.ask(start)
            assert [(answer.status, answer.header(b"connection")) for answer in answers] == [(408, b"close")]


async def test_dripping_headers_do_not_extend_the_time_limit():
    async with open_served(PathApp(), bounds=Bounds(header_s=0.3)) as served, await served.connect() as client:
        with trio.move_on_after(2) as patience:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drip, client)
                assert (await client.answer()).status == 408
                nursery.cancel_scope.cancel()
        assert not patience.cancelled_caught


async def drip(client: Client) -> None:
    for byte in b"GET /" + b"a" * 1_000:
        await client.send(bytes([byte]))
        await trio.sleep(0.05)


async def test_idle_connection_closes_silently():
    async with open_served(PathApp(), bounds=Bounds(idle_s=0.2)) as served, await served.connect() as client:
        assert (await client.ask(GET % b"")).status == 200
        assert await client.closed()
        async with await served.connect() as silent:
            assert await silent.closed()


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 5\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    ],
)
async def test_stalled_body_gets_408(sent: bytes):
    async with open_served(PathApp(), bounds=Bounds(body_s=0.2)) as served:
        answers = await served.ask(b"POST /echo HTTP/1.1\r\nHost: a\r\n" + sent)
        assert answers[-1].status == 408


async def test_dripping_body_does_not_extend_the_time_limit():
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
    async with open_served(PathApp(), bounds=Bounds(body_s=0.2)) as served, await served.connect() as client:
        await client.send(head)
        with trio.fail_after(2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drip, client)
                assert (await client.answer()).status == 408
                nursery.cancel_scope.cancel()


async def test_body_at_full_rate_may_exceed_the_time_limit():
    async with open_served(PathApp(), bounds=Bounds(body_s=0.3)) as served, await served.connect() as client:
        await client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 800\r\n\r\n")
        for _ in range(8):
            await client.send(b"a" * 100)
            await trio.sleep(0.08)
        assert (await client.answer()).body == b"a" * 800


async def test_client_that_does_not_read_is_disconnected():
    app = PathApp()
    async with open_served(app, bounds=Bounds(write_s=0.2)) as served, await served.connect() as client:
        await client.send(GET % b"flood")
        await app.left.wait()
        assert app.seen == ["ClientGone"]


async def test_requests_pipelined_after_a_busy_one_stay_in_the_kernel():
    """Goal: a client cannot fill our memory. Method: after a parked request, send until the socket accepts no more."""
    app = PathApp()
    async with open_served(app) as served, await served.connect() as client:
        await client.send(GET % b"park")
        await app.parked.wait()
        with trio.move_on_after(0.5) as patience:
            await client.send(GET % b"" * 2_000_000)
        assert patience.cancelled_caught
        assert app.asked == ["GET /park"]


async def test_parked_request_outlives_every_time_limit():
    app = PathApp()
    bounds = Bounds(header_s=0.1, idle_s=0.1, body_s=0.1, write_s=0.1)
    async with open_served(app, bounds=bounds) as served, await served.connect() as client:
        await client.send(GET % b"park")
        await app.parked.wait()
        await trio.sleep(0.5)
        assert app.seen == []
        app.release.set()
        assert (await client.answer()).body == b"released"


async def test_connection_in_use_is_not_idle():
    async with open_served(PathApp(), bounds=Bounds(idle_s=0.4)) as served, await served.connect() as client:
        for _ in range(6):
            assert (await client.ask(GET % b"")).status == 200
            await trio.sleep(0.1)
