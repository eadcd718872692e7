"""Reads and acknowledgements of the feed, cancelled at each checkpoint: nothing stays held or half done."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.feeding import CONSUMERS, FEED, append_some, cursor_of, page, subjects
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.patient_clock import BRISKLY
from tests.gateway.calls.test_execute import ask_in_this_task
from tests.gateway.feed.test_polling import ROOMY, assert_nothing_left

EVENTS = 600
"""More events than the acknowledgements at all cancelled steps can consume."""
UNWATCHED = {**ROOMY, "server": {"shed": False}}
"""No shedding, because its load measurements would add checkpoints to a request."""


async def ask(node: OpenNode, target: str, body: bytes | None = None, **headers: str) -> None:
    """Send a request to the app in this task."""
    more = [(name.encode(), value.encode()) for name, value in headers.items()]
    await ask_in_this_task(node, target, *more, body=body)


@BRISKLY
@pytest.mark.parametrize("extensions", [{"sluice": {}}, {}], ids=["tells hangup", "is read from"])
async def test_cancelled_poll_leaves_no_slot_and_no_waiter(extensions: dict[str, Any], tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **UNWATCHED) as node:

        async def check(_got_through: bool) -> None:
            await assert_nothing_left(node)

        for place in ("cursor=now", "consumer=one&start=now", "types=key.*&cursor=now"):
            poll = partial(ask_in_this_task, node, f"{FEED}?{place}&wait_s=1", extensions=extensions)
            assert await cancel_everywhere(poll, check) >= 3, place


@BRISKLY
async def test_cancelled_stream_or_woken_poll_leaves_no_slot_and_no_waiter(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **UNWATCHED) as node:

        async def poll() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(append_some, node, 1)
                await ask(node, f"{FEED}?cursor=now&wait_s=1")

        async def read_part() -> None:
            with trio.move_on_after(0.3):
                await ask(node, f"{FEED}?limit=2", accept="text/event-stream")

        async def check(_got_through: bool) -> None:
            await assert_nothing_left(node)

        await cancel_everywhere(poll, check)
        node.node.feed.polls.beat_s = 0.05
        assert await cancel_everywhere(read_part, check) >= 5


async def test_cancelled_acknowledgement_takes_effect_completely_or_not_at_all(tmp_path: Path) -> None:
    """After a cancellation the consumer is before or after the page, and its unread count matches."""
    async with open_test_node(tmp_path, **UNWATCHED) as node:
        await append_some(node, EVENTS)
        acked = [0]

        async def acknowledge() -> None:
            body = await page(node, "consumer=one&limit=2")
            await ask(node, f"{CONSUMERS}/one/ack", orjson.dumps({"cursor": cursor_of(body)}))

        async def check(got_through: bool) -> None:
            await assert_nothing_left(node)
            body = await page(node, "consumer=one&limit=2")
            begins = int(subjects(body)[0].removeprefix("key_")) if body["data"]["items"] else EVENTS
            assert begins in (acked[0], acked[0] + 2)
            assert body["data"]["unread"] == EVENTS - begins
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
