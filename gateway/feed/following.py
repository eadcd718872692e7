"""Streams of the feed: one connection that sends the client each event as it arrives (decisions 13)."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

from billing.keys.cache import Key
from events.waking.waiter import WaitEnd, Waiter
from gateway.feed.pages import PageView
from gateway.feed.polling import HELD, Polls, raise_if_unusable

PEEK_S = 0.001
"""Seconds to wait between two pages of a backlog, to see whether the client has sent something or disconnected."""
CheckKey = Callable[[], Awaitable[object]]
"""A check that raises an exception if the key is no longer valid."""


class Sink(Protocol):
    """The destination of a stream. All methods except `receive` raise ClientGone when the client has disconnected."""

    async def send(self, view: PageView) -> None:
        """Send a page's events, if it has any."""
        ...

    async def beat(self, view: PageView) -> None:
        """Send a keep-alive with the position of the last event that was sent or skipped."""
        ...

    async def receive(self) -> object:
        """Return when the client has sent something or has disconnected. Cancelling this call loses no message."""
        ...

    async def answer(self) -> bool:
        """Reply to the received message. Return False if the client has disconnected."""
        ...


class Stopped(enum.Enum):
    """The reason why the server ends a stream."""

    FULL = "the key already has its maximum number of long-polls"
    CLOSING = "the node is stopping"
    GONE = "the client disconnected"


async def follow(
    polls: Polls, key: Key, *, read_on: Callable[[], Awaitable[PageView]], sink: Sink, check_key: CheckKey
) -> Stopped:
    """Send every existing and new event to `sink` until either side ends the stream. Return the reason.

    The stream counts as one long-poll. Each `read_on` continues after the page that the previous call returned. The key
    is checked before each read except the first.
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
                waiter.arm()  # Without this check, the client of a busy feed would never get a reply to its messages.
                until = polls.clock() + PEEK_S
            if (stopped := await _attend(waiter, until, sink=sink, check_key=check_key)) is not None:
                return stopped
    finally:
        if held is not None:
            held.release()
        polls.hub.leave(waiter)


async def _attend(waiter: Waiter, until: float, *, sink: Sink, check_key: CheckKey) -> Stopped | None:
    """Reply to the client until the store must be read again. If the stream ends, return the reason.

    Replies are built and sent outside the wait that new events cancel, because a truncated message would break the
    connection.
    """
    while True:
        ended = await waiter.wait(until, sink.receive)
        if ended is WaitEnd.CLOSING:
            return Stopped.CLOSING
        raise_if_unusable(ended)
        await check_key()
        if ended is not WaitEnd.GONE:
            return None
        if not await sink.answer():
            return Stopped.GONE
