"""Nodes notify each other of appended events, over a real Redis from one hub to the other."""

from __future__ import annotations

from collections.abc import Callable

import trio

from events.filters import AppendedEvent, Filters
from events.waking.notifier import Hub
from events.waking.waiter import WaitEnd
from storage.redis.state import open_redis
from tests.servers.redis import RedisServer

APPENDED = [
    AppendedEvent("acc_1", 7, "monitor.alert_fired", None, "run_1", "mon_1"),
    AppendedEvent("acc_2", 1, "x", "key", "s", None),
]


async def test_matching_event_of_another_node_wakes_a_poll(empty_redis: RedisServer) -> None:
    with trio.fail_after(20):
        async with open_redis(empty_redis.url) as one, open_redis(empty_redis.url) as other:
            here, there = Hub(one), Hub(other)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(there.keep_receiving)
                for filters, wait_s, ends in (
                    (Filters(), 10.0, WaitEnd.MOVED),
                    (Filters(subjects=frozenset({"mon_1"})), 10.0, WaitEnd.MOVED),
                    (Filters(types=frozenset({"credits.low"})), 0.5, WaitEnd.TIME_UP),
                ):
                    assert await _ended(there, filters, wait_s, tell=lambda: here.publish(APPENDED)) is ends
                nursery.cancel_scope.cancel()


async def _ended(hub: Hub, filters: Filters, wait_s: float, *, tell: Callable[[], None]) -> WaitEnd:
    waiter = hub.listen("acc_1", "key_1")
    waiter.expect(filters, behind=6)
    async with trio.open_nursery() as nursery:

        async def keep_publishing() -> None:
            while True:  # the first one may be published before the other node listens
                tell()
                await trio.sleep(0.05)

        nursery.start_soon(keep_publishing)
        ended = await waiter.wait(trio.current_time() + wait_s, trio.sleep_forever)
        nursery.cancel_scope.cancel()
    hub.leave(waiter)
    return ended
