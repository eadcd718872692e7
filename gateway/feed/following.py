"""Streams of the feed: a client is sent each event as it comes, over one connection (decisions 13)."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

from billing.keys.cache import Key
from events.waking.waiter import WaitEnd, Waiter
from gateway.feed.pages import PageView
from gateway.feed.polling import HELD, Polls, refuse_barred

GLANCE_S = 0.001
"""How long to look, between two pages of many, whether the client is there and what it says."""
CheckKey = Callable[[], Awaitable[object]]
"""Raises when the key is no longer good."""


class Sink(Protocol):
    """Where a stream goes. All but `receive` raise ClientGone when nobody takes what they send."""

    async def send(self, view: PageView) -> None:
        """Send a page's events, if it has any."""
        ...

    async def beat(self, view: PageView) -> None:
        """Send a sign of life, and the position up to which nothing is left to send."""
        ...

    async def receive(self) -> object:
        """Return once the client has sent something, or is gone. Nothing is lost when this is cancelled."""
        ...

    async def answer(self) -> bool:
        """Answer what was received; return False if the client is gone."""
        ...


class Stopped(enum.Enum):
    """Why a stream ends on this side."""

    FULL = "the key holds all the long-polls that it may"
    CLOSING = "the node stops"
    GONE = "the client is gone"


async def follow(
    polls: Polls, key: Key, *, read_on: Callable[[], Awaitable[PageView]], sink: Sink, check_key: CheckKey
) -> Stopped:
    """Send to `sink` all there is and all that comes, until either side ends it, and return why.

    It counts as one long-poll. `read_on` reads behind what it returned before. The key is checked before each
    read but the first.
    """
    waiter = polls.hub.listen(key.account_id, key.id)
    held = None
    try:
        held = await polls.gate.hold(key.account_id, key.id, name=HELD, limit=polls.per_key)
        beat_at = polls.clock() + polls.beat_s
        while True:
            waiter.arm()
            view = await read_on()
            await sink.send(view)
            is_due = polls.clock() >= beat_at
            if is_due and not view.page.items:
                await sink.beat(view)
            if is_due or view.page.items:
                beat_at = polls.clock() + polls.beat_s
            if held is None and not view.page.has_more:
                return Stopped.FULL
            waiter.expect(view.filters, behind=view.page.end.pos)
            until = beat_at
            if view.page.has_more or waiter.has_moved:
                waiter.arm()  # or it would not listen at all, and a client of a busy feed would never be answered
                until = polls.clock() + GLANCE_S
            if (stopped := await _attend(waiter, until, sink=sink, check_key=check_key)) is not None:
                return stopped
    finally:
        if held is not None:
            held.release()
        polls.hub.leave(waiter)


async def _attend(waiter: Waiter, until: float, *, sink: Sink, check_key: CheckKey) -> Stopped | None:
    """Answer the client until it is time to read the store again; return why the stream ends, if it does.

    An answer is made and sent outside of the wait that news cancel: a message that was cut would end the connection.
    """
    while True:
        ended = await waiter.wait(until, sink.receive)
        if ended is WaitEnd.CLOSING:
            return Stopped.CLOSING
        refuse_barred(ended)
        await check_key()
        if ended is not WaitEnd.GONE:
            return None
        if not await sink.answer():
            return Stopped.GONE
