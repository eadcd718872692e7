"""The feed of a running node: its readers and its waiters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import trio

from events.consumers.consumers import Consumers
from events.log.reader import open_page_reader
from events.waking.notifier import Hub
from gateway.feed.polling import Polls
from gateway.feed.reading import Readers
from gateway.runtime import Runtime
from limits.gate import Gate
from storage.store import Store


@dataclass(frozen=True, slots=True)
class Feed:
    """The services of the feed that routes use."""

    hub: Hub
    readers: Readers
    polls: Polls


@dataclass(frozen=True, slots=True)
class FeedSetting:
    """The components of a feed. With `is_alone`, no other process appends to the store."""

    store: Store
    hub: Hub
    gate: Gate
    is_alone: bool
    long_polls: int
    runtime: Runtime


@asynccontextmanager
async def open_feed(setting: FeedSetting) -> AsyncIterator[Feed]:
    """Open the feed. When the node stops, all waiting reads return, and no new read waits."""
    keep = setting.runtime.keep
    store, hub, runtime = setting.store, setting.hub, setting.runtime
    async with open_page_reader(store, is_alone=setting.is_alone, keep=keep) as pages, trio.open_nursery() as nursery:
        nursery.start_soon(keep, "feed_close", partial(_close_at, runtime.stopping, hub))
        nursery.start_soon(keep, "feed_deadlines", hub.deadlines.run)
        if hub.is_shared:
            nursery.start_soon(keep, "feed_messages", hub.keep_receiving)
        if not setting.is_alone:
            nursery.start_soon(keep, "feed_look", partial(hub.keep_checking, store))
        yield Feed(
            hub,
            Readers(store, pages, Consumers(store, runtime.now)),
            Polls(hub, setting.gate, setting.long_polls, runtime.clock, runtime.rng),
        )
        nursery.cancel_scope.cancel()


async def _close_at(stopping: trio.Event, hub: Hub) -> None:
    await stopping.wait()
    await hub.close()
