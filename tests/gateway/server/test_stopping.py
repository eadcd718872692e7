"""A graceful stop: nothing new, everything under way finished, nothing left behind."""

import socket

import pytest
import trio

from gateway.server.bounds import Bounds
from tests.gateway.server.apps import PathApp
from tests.gateway.server.raw_client import Client, open_served

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


@BOTH
async def test_requests_under_way_are_answered_and_their_connections_closed(engine: str):
    app = PathApp()
    async with open_served(app, engine=engine, drain_s=5) as served, await served.connect() as client:
        await client.send(GET % b"park")
        await app.parked.wait()
        served.shutdown.set()
        await trio.sleep(0.1)
        assert app.seen == []
        app.release.set()
        answers = await client.answers_until_close()
        assert [(answer.body, answer.header(b"connection")) for answer in answers] == [(b"released", b"close")]
        await served.ended.wait()


@BOTH
async def test_listeners_and_idle_connections_close_at_once(engine: str):
    async with open_served(PathApp(), engine=engine) as served:
        idle, fresh = await served.connect(), await served.connect()
        assert (await idle.ask(GET % b"")).status == 200
        served.shutdown.set()
        with trio.fail_after(1):
            assert await idle.closed()
            assert await fresh.closed()
            await served.ended.wait()
        with pytest.raises(OSError, match=r"all attempts to connect|refused"):
            await served.connect()
        for client in (idle, fresh):
            await client.stream.aclose()


@BOTH
async def test_what_is_not_done_in_time_is_cancelled(engine: str):
    app = PathApp()
    async with open_served(app, engine=engine, drain_s=0.2) as served, await served.connect() as client:
        await client.send(GET % b"park")
        await app.parked.wait()
        served.shutdown.set()
        with trio.fail_after(1.5):
            await served.ended.wait()


async def test_a_request_that_has_just_arrived_is_still_answered():
    """Goal: no request is lost that the server could have read. Method: send and stop without a step between."""
    async with open_served(PathApp()) as served, await served.connect() as client:
        assert (await client.ask(GET % b"")).status == 200
        client.stream.socket._sock.send(GET % b"")
        served.shutdown.set()
        answers = await client.answers_until_close()
        assert [answer.body for answer in answers] == [b"ok"]


async def test_what_waits_in_the_backlog_is_still_answered():
    """Goal: a request that reached this machine is not reset. Method: connect, send and stop without a step between."""
    async with open_served(PathApp(), bounds=Bounds(connections=1_000)) as served:
        socks = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(100)]
        for sock in socks:
            sock.sendall(GET % b"")
        served.shutdown.set()
        for sock in socks:
            client = Client(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))
            async with client:
                assert [answer.body for answer in await client.answers_until_close()] == [b"ok"]


async def test_a_half_sent_request_may_be_finished():
    async with open_served(PathApp()) as served, await served.connect() as client:
        await client.send((GET % b"")[:10])
        await trio.sleep(0.05)
        served.shutdown.set()
        await trio.sleep(0.05)
        await client.send((GET % b"")[10:])
        assert [answer.body for answer in await client.answers_until_close()] == [b"ok"]


async def test_a_stop_does_not_wait_for_a_client_that_does_not_read():
    app = PathApp()
    async with open_served(app, drain_s=0.2) as served, await served.connect() as client:
        await client.send(GET % b"flood")
        await client.stream.receive_some(1)
        served.shutdown.set()
        with trio.fail_after(1.5):
            await served.ended.wait()


async def test_an_app_that_fails_when_it_is_cancelled_does_not_spoil_the_stop(caplog: pytest.LogCaptureFixture):
    app = PathApp()
    async with open_served(app, drain_s=0.1) as served, await served.connect() as client:
        await client.send(GET % b"fall-down")
        await app.parked.wait()
        served.shutdown.set()
        await served.ended.wait()
    assert [record.message for record in caplog.records] == ["The app failed on GET /fall-down"]
