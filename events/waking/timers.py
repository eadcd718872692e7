"""Ends waits whose time is up: one task for all of them.

A cancel scope for each wait would do it too, at a twentieth of the CPU that it takes to wake and answer a long-poll.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil, inf
from typing import Protocol

import trio

TICK_S = 0.05
"""By how much a wait may last longer than it was to."""


class Wait(Protocol):
    """What has a deadline."""

    def time_up(self) -> None:
        """It is called once at most, and not after the wait was dropped."""
        ...


class Deadlines:
    """The waits by the tick at which they end. A tick stays known until it comes, though nothing is due by then."""

    def __init__(self) -> None:
        """Its task (`keep`) has to run."""
        self._due: dict[int, dict[Wait, None]] = {}
        self._ticks: list[int] = []
        """A heap."""
        self._sooner = trio.Event()

    def add(self, wait: Wait, until: float) -> int:
        """End `wait` when Trio's clock shows `until`; the tick to drop it with."""
        tick = ceil(until / TICK_S)
        due = self._due.get(tick)
        if due is None:
            due = self._due[tick] = {}
            heappush(self._ticks, tick)
            if self._ticks[0] == tick:
                self._sooner.set()
        due[wait] = None
        return tick

    def drop(self, wait: Wait, tick: int) -> None:
        """It is over, by its time or otherwise."""
        due = self._due.get(tick)
        if due is not None:
            due.pop(wait, None)

    async def keep(self) -> None:
        """Until cancelled: end what is due."""
        while True:
            self._sooner = trio.Event()
            with trio.move_on_at(self._next_tick() * TICK_S) as until_then:
                await self._sooner.wait()
            if until_then.cancelled_caught:
                for wait in self._due.pop(heappop(self._ticks)):
                    wait.time_up()

    def _next_tick(self) -> float:
        """The first one at which something is due."""
        while self._ticks and not self._due[self._ticks[0]]:
            del self._due[heappop(self._ticks)]
        return self._ticks[0] if self._ticks else inf
