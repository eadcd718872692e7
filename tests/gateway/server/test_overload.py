"""More connections than the server may hold, or than the process has descriptors for."""

import errno
import resource
import socket
import subprocess
import sys
import time
from typing import cast

import pytest
import trio

from gateway.server.accepting import accept_one
from gateway.server.bounds import Bounds
from gateway.server.descriptors import KEPT, connections_possible
from tests.gateway.server.apps import PathApp
from tests.gateway.server.raw_client import Client, Served, open_served
from tests.processes.commands import PROJECT

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"


async def park(served: Served, app: PathApp) -> Client:
    client = await served.connect()
    app.parked = trio.Event()
    await client.send(GET % b"park")
    await app.parked.wait()
    return client


async def test_new_connections_wait_their_turn_while_all_are_busy():
    app = PathApp()
    async with (
        open_served(app, bounds=Bounds(connections=2)) as served,
        await park(served, app) as first,
        await park(served, app),
        await served.connect() as third,
    ):
        with trio.move_on_after(0.1) as waiting:
            await third.ask(GET % b"")
        assert waiting.cancelled_caught
        await first.stream.aclose()
        assert (await third.answer()).status == 200


async def test_longest_idle_connection_is_closed_for_a_new_one():
    async with open_served(PathApp(), bounds=Bounds(connections=3)) as served:
        clients = [await served.connect() for _ in range(3)]
        for client in (clients[1], clients[0], clients[2]):
            assert (await client.ask(GET % b"")).status == 200
        async with await served.connect() as fourth:
            assert (await fourth.ask(GET % b"")).status == 200
            assert await clients[1].closed()
            assert (await clients[0].ask(GET % b"")).status == 200
        for client in clients:
            await client.stream.aclose()


async def test_connections_at_the_limit_stay_open_if_no_others_wait():
    async with open_served(PathApp(), bounds=Bounds(connections=1)) as served, await served.connect() as client:
        for _ in range(3):
            assert (await client.ask(GET % b"")).header(b"connection") is None
            await trio.sleep(0.02)


async def test_connection_closes_after_its_response_if_others_wait():
    app = PathApp()
    async with (
        open_served(app, bounds=Bounds(connections=1)) as served,
        await park(served, app) as first,
        await served.connect() as second,
    ):
        await second.send(GET % b"")
        await trio.sleep(0.05)
        app.release.set()
        assert (await first.answer()).header(b"connection") == b"close"
        assert (await second.answer()).header(b"connection") is None


async def test_many_clients_are_served_through_few_slots():
    """Goal: clients that keep their connections shut out no others. Method: 100 such clients, 4 slots."""

    async def ask(served: Served) -> None:
        async with await served.connect() as client:
            answers.append((await client.ask(GET % b"")).status)
            if len(answers) == 100:
                herd.cancel_scope.cancel()
            await trio.sleep_forever()

    answers: list[int] = []
    async with open_served(PathApp(), bounds=Bounds(connections=4)) as served, trio.open_nursery() as herd:
        for _ in range(100):
            herd.start_soon(ask, served)
    assert answers == [200] * 100


class ExhaustedListener:
    """A listener that fails as if the process had no file descriptors left, for the first `failures` times."""

    def __init__(self, listener: trio.SocketListener, failures: int) -> None:
        self._listener = listener
        self.failures = failures

    async def accept(self) -> trio.SocketStream:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await self._listener.accept()


async def test_accepting_survives_a_lack_of_descriptors_and_logs_once(caplog: pytest.LogCaptureFixture):
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    exhausted = ExhaustedListener(listener, 3)
    with trio.fail_after(2), socket.create_connection(listener.socket.getsockname()):
        stream = await accept_one(cast("trio.SocketListener", exhausted))
        assert exhausted.failures == 0
        await stream.aclose()
    await listener.aclose()
    assert len(caplog.records) == 1


COUNT = """
import resource, sys
from gateway.server.descriptors import connections_possible
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(connections_possible(int(sys.argv[3])), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "possible"),
    [(100, 1_000, 20_000, 500), (1_000, 1_000, 100, 100), (1_000, 10_000, 20_000, 10_000 - KEPT)],
)
def test_clients_get_the_descriptors_that_the_node_does_not_need(soft: int, hard: int, wanted: int, possible: int):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip(f"this process may not have {hard} descriptors")
    command = [sys.executable, "-c", COUNT, str(soft), str(hard), str(wanted)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(possible), str(hard), str(hard)]


@pytest.mark.parametrize(("given", "possible"), [(256, 128), (10_240, 10_240 - KEPT)])
def test_actual_descriptor_limit_is_used(given: int, possible: int, monkeypatch: pytest.MonkeyPatch):
    """Goal: an unlimited hard limit grants no descriptors. Method: a system that raises the limit less or not."""
    soft = 256

    def raise_soft(_what: int, limits: tuple[int, int]) -> None:
        nonlocal soft
        if given == soft:
            raise ValueError("not allowed to raise maximum limit")
        soft = min(given, limits[0])

    monkeypatch.setattr("resource.getrlimit", lambda _what: (soft, resource.RLIM_INFINITY))
    monkeypatch.setattr("resource.setrlimit", raise_soft)
    assert connections_possible(20_000) == possible


async def test_simultaneous_connections_are_accepted_in_few_turns():
    """Method: 100 clients connect and send together; count the turns of a slow loop until all are answered."""
    turns = 0

    async def be_late() -> None:
        nonlocal turns
        while True:
            time.sleep(0.01)  # noqa: ASYNC251 - blocks the loop on purpose
            turns += 1
            await trio.lowlevel.checkpoint()

    async def ask(served: Served) -> None:
        async with await served.connect() as client:
            assert (await client.ask(GET % b"")).status == 200

    async with open_served(PathApp()) as served, trio.open_nursery() as late:
        async with trio.open_nursery() as clients:
            for _ in range(100):
                clients.start_soon(ask, served)
            late.start_soon(be_late)
        late.cancel_scope.cancel()
    assert turns < 50
