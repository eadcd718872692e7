"""Long-polls: a read that finds nothing new stays open until an event arrives (spec 4.4, rule 2).

A poll is a waiter. `events/waking/waiter.py` has a diagram of its states. Once awake, it continues like this:

    hold --> read --(news, or the key holds too many)--> answer
              ^ '--(nothing)--> wait --(TIME_UP with nothing new, CLOSING, GONE; REVOKED, SUSPENDED: 401)--> answer
              |                  |
              '------(MOVED)-----'--(TIME_UP, and the log has grown)--> read --> answer
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple

from billing.errors import AccountSuspended, KeyUnusable
from events.log.pages import EventPage
from events.waking.notifier import Hub
from events.waking.waiter import WaitEnd
from gateway.feed.pages import PageView
from gateway.feed.reading import ByConsumer, ByCursor
from gateway.http.request import Request
from gateway.server.asgi import Receive
from gateway.server.hangups import AVAILABLE
from limits.gate import Gate

HELD = "polls"
EARLY = 0.04
"""A poll may end early by up to this fraction of its wait, so that polls with the same start end at different times."""
FULL_INTERVAL_S = 2
STOP_INTERVAL_S = 5
BEAT_S = 15.0
"""The longest silence of a stream, in seconds, so that proxies keep it open and clients see that it is alive."""


class Polled(NamedTuple):
    """The last page that was read, and when the client should poll again (None: immediately)."""

    view: PageView
    interval_s: int | None = None


@dataclass(slots=True)
class Polls:
    """Counts the polls and streams of this node. `per_key` is a key's limit across all nodes."""

    hub: Hub
    gate: Gate
    per_key: int
    clock: Callable[[], float]
    rng: Random
    beat_s: float = BEAT_S

    def change(self, *, per_key: int) -> None:
        """Change the limit for polls and streams that start after this call."""
        self.per_key = per_key

    async def poll(
        self, request: Request, reading: ByCursor | ByConsumer, *, is_news: Callable[[PageView], bool]
    ) -> Polled:
        """Read and wait until there are new events, the time is up, the node stops or the client disconnects.

        An empty page ends at the end of the log when it is returned, even if the reader's filters matched none of the
        new events. A page by cursor is fetched before its poll is woken, together with the pages of all other polls
        that the same event wakes.

        Raises:
            KeyUnusable: the key was revoked in the meantime, or its account was suspended.
            StateUnavailable: the polls of the key cannot be counted. Refused, StorageError: raised by the read.
        """
        hub, key = self.hub, reading.key
        by_cursor = reading if isinstance(reading, ByCursor) else None
        waiter = hub.listen(key.account_id, key.id)
        held = None
        try:
            held = await self.gate.hold(key.account_id, key.id, name=HELD, limit=self.per_key)
            view = await reading.read()
            if held is None:
                return Polled(view, FULL_INTERVAL_S)
            if is_news(view):
                return Polled(view)
            until = self.clock() + reading.query.wait_s * (1 - self.rng.uniform(0, EARLY))
            gone = None
            if request.send is None or not AVAILABLE:
                gone = partial(hung_up, request.receive)
            else:
                await request.send({"type": "sluice.hangup", "left": waiter.disconnect})
            while True:
                begin_read = None if by_cursor is None else by_cursor.next_read()
                waiter.expect(view.filters, behind=view.page.end.pos, begin_read=begin_read)
                began = self.clock()
                # With `gone`, the waiter is HEARING during the wait. Otherwise it is PARKED, then FETCHING if an event
                # starts `begin_read`. After the wait, it is AWAKE (see `WaiterState`).
                ended = await waiter.wait(until, gone)
                request.held_s += (self.clock() if waiter.found is None else waiter.read_since) - began
                raise_if_unusable(ended)
                if ended is WaitEnd.CLOSING:
                    return Polled(view, self.rng.randint(1, STOP_INTERVAL_S))
                if ended is WaitEnd.GONE or (ended is WaitEnd.TIME_UP and not waiter.is_behind):
                    return Polled(view)
                if by_cursor is not None and isinstance(waiter.found, EventPage):
                    view = by_cursor.view(waiter.found)
                else:  # If the prefetch failed, this read raises the error.
                    waiter.arm()
                    view = await reading.read()
                if ended is WaitEnd.TIME_UP or is_news(view):
                    return Polled(view)
        finally:
            if held is not None:
                held.release()
            hub.leave(waiter)


def raise_if_unusable(ended: WaitEnd) -> None:
    """Raise KeyUnusable if a wait ended because the key was revoked or its account suspended."""
    if ended is WaitEnd.REVOKED:
        raise KeyUnusable("revoked")
    if ended is WaitEnd.SUSPENDED:
        raise AccountSuspended


async def hung_up(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
