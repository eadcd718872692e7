"""How a WebSocket of the feed ends: by the client, its key, the key's other streams, the node, or the store."""

from __future__ import annotations

import socket
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.server.bounds import Bounds
from tests.fakes.feeding import append_some
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.feed.feed_client import BOTH, PATH, numbers, refused, talking
from tests.gateway.server.frames import handshake
from tests.gateway.server.raw_client import open_served
from tests.servers.postgres import PostgresServer
from tests.servers.toxic import open_toxic
from tests.servers.waiting import until

NOBODY: dict[str, int] = {"waiters": 0, "polls": 0, "leases": 0}
GONE_S = 1.0
STREAMS = 60
"""Open streams of a stopping node: more than one pass of the loop handles, and few enough to open quickly."""
EVENTS = 12_000
"""More events than fit into the kernel's buffers of a connection, which hold a few megabytes."""


@pytest.fixture(autouse=True)
def no_errors_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that no error was logged. Only lost database connections may be logged, because a test cuts one."""
    yield
    assert [one for one in caplog.get_records("call") if one.name != "storage.link_log"] == []


def held(node: OpenNode) -> dict[str, int]:
    """Return the numbers of waiters, polls and leases that the streams of a node hold."""
    gate: Any = node.node.admission.gate
    polls = gate._named["polls"].running() if "polls" in gate._named else 0
    return {"waiters": len(node.node.feed.hub), "polls": polls, "leases": gate.statistics().leases}


@BOTH
async def test_disconnected_client_frees_everything_immediately(engine: str, tmp_path: Path):
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        for how in ("reset", "fin", "close"):
            async with talking(node) as talk:
                await talk.next()
                assert held(node) == {"waiters": 1, "polls": 1, "leases": 1}
                if how == "reset":
                    talk.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    await trio.aclose_forcefully(talk.stream)
                elif how == "fin":
                    await talk.stream.send_eof()
                else:
                    await talk.socket.aclose()
                with trio.fail_after(GONE_S):
                    await until(lambda: held(node) == NOBODY)


async def test_stream_beyond_the_poll_limit_sends_existing_events_and_ends(tmp_path: Path):
    async with open_test_node(tmp_path) as node, AsyncExitStack() as stack:
        await append_some(node, 3)
        talks = [await stack.enter_async_context(talking(node)) for _ in range(5)]
        for talk in talks:
            await talk.events(3)
        async with talking(node, "limit=2") as sixth:
            said, code = await sixth.end()
        assert [message["type"] for message in said] == ["events", "events", "end"]
        assert numbers([item for page in said[:2] for item in page["items"]]) == [0, 1, 2]
        assert said[-1] == {
            "type": "end",
            "reason": "the key already has its maximum number of long-polls",
            "retry_after_s": 2,
        }
        assert code == 1013
        poll = await node.get(f"/v1/events?cursor={said[1]['next_cursor']}&wait_s=20")
        assert (poll.status, poll.headers["x-poll-interval"]) == (200, "2"), "a stream counts as a long-poll"
        await talks[0].socket.aclose()
        with trio.fail_after(GONE_S):
            await until(lambda: held(node)["polls"] == 4)
        async with talking(node) as again:
            await again.events(3)
            await append_some(node, 1, first=3)
            assert numbers(await again.events(1)) == [3]


@pytest.mark.parametrize("noticed", ["event", "ack"])
async def test_revoked_key_ends_its_stream_with_an_error_message(noticed: str, node: OpenNode):
    if noticed == "ack":  # drop the message that would end the stream immediately
        node.node.feed.hub._observe = lambda _appended: None
    key, key_id = await node.new_key(await node.new_account())
    async with talking(node, "consumer=one&types=credits.*", key=key) as talk:
        opened = await talk.next()
        await node.operate("key.revoke", key=key_id)
        if noticed == "ack":
            await talk.ack(opened["next_cursor"])
        said, code = await talk.end()
    assert code == 1008
    (refusal,) = said
    assert (refusal["type"], refusal["error"]["type"]) == ("error", "INVALID_API_KEY")
    assert refusal["credits_remaining"] is None, "a revoked key must not reveal the account's balance"
    await until(lambda: held(node) == NOBODY)


@BOTH
async def test_stopping_node_asks_streams_to_reconnect(engine: str, tmp_path: Path):
    """All streams must get the message within `drain_s`, because they are cut after that."""
    limits = {"long_polls": STREAMS, "concurrent_requests": STREAMS, "requests_per_minute": 1_000}
    ends: list[tuple[list[Any], int]] = []

    async def stay(number: int) -> None:
        async with talking(node, "consumer=one" if number % 2 else "") as talk:
            await talk.next()
            ends.append(await talk.end())

    server = {"engine": engine, "drain_s": 5}
    async with open_test_node(tmp_path, server=server, limits=limits) as node, trio.open_nursery() as nursery:
        for number in range(STREAMS):
            nursery.start_soon(stay, number)
        await until(lambda: held(node)["polls"] == STREAMS)
        node.node.draining.set()
        await until(lambda: len(ends) == STREAMS)
        assert held(node) == NOBODY
    end = {"type": "end", "reason": "the node is stopping", "retry_after_s": 2}
    assert ends == [([end], 1001)] * STREAMS


async def test_stream_without_store_ends_and_another_continues(tmp_path: Path, postgres: PostgresServer):
    postgres.fresh()
    async with open_toxic("127.0.0.1", postgres.port) as toxic:
        store = {"url": postgres.url(toxic.port)}
        async with open_test_node(tmp_path, store=store) as node:
            node.node.feed.polls.beat_s = 0.2
            await append_some(node, 2)
            async with talking(node, "consumer=one") as talk:
                page = await talk.next()
                toxic.refuse()
                toxic.reset()
                await talk.ack(page["next_cursor"])
                said, code = await talk.end()
            assert code == 1013
            errors = [message for message in said if message["type"] == "error"]
            assert {error["error"]["details"]["reason"] for error in errors} == {"store_unavailable"}
            assert errors[-1]["credits_remaining"] is None
            assert held(node) == NOBODY
            away = await refused(node, "consumer=one")
            assert (away.status, away.headers["retry-after"]) == (503, "1")
            toxic.heal()
            await _store_is_back(node)
            async with talking(node, "consumer=one") as talk:
                assert numbers((await talk.next())["items"]) == [0, 1]


async def _store_is_back(node: OpenNode) -> None:
    while (await node.get("/v1/events")).status != 200:  # noqa: ASYNC110 - no event is set
        await trio.sleep(0.05)


async def test_unread_stream_uses_little_memory_and_is_disconnected(node: OpenNode):
    """Method: more events than fit into the kernel's buffers, and a short time limit for writes."""
    await append_some(node, EVENTS)
    api = node.node.api
    async with open_served(
        api, engine="native", bounds=Bounds(write_s=0.5), websocket_paths=api.websocket_paths, patience_s=25
    ) as served:
        asked = handshake(f"{PATH}?limit=500".encode())
        async with await served.connect(buffer_bytes=4_096) as client:  # it sends and reads nothing more
            await client.send(asked.replace(b"\r\n", b"\r\nx-api-key: %b\r\n" % node.key.encode(), 1))
            tracemalloc.start()
            await until(lambda: held(node)["polls"] == 1)
            with trio.fail_after(10):
                await until(lambda: held(node) == NOBODY)
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak_bytes < 5_000_000
        async with talking(node, "limit=500", port=served.port) as talk:
            assert numbers(await talk.events(EVENTS)) == list(range(EVENTS))


async def test_stream_is_one_request_in_log_and_metrics(node: OpenNode):
    await refused(node, "cursor=zzz")
    async with talking(node, "limit=1") as talk:
        await append_some(node, 5)
        await talk.events(5)
        request_id = dict(talk.socket.handshake_headers)[b"x-request-id"].decode()
        await trio.sleep(0.3)
        assert len(node.log_events("request")) == 1
    await until(lambda: len(node.log_events("request")) == 2)
    refusal, stream = node.log_events("request")
    assert (refusal["path"], refusal["status"], refusal["code"]) == (PATH, 400, "INVALID_REQUEST")
    assert (stream["path"], stream["status"], stream["code"]) == (PATH, 101, "OK")
    assert (stream["request_id"], stream["key_id"], stream["credits_used"]) == (request_id, node.key_id, 0)
    assert stream["overhead_ms"] < 200, "the time that a stream is open is not overhead"
    assert await node.gauge(f'sluice_requests_total{{code="OK",route="{PATH}"}}') == 1
    assert await node.gauge(f'sluice_requests_total{{code="INVALID_REQUEST",route="{PATH}"}}') == 1
