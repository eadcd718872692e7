"""The feed of a node while it runs: its readers and its waiters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import trio

from events.consumers.consumers import Consumers
from events.log.reader import open_page_reader
from events.waking.notifier import Hub
from gateway.feed.polling import Polls
from gateway.feed.reading import Readers
from limits.gate import Gate
from storage.store import Store


@dataclass(frozen=True, slots=True)
class Feed:
    """The objects that the feed's routes use."""

    hub: Hub
    readers: Readers
    polls: Polls


@dataclass(frozen=True, slots=True)
class FeedSetting:
    """The parts that a feed is made from. `is_alone`: nobody else appends to the store."""

    store: Store
    hub: Hub
    gate: Gate
    is_alone: bool
    long_polls: int
    now: Callable[[], float]
    rng: Random


@asynccontextmanager
async def open_feed(setting: FeedSetting, draining: trio.Event) -> AsyncIterator[Feed]:
    """The feed; once `draining` is set, all waiting reads are answered and none waits any more."""
    store, hub = setting.store, setting.hub
    clock = trio.lowlevel.current_clock().current_time
    async with open_page_reader(store, is_alone=setting.is_alone) as pages, trio.open_nursery() as nursery:
        nursery.start_soon(_close_at, draining, hub)
        nursery.start_soon(hub.deadlines.run)
        if hub.is_shared:
            nursery.start_soon(hub.keep_receiving)
        if not setting.is_alone:
            nursery.start_soon(hub.keep_looking, store)
        yield Feed(
            hub,
            Readers(store, pages, Consumers(store, setting.now)),
            Polls(hub, setting.gate, setting.long_polls, clock, setting.rng),
        )
        nursery.cancel_scope.cancel()


async def _close_at(draining: trio.Event, hub: Hub) -> None:
    await draining.wait()
    hub.close()
