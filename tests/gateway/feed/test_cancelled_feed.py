"""Reads and acknowledgements of the feed, cancelled at each checkpoint: nothing stays held or half done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.feeding import CONSUMERS, FEED, append_some, cursor_of, end, page, subjects
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.patient_clock import BRISKLY
from tests.gateway.feed.test_polling import ROOMY, assert_nothing_left

UNWATCHED = {**ROOMY, "server": {"shed": False}}
"""No shedding, because its load measurements would add checkpoints to a request."""


async def ask(
    node: OpenNode, target: str, body: bytes | None = None, *, tells_hangup: bool = False, **headers: str
) -> list[Any]:
    """Send a request to the app in this task, as a server calls it, and return what the app sent."""
    path, _, query = target.partition("?")
    own = {"x-api-key": node.key, **headers}
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET" if body is None else "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in own.items()],
        "client": None,
        "server": None,
        "extensions": {"sluice": {}} if tells_hangup else {},
    }
    sent: list[Any] = []
    pieces = [body or b""]

    async def receive() -> Any:
        if not pieces:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": pieces.pop(), "more_body": False}

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    await node.node.api(scope, receive, send)  # type: ignore[arg-type]
    return sent


@BRISKLY
@pytest.mark.parametrize("tells_hangup", [True, False])
@pytest.mark.parametrize("place", ["cursor=now", "consumer=one&start=now", "types=key.*&cursor=now"])
async def test_cancelled_poll_leaves_no_slot_and_no_waiter(place: str, tells_hangup: bool, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **UNWATCHED) as node:

        async def check(_got_through: bool) -> None:
            await assert_nothing_left(node)

        assert (
            await cancel_everywhere(lambda: ask(node, f"{FEED}?{place}&wait_s=1", tells_hangup=tells_hangup), check)
            >= 3
        )


@BRISKLY
async def test_poll_cancelled_when_woken_leaves_no_slot_and_no_waiter(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **UNWATCHED) as node:

        async def poll() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(append_some, node, 1)
                await ask(node, f"{FEED}?cursor=now&wait_s=1")

        async def check(_got_through: bool) -> None:
            await assert_nothing_left(node)

        await cancel_everywhere(poll, check)


@BRISKLY
async def test_cancelled_stream_leaves_no_slot_and_no_waiter(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **UNWATCHED) as node:
        await append_some(node, 3)
        node.node.feed.polls.beat_s = 0.05

        async def read_part() -> None:
            with trio.move_on_after(0.3):
                await ask(node, f"{FEED}?limit=2", accept="text/event-stream")

        async def check(_got_through: bool) -> None:
            await assert_nothing_left(node)

        assert await cancel_everywhere(read_part, check) >= 5


async def test_cancelled_acknowledgement_takes_effect_completely_or_not_at_all(tmp_path: Path) -> None:
    """After a cancellation the consumer is before or after the page, and its unread count matches."""
    async with open_test_node(tmp_path, **UNWATCHED) as node:
        await append_some(node, 600)
        acked = [0]

        async def acknowledge() -> None:
            body = await page(node, "consumer=one&limit=2")
            await ask(node, f"{CONSUMERS}/one/ack", orjson.dumps({"cursor": cursor_of(body)}))

        async def check(got_through: bool) -> None:
            await assert_nothing_left(node)
            body = await page(node, "consumer=one&limit=2")
            begins = int(subjects(body)[0].removeprefix("key_")) if body["data"]["items"] else 600
            assert begins in (acked[0], acked[0] + 2)
            assert body["data"]["unread"] == 600 - begins
            assert not got_through or begins == acked[0] + 2
            acked[0] = begins

        assert await cancel_everywhere(acknowledge, check) >= 3


async def test_cancelled_first_read_creates_a_complete_consumer_or_none(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **UNWATCHED) as node:
        await append_some(node, 3)
        names = iter([f"c{number}" for number in range(90)])
        name = [next(names)]

        async def read() -> None:
            await ask(node, f"{FEED}?consumer={name[0]}&types=key.*&limit=2")

        async def check(got_through: bool) -> None:
            await assert_nothing_left(node)
            found = await node.get(f"{CONSUMERS}/{name[0]}")
            assert found.status == 200 or (found.status == 404 and not got_through)
            if found.status == 200:
                consumer = found.json["data"]["consumer"]
                assert (consumer["types"], consumer["unread"]) == (["key.revoked"], 3)
            name[0] = next(names)

        await cancel_everywhere(read, check)


async def test_many_cancelled_polls_leave_reader_and_gate_intact(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **UNWATCHED) as node:
        cursor = await end(node)
        for patience_s in (0, 0.001, 0.003, 0.01):
            with trio.move_on_after(patience_s):
                async with trio.open_nursery() as nursery:
                    for _ in range(100):
                        nursery.start_soon(ask, node, f"{FEED}?cursor={cursor}&wait_s=25")
            await assert_nothing_left(node)
        assert subjects(await page(node)) == []
