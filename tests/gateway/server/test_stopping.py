"""A graceful stop: the server accepts nothing new, finishes requests in progress, and leaves nothing open."""

import socket

import pytest
import trio

from gateway.server.asgi import Receive, Scope, Send
from gateway.server.bounds import Bounds
from tests.fakes.patient_clock import BRISKLY
from tests.gateway.server.apps import PathApp, answer
from tests.gateway.server.raw_client import Client, open_served

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


@BOTH
async def test_open_requests_are_answered_and_connections_closed(engine: str):
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
async def test_listeners_and_idle_connections_close_immediately(engine: str):
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
async def test_requests_beyond_the_drain_are_cancelled(engine: str):
    app = PathApp()
    async with open_served(app, engine=engine, drain_s=0.2) as served, await served.connect() as client:
        await client.send(GET % b"park")
        await app.parked.wait()
        served.shutdown.set()
        with trio.fail_after(1.5):
            await served.ended.wait()


async def test_just_arrived_request_is_answered():
    """Goal: no request is lost that the server could have read. Method: send and stop in one step of the loop."""
    async with open_served(PathApp()) as served, await served.connect() as client:
        assert (await client.ask(GET % b"")).status == 200
        client.stream.socket._sock.send(GET % b"")
        served.shutdown.set()
        answers = await client.answers_until_close()
        assert [answer.body for answer in answers] == [b"ok"]


async def test_requests_in_the_backlog_are_answered_at_a_stop():
    """Goal: a request that reached this machine is not reset. Method: connect, send and stop in one loop step."""
    async with open_served(PathApp(), bounds=Bounds(connections=1_000)) as served:
        socks = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(100)]
        for sock in socks:
            sock.sendall(GET % b"")
        served.shutdown.set()
        for sock in socks:
            client = Client(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))
            async with client:
                assert [answer.body for answer in await client.answers_until_close()] == [b"ok"]


async def test_partial_request_may_be_completed_at_a_stop():
    async with open_served(PathApp()) as served, await served.connect() as client:
        await client.send((GET % b"")[:10])
        await trio.sleep(0.05)
        served.shutdown.set()
        await trio.sleep(0.05)
        await client.send((GET % b"")[10:])
        assert [answer.body for answer in await client.answers_until_close()] == [b"ok"]


@BOTH
async def test_stop_does_not_wait_for_an_unread_response(engine: str):
    app = PathApp()
    async with open_served(app, engine=engine, drain_s=0.2) as served, await served.connect() as client:
        await client.send(GET % b"flood")
        await client.stream.receive_some(1)
        served.shutdown.set()
        with trio.fail_after(1.5):
            await served.ended.wait()


async def test_failure_of_a_cancelled_app_does_not_break_the_stop(caplog: pytest.LogCaptureFixture):
    app = PathApp()
    async with open_served(app, drain_s=0.1) as served, await served.connect() as client:
        await client.send(GET % b"fall-down")
        await app.parked.wait()
        served.shutdown.set()
        await served.ended.wait()
    assert [record.message for record in caplog.records] == ["The app failed on GET /fall-down"]


UNFINISHED = {
    b"G": 408,
    (GET % b"")[:-2]: 408,
    b"GET /talk HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-": 408,
    b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc": 408,
    b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc": 408,
    b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n": 408,
    (GET % b"closing") * 2: 200,
}


async def test_silent_clients_do_not_delay_a_stop():
    """Goal: a stop is short whatever a connection waits for. Method: clients that neither send nor close."""
    async with open_served(PathApp(), drain_s=8) as served:
        clients = {sent: await served.connect() for sent in UNFINISHED}
        for sent, client in clients.items():
            await client.send(sent)
        await trio.sleep(0.05)
        served.shutdown.set()
        with trio.fail_after(3):
            for sent, client in clients.items():
                *_, answer = await client.answers_until_close()
                assert (answer.status, answer.header(b"connection")) == (UNFINISHED[sent], b"close")
            await served.ended.wait()
        for client in clients.values():
            await client.stream.aclose()


async def test_dripping_bytes_do_not_extend_a_stop():
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
    async with open_served(PathApp(), drain_s=8) as served, await served.connect() as client:
        with trio.fail_after(4):
            async with trio.open_nursery() as nursery:
                await client.send(head)
                served.shutdown.set()
                nursery.start_soon(drip, client)
                assert (await client.answer()).status == 408
                nursery.cancel_scope.cancel()


async def drip(client: Client) -> None:
    while True:
        await client.send(b"a")
        await trio.sleep(0.2)


async def test_steady_body_is_read_completely_during_a_stop():
    async with open_served(PathApp(), drain_s=8) as served, await served.connect() as client:
        await client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1600\r\n\r\n")
        served.shutdown.set()
        for _ in range(8):
            await trio.sleep(0.2)
            await client.send(b"a" * 200)
        assert (await client.answer()).body == b"a" * 1600


@BRISKLY
async def test_unread_response_is_aborted_before_the_drain_ends():
    app = PathApp()
    async with (
        open_served(app, drain_s=8, bounds=Bounds(write_s=60)) as served,
        await served.connect(buffer_bytes=4_096) as client,
    ):
        await client.send(GET % b"flood")
        await client.stream.receive_some(1)
        served.shutdown.set()
        with trio.fail_after(6.5):
            await served.ended.wait()
        assert app.seen == ["ClientGone"]


class AnswersAtTheStop:
    """Holds requests until the stop begins, and responds in the same step of the loop."""

    def __init__(self) -> None:
        self.shutdown = trio.Event()
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        self.asked += 1
        await self.shutdown.wait()
        await answer(send)


@BOTH
@pytest.mark.parametrize("backlog", [False, True])
async def test_response_after_the_stop_closes_its_connection(engine: str, backlog: bool):
    """Goal: no keep-alive header on a connection that then closes. Method: many responses end as the stop begins."""
    app = AnswersAtTheStop()
    async with open_served(app, engine=engine) as served:
        app.shutdown = served.shutdown
        clients = [await served.connect() for _ in range(20)]
        for client in clients:
            await client.send(GET % b"")
        while app.asked < 20:  # noqa: ASYNC110 - the state of the app sets no event
            await trio.sleep(0.002)
        served.shutdown.set()
        if backlog:
            late = socket.create_connection(("127.0.0.1", served.port))
        for client in clients:
            async with client:
                assert [response.header(b"connection") for response in await client.answers_until_close()] == [b"close"]
        if backlog:
            late.close()
