"""Long-polls: a read that finds nothing new is held open until something comes (spec 4.4, rule 2).

A poll is a waiter; `events/waking/waiter.py` draws its states. Awake, it goes on like this:

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
"""Polls that began together end apart: each up to this share of its wait early."""
FULL_INTERVAL_S = 2
STOP_INTERVAL_S = 5
BEAT_S = 15.0
"""A stream is never silent for longer, so that proxies keep it open and a client knows that it is alive."""


class Polled(NamedTuple):
    """The page that was read last, and when the client should come again if not at once."""

    view: PageView
    interval_s: int | None = None


@dataclass(slots=True)
class Polls:
    """Holds polls and streams of this node. `per_key` is how many one key may hold, on all nodes together."""

    hub: Hub
    gate: Gate
    per_key: int
    clock: Callable[[], float]
    rng: Random
    beat_s: float = BEAT_S

    def change(self, *, per_key: int) -> None:
        """Take another limit, for the polls and streams that begin from now on."""
        self.per_key = per_key

    async def poll(
        self, request: Request, reading: ByCursor | ByConsumer, *, is_news: Callable[[PageView], bool]
    ) -> Polled:
        """Read, and go on waiting and reading until there is news, the time is up, the node stops or the client leaves.

        An empty page ends where the log does when it is returned, though nothing that has come was for its reader. A
        page by cursor is fetched before its poll is woken, together with those of all others that the same event wakes.

        Raises:
            KeyUnusable: the key was revoked meanwhile, or its account suspended.
            StateUnavailable: the polls of the key cannot be counted.
            Refused, StorageError: as the reading raises.
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
                ended = await waiter.wait(until, gone)  # PARKED or HEARING, perhaps FETCHING, then AWAKE again
                request.held_s += (self.clock() if waiter.found is None else waiter.read_since) - began
                refuse_barred(ended)
                if ended is WaitEnd.CLOSING:
                    return Polled(view, self.rng.randint(1, STOP_INTERVAL_S))
                if ended is WaitEnd.GONE or (ended is WaitEnd.TIME_UP and not waiter.is_behind):
                    return Polled(view)
                if by_cursor is not None and isinstance(waiter.found, EventPage):
                    view = by_cursor.view(waiter.found)
                else:  # also where that read has failed: this one says why
                    waiter.arm()
                    view = await reading.read()
                if ended is WaitEnd.TIME_UP or is_news(view):
                    return Polled(view)
        finally:
            if held is not None:
                held.release()
            hub.leave(waiter)


def refuse_barred(ended: WaitEnd) -> None:
    """Raise KeyUnusable where a wait ended with its reader's key, or with the suspension of its account."""
    if ended is WaitEnd.REVOKED:
        raise KeyUnusable("revoked")
    if ended is WaitEnd.SUSPENDED:
        raise AccountSuspended


async def hung_up(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
