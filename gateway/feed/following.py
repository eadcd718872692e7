"""Streams of the feed: whoever follows is given each event as it comes, over one connection (decisions 13)."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from billing.key_cache import Key
from events.wakeups import Ended
from gateway.feed.pages import Shown
from gateway.feed.polling import HELD, Polls

GLANCE_S = 0.001
"""How long to look, between two pages of many, whether the client is there and what it says."""


class Sink(Protocol):
    """Where a stream goes. Its methods raise ClientGone when nobody takes what they send."""

    async def give(self, shown: Shown) -> None:
        """Send a page's events, if it has any."""
        ...

    async def beat(self, shown: Shown) -> None:
        """Send a sign of life, and the position up to which nothing is left to give."""
        ...

    async def hung_up(self) -> object:
        """Return once the client is gone."""
        ...


class Stopped(enum.Enum):
    """Why a stream ends on this side."""

    FULL = "the key holds all the long-polls that it may"
    CLOSING = "the node stops"
    GONE = "the client is gone"


async def follow(
    polls: Polls,
    key: Key,
    *,
    read_on: Callable[[], Awaitable[Shown]],
    sink: Sink,
    check_key: Callable[[], Awaitable[object]],
) -> Stopped:
    """Give `sink` all there is and all that comes, until either side ends it; it counts as one long-poll.

    `read_on` reads behind what it gave before. `check_key` raises when the key is no longer good; it is asked after
    `beat_s` at the latest.
    """
    hub = polls.hub
    waiter = hub.listen(key.account_id, key.id)
    held = None
    try:
        held = await polls.gate.hold(key.account_id, key.id, name=HELD, limit=polls.per_key)
        while True:
            waiter.arm()
            shown = await read_on()
            await sink.give(shown)
            if shown.page.has_more:
                with trio.move_on_after(GLANCE_S):
                    await sink.hung_up()
                    return Stopped.GONE
                if hub.is_closing:
                    return Stopped.CLOSING
                await check_key()
                continue
            if held is None:
                return Stopped.FULL
            waiter.expect(shown.filters, behind=shown.page.end.pos)
            ended = await waiter.wait(polls.clock() + polls.beat_s, sink.hung_up)
            if ended is Ended.GONE:
                return Stopped.GONE
            if ended is Ended.CLOSING:
                return Stopped.CLOSING
            await check_key()
            if ended is Ended.TIME_UP:
                await sink.beat(shown)
    finally:
        if held is not None:
            held.release()
        hub.leave(waiter)
