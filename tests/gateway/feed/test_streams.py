"""The feed as server-sent events: all existing and all new events, once and in order, until either side ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import orjson
import pytest
import trio

from tests.fakes.feeding import FEED, ack, alert, append, append_some, drop_before, end, low, page, polling, subjects
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.upstream_server import until
from tests.gateway.feed.test_polling import ENGINES, assert_nothing_left
from tests.spec.refusals import assert_refused

SSE = {"accept": "text/event-stream"}


@dataclass(slots=True)
class Stream:
    """A connection to the node, and what it has received: the head, and blocks of fields."""

    socket: trio.SocketStream
    protocol: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT))
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    blocks: list[dict[str, str]] = field(default_factory=list)
    text: bytes = b""

    async def begin(self, target: str, headers: Mapping[str, str]) -> None:
        """Send the request and wait for the head of the response."""
        request = h11.Request(method="GET", target=target, headers=[("host", "a"), *headers.items()])
        await self.socket.send_all(self.protocol.send(request) or b"")
        self.protocol.send(h11.EndOfMessage())
        head = await self._next()
        assert isinstance(head, h11.Response)
        self.status = head.status_code
        self.headers = {name.decode(): value.decode() for name, value in head.headers}

    async def block(self) -> dict[str, str]:
        """Return the next event, comment or setting, with the id line before it, or an empty dict at the end."""
        fields: dict[str, str] = {}
        while line := await self.line():
            if line == b"\n":
                assert "data" in fields, "many clients treat a blank line without data as an empty event"
                break
            name, _, value = line.decode().partition(":")
            fields[name] = value.strip()
            if name in ("", "retry"):
                break
        else:
            assert not fields, "the stream ended within a block"
            return {}
        self.blocks.append(fields)
        return fields

    async def line(self) -> bytes:
        """Return the next line with its newline, or an empty one at the end."""
        while b"\n" not in self.text:
            piece = await self._next()
            if not isinstance(piece, h11.Data):
                assert not self.text, "the stream ended within a line"
                return b""
            self.text += bytes(piece.data)
        line, end, self.text = self.text.partition(b"\n")
        return line + end

    async def event(self) -> Any:
        """Return the next block, which must be an event."""
        with trio.fail_after(5):
            block = await self.block()
        assert block.keys() == {"id", "data"}, "browsers pass only unnamed events to `onmessage`"
        found = orjson.loads(block["data"])
        assert block["id"] == found["cursor"]
        return found

    async def events(self, count: int) -> list[str]:
        """Return the subjects of the next events."""
        return [(await self.event())["subject"]["id"] for _ in range(count)]

    async def _next(self) -> h11.Event | type[h11.PAUSED]:
        while (event := self.protocol.next_event()) is h11.NEED_DATA:
            self.protocol.receive_data(await self.socket.receive_some(65_536))
        assert event is not h11.NEED_DATA
        return event  # type: ignore[return-value]  # the walrus hides what was compared


@asynccontextmanager
async def streaming(
    node: OpenNode, query: str = "", *, key: str = "", headers: Mapping[str, str] | None = None
) -> AsyncIterator[Stream]:
    """Open a stream and read its head."""
    host, port = node.url.removeprefix("http://").split(":")
    async with await trio.open_tcp_stream(host, int(port)) as socket:
        stream = Stream(socket)
        with trio.fail_after(5):
            await stream.begin(f"{FEED}?{query}", {"x-api-key": key or node.key, **SSE, **(headers or {})})
        yield stream


@pytest.mark.parametrize("engine", ENGINES)
async def test_stream_sends_existing_then_new_events(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"port": 0, "engine": engine, "drain_s": 1}) as node:
        await append_some(node, 3)
        async with streaming(node, "limit=2") as stream:
            assert stream.status == 200
            assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert stream.headers["cache-control"] == "no-store"
            assert stream.headers["x-request-id"].startswith("req_")
            assert await stream.events(3) == ["key_0", "key_1", "key_2"]
            for number in range(3, 6):
                await append_some(node, 1, first=number)
                assert await stream.events(1) == [f"key_{number}"]
        await assert_nothing_left(node)


async def test_stream_events_equal_feed_events(node: OpenNode) -> None:
    await append(node, low(node.account), alert(node.account, node.key_id), alert(node.account, "key_of_another"))
    items = (await page(node))["data"]["items"]
    async with streaming(node) as stream:
        assert [await stream.event(), await stream.event()] == items
    async with streaming(node, "types=monitor.*&subject_id=mon_1") as stream:
        assert await stream.event() == items[1]
        await append(node, low(node.account), alert(node.account, node.key_id, "run_2"))
        assert (await stream.event())["subject"]["id"] == "run_2"


async def test_last_event_id_resumes_a_stream(node: OpenNode) -> None:
    """A stream from now gets an id before its first event. Otherwise, events during a reconnect would be lost."""
    async with streaming(node, "cursor=now") as stream:
        opening = await stream.block()
        assert opening == {"": "open", "id": await end(node)}
    await append_some(node, 4)
    async with streaming(node, "cursor=now", headers={"last-event-id": opening["id"]}) as stream:
        assert await stream.events(2) == ["key_0", "key_1"], "Last-Event-ID has precedence over the query"
        last = stream.blocks[-1]["id"]
    async with streaming(node, headers={"last-event-id": last}) as stream:
        assert await stream.events(2) == ["key_2", "key_3"]


async def test_errors_are_returned_before_the_stream_begins(node: OpenNode) -> None:
    for query in ("limit=0", "cursor=x", "cursor=now&consumer=a"):
        refused = await node.get(f"{FEED}?{query}", headers=SSE)
        assert assert_refused(refused, "INVALID_REQUEST", 400)["next_step"]
    await append_some(node, 4)
    oldest = (await page(node, "limit=1"))["pagination"]["next_cursor"]
    await drop_before(node, 4)
    assert_refused(await node.get(f"{FEED}?cursor={oldest}", headers=SSE), "CURSOR_EXPIRED", 410)
    newest = await end(node)
    await node.node.stores.store.write(lambda tx: tx.run("UPDATE feeds SET last_pos = 3"))
    for last_id, status in (("x", 400), ("evt_unknown", 400), (newest, 400), (oldest, 410)):
        answer = await node.get(f"{FEED}?cursor=now", headers={**SSE, "last-event-id": last_id})
        error = answer.json["error"]
        assert (answer.status, error["details"]["param"]) == (status, "Last-Event-ID"), last_id
        assert error["details"]["next_step"].startswith("Open a new stream, without Last-Event-ID")
        assert "cursor" not in error["message"].partition("oldest")[0]
        other = await node.get(f"{FEED}?limit=0", headers={**SSE, "last-event-id": last_id})
        assert other.json["error"]["details"]["param"] == "limit"


ACCEPTED = (
    "text/event-stream",
    "Text/Event-Stream;q=0.001",
    "application/json, text/event-stream ; charset=utf-8",
)
OTHERS = (
    "text/event-stream;q=0",
    "application/json, text/event-stream; Q=0.000",
    "text/event-stream;charset=utf-8;q=0",
    "xtext/event-streamx",
    "text/event-stream2, application/json",
    "application/json;profile=text/event-stream",
)


async def test_accept_header_decides_whether_a_stream_opens(node: OpenNode) -> None:
    await append_some(node, 1)
    for accept in ACCEPTED:
        async with streaming(node, headers={"accept": accept}) as stream:
            assert await stream.events(1) == ["key_0"], accept
    for accept in OTHERS:
        answer = await node.get(FEED, headers={"accept": accept})
        assert answer.headers["content-type"] == "application/json", accept


async def test_silent_stream_sends_keepalives_with_its_position(node: OpenNode) -> None:
    node.node.feed.polls.beat_s = 0.2
    async with streaming(node, "types=monitor.*") as stream:
        assert await stream.block() == {"": "open", "id": await end(node)}
        assert await stream.block() == {"": "alive"}
        await append(node, low(node.account))
        place = await end(node)
        with trio.fail_after(5):
            while (await stream.block()).get("id") != place:
                pass
        assert await stream.block() == {"": "alive"}
        await trio.sleep(0.5)
    async with streaming(node, "types=monitor.*", headers={"last-event-id": place}) as stream:
        await append(node, alert(node.account, node.key_id))
        await stream.block()
        assert await stream.events(1) == ["run_1"]
    await assert_nothing_left(node)
    assert await node.gauge("sluice_overhead_seconds_sum") < 0.9, "the time of a stream is not overhead"


async def test_revoked_key_ends_its_streams_within_a_keepalive(node: OpenNode) -> None:
    node.node.feed.polls.beat_s = 0.2
    key, key_id = await node.new_key(node.account)
    async with streaming(node, "types=monitor.*", key=key) as stream:
        await stream.block()
        await node.operate("key.revoke", key=key_id)
        with trio.fail_after(2):
            while await stream.block():
                pass
        block = stream.blocks[-1]
        assert block["event"] == "error"
        assert orjson.loads(block["data"])["error"]["type"] == "INVALID_API_KEY"
    await assert_nothing_left(node)


async def test_stream_counts_as_a_long_poll(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"long_polls": 2}) as node:
        await append_some(node, 1)
        async with streaming(node) as first, polling(node, f"cursor={await end(node)}&wait_s=25"):
            assert await first.events(1) == ["key_0"]
            async with streaming(node) as third:
                assert await third.events(1) == ["key_0"]
                assert await third.block() == {"retry": "2000"}
                assert await third.block() == {}
        await assert_nothing_left(node)


@pytest.mark.parametrize("engine", ENGINES)
async def test_stopping_node_ends_streams_with_a_reconnect_delay(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"port": 0, "engine": engine, "drain_s": 5}) as node:
        await append_some(node, 1)
        async with streaming(node) as stream:
            await stream.events(1)
            node.node.draining.set()
            with trio.fail_after(3):
                assert int((await stream.block())["retry"]) >= 1000
                assert await stream.block() == {}
        await assert_nothing_left(node)


@pytest.mark.parametrize("engine", ENGINES)
async def test_disconnected_stream_frees_its_slot(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"port": 0, "engine": engine}, limits={"long_polls": 1}) as node:
        for _ in range(3):
            async with streaming(node, "cursor=now") as stream:
                assert (await stream.block())[""] == "open"
                await until(lambda: node.node.feed.hub.parked() == 1)
            with trio.fail_after(2):
                await until(lambda: not len(node.node.feed.hub))
        await assert_nothing_left(node)


async def test_half_closed_client_gets_a_complete_response(node: OpenNode) -> None:
    """The node must not reset the connection as for a closed one: the client could lose events that it has not read."""
    await append_some(node, 200)
    async with streaming(node, "limit=100") as stream:
        await stream.socket.send_eof()
        assert (await stream.events(100))[0] == "key_0"
        with trio.fail_after(3):
            while await stream.block():
                pass
    await assert_nothing_left(node)


async def test_consumer_stream_reads_without_acknowledging(node: OpenNode) -> None:
    await append_some(node, 3)
    async with streaming(node, "consumer=one&limit=2") as stream:
        assert await stream.events(3) == ["key_0", "key_1", "key_2"]
        second = stream.blocks[1]["id"]
        await append_some(node, 1, first=3)
        assert await stream.events(1) == ["key_3"]
        assert (await ack(node, "one", second)).json["data"]["unread"] == 2
    assert subjects(await page(node, "consumer=one")) == ["key_2", "key_3"]


async def test_lapsed_consumers_stream_begins_with_a_restart_event(node: OpenNode) -> None:
    await append_some(node, 4)
    position = (await page(node, "consumer=one&limit=1"))["pagination"]["next_cursor"]
    await ack(node, "one", position)
    await drop_before(node, 4)
    assert_refused(await node.get(f"{FEED}?consumer=one", headers=SSE), "CURSOR_EXPIRED", 410)
    async with streaming(node, "consumer=one") as stream:
        block = await stream.block()
        assert block["event"] == "restarted"
        assert orjson.loads(block["data"]) == {"restarted_from": position, "dropped": 2}
        assert await stream.events(1) == ["key_3"]
    async with streaming(node, "consumer=one") as stream:
        assert await stream.events(1) == ["key_3"], "the restart is reported twice"


async def test_slow_reader_delays_no_other_and_misses_nothing(tmp_path: Path) -> None:
    """The reader gets pages at its own speed, read when it needs them: its backlog is in the store, not in memory."""
    count = 4000
    async with open_test_node(tmp_path, limits={"requests_per_minute": 100_000}) as node:
        host, port = node.url.removeprefix("http://").split(":")
        await append_some(node, count)
        sock = trio.socket.socket()
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
        await sock.connect((host, int(port)))
        async with trio.SocketStream(sock) as slow:
            lines = (f"GET {FEED}?limit=500 HTTP/1.1", "host: a", f"x-api-key: {node.key}", "accept: text/event-stream")
            await slow.send_all("\r\n".join((*lines, "", "")).encode())
            await trio.sleep(0.3)
            with trio.fail_after(5):
                for _ in range(20):
                    assert (await page(node, "limit=1"))["pagination"]["page_size"] == 1
                async with polling(node, f"cursor={await end(node)}&wait_s=25") as answer:
                    await append_some(node, 1, first=count)
                    assert subjects((await answer()).json) == [f"key_{count}"]
            got = b""
            with trio.fail_after(15):
                while b'"key_%d"' % count not in got:
                    got += await slow.receive_some(65_536)
        found = [int(one.split(b'"')[0]) for one in got.split(b'"subject":{"kind":"key","id":"key_')[1:]]
        assert found == list(range(count + 1))
        await assert_nothing_left(node)
