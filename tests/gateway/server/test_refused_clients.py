"""Clients whose requests are shed: their next requests are rejected without a task for their connection.

No request is lost when a connection moves between its task and this path.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import trio

from gateway.server.asgi import Receive, Scope, Send
from gateway.server.bounds import Bounds
from tests.gateway.server.apps import PathApp
from tests.gateway.server.raw_client import Client, open_served

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
LONG = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 100000\r\n\r\n" + bytes(100_000)


class ScriptedShedding:
    """Rejects paths that are not on its list, and records which paths it was asked about."""

    def __init__(self, *admitted: str, refusal: bytes = REFUSAL) -> None:
        self.active = True
        self.admitted = admitted
        self.refusal = refusal
        self.asked: list[str] = []

    def refuses(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        assert (b"host", b"a") in headers
        self.asked.append(path)
        return path not in self.admitted

    def answer(self, date: bytes) -> bytes:
        return self.refusal

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


async def refused(client: Client, times: int = 3) -> None:
    for _ in range(times):
        assert (await client.ask(GET % b"no")).status == 503


async def test_repeated_rejections_are_judged_once_per_request():
    shedding = ScriptedShedding()
    async with open_served(PathApp(), shedding=shedding) as served, await served.connect() as client:
        await refused(client, 10)
        assert shedding.asked == ["/no"] * 10


async def test_admitted_request_is_judged_once_and_the_next_one_again():
    shedding = ScriptedShedding("/fixed")
    async with open_served(PathApp(), shedding=shedding) as served, await served.connect() as client:
        for _ in range(3):
            await refused(client, 2)
            assert (await client.ask(GET % b"fixed")).status == 200
        assert shedding.asked == ["/no", "/no", "/fixed"] * 3


async def test_rejected_clients_are_served_after_the_overload():
    shedding = ScriptedShedding()
    async with open_served(PathApp(), shedding=shedding) as served, await served.connect() as client:
        await refused(client)
        shedding.active = False
        for _ in range(3):
            assert (await client.ask(GET % b"fixed")).status == 200


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /no HTTP/1.1\r\nHost: a\r\nX-New: header\r\n\r\n", 503),
        (b"HEAD /no HTTP/1.1\r\nHost: a\r\n\r\n", 503),
        (b"POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", 503),
        (b"GET /fix%65d HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        (b"GET /no HTTP/1.1\r\n\r\n", 400),
    ],
)
async def test_different_request_of_a_rejected_client_is_judged_again(request_bytes: bytes, status: int):
    shedding = ScriptedShedding("/fixed")
    async with open_served(PathApp(), shedding=shedding) as served, await served.connect() as client:
        await refused(client)
        assert (await client.ask(request_bytes, head=request_bytes.startswith(b"HEAD"))).status == status


async def test_split_and_pipelined_requests_are_answered():
    shedding = ScriptedShedding("/fixed")
    async with open_served(PathApp(), shedding=shedding) as served, await served.connect() as client:
        await refused(client)
        await client.send(b"GET /no HT")
        await trio.sleep(0.02)
        await client.send(b"TP/1.1\r\nHost: a\r\n\r\n")
        assert (await client.answer()).status == 503
        await refused(client)
        await client.send(GET % b"no" + GET % b"fixed" + GET % b"no")
        assert [(await client.answer()).status for _ in range(3)] == [503, 200, 503]


async def test_rejected_client_that_disconnects_is_released():
    shedding = ScriptedShedding()
    async with open_served(PathApp(), bounds=Bounds(connections=1), shedding=shedding) as served:
        for _ in range(3):  # each needs the slot of the previous client
            async with await served.connect() as client:
                await refused(client)


async def test_silent_rejected_client_counts_as_idle_and_is_closed_for_others():
    shedding = ScriptedShedding()
    async with open_served(PathApp(), bounds=Bounds(connections=1), shedding=shedding) as served:
        first = await served.connect()
        await refused(first)
        async with await served.connect() as second:
            await refused(second)
            assert await first.closed()
        await first.stream.aclose()


async def test_rejected_client_is_closed_after_the_idle_time():
    shedding = ScriptedShedding()
    async with (
        open_served(PathApp(), bounds=Bounds(idle_s=0.2), shedding=shedding) as served,
        await served.connect() as client,
    ):
        await refused(client)
        assert await client.closed()


async def test_stop_closes_rejected_clients_immediately():
    shedding = ScriptedShedding()
    async with open_served(PathApp(), shedding=shedding) as served, await served.connect() as client:
        await refused(client)
        served.shutdown.set()
        with trio.fail_after(1):
            assert await client.closed()


async def test_slow_client_gets_complete_rejections():
    shedding = ScriptedShedding(refusal=LONG)
    async with open_served(PathApp(), shedding=shedding) as served, await served.connect(buffer_bytes=4_096) as client:
        for _ in range(100):
            await client.send(GET % b"no")
            await trio.sleep(0.001)
        assert [len((await client.answer()).body) for _ in range(100)] == [100_000] * 100


async def test_cancelled_server_drops_rejected_clients():
    shedding = ScriptedShedding()
    with trio.CancelScope() as scope:
        async with open_served(PathApp(), shedding=shedding) as served, await served.connect() as client:
            await refused(client)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
