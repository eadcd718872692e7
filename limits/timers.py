"""Deadlines of many waits, kept by one task: a cancel scope for each costs 7 us, a deadline here a dictionary entry.

A deadline begins in `_new`, as exact as it was set. Most are cleared before the task wakes, and cost nothing more. The
task sleeps until the earliest instant that it knows. When it wakes, it ends what is due and files the rest of `_new`
under ticks, so that it looks at each deadline once, and wakes once for all that end in the same tick.

`whole_seconds` gives a wait as `Retry-After` has it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil, inf
from typing import Final, Protocol

import trio

TICK_S: Final = 0.05
"""How late a subject may expire."""
_NEVER: Final = 1e12
"""A deadline later than this on Trio's clock, an infinite one too, has no tick of its own."""


class Expiring(Protocol):
    """A subject of a deadline; it wakes its own waiter."""

    def expire(self) -> None:
        """Note that the time is up. It is called once at most, and not after the deadline was cleared."""
        ...


class Deadlines:
    """Deadlines on Trio's clock: never early, and a tick late at most. Its task (`run`) has to run."""

    def __init__(self) -> None:
        """Nothing has a deadline yet."""
        self._new: dict[Expiring, float] = {}
        self._tick_of: dict[Expiring, int] = {}
        self._filed: dict[int, dict[Expiring, None]] = {}
        """By tick; a tick stays known until it comes, though nothing is due by then."""
        self._ticks: list[int] = []
        """A heap of those that are filed."""
        self._wakes_at = inf
        self._sooner = trio.Event()

    def set(self, subject: Expiring, at: float) -> None:
        """Expire `subject`, which has no deadline here, at `at`, unless it is cleared before."""
        self._new[subject] = at
        if at < self._wakes_at:
            self._wakes_at = at
            self._sooner.set()

    def clear(self, subject: Expiring) -> None:
        """Forget its deadline, if it has one."""
        if self._new.pop(subject, None) is None:
            tick = self._tick_of.pop(subject, None)
            if tick is not None:
                del self._filed[tick][subject]

    async def run(self) -> None:
        """Until cancelled: expire what is due."""
        while True:
            self._sooner = trio.Event()
            with trio.move_on_at(self._wakes_at):
                await self._sooner.wait()
            now = trio.current_time()
            if now >= self._wakes_at:
                for subject in self._take_due(now):
                    subject.expire()

    def _take_due(self, now: float) -> list[Expiring]:
        """The subjects that are due, which have no deadline any more; all others are filed."""
        due = []
        for subject, at in self._new.items():
            if at <= now:
                due.append(subject)
            else:
                self._file(subject, ceil(min(at, _NEVER) / TICK_S))
        self._new = {}
        while self._ticks and (self._ticks[0] * TICK_S <= now or not self._filed[self._ticks[0]]):
            for subject in self._filed.pop(heappop(self._ticks)):
                del self._tick_of[subject]
                due.append(subject)
        self._wakes_at = self._ticks[0] * TICK_S if self._ticks else inf
        return due

    def _file(self, subject: Expiring, tick: int) -> None:
        filed = self._filed.get(tick)
        if filed is None:
            filed = self._filed[tick] = {}
            heappush(self._ticks, tick)
        filed[subject] = None
        self._tick_of[subject] = tick


def whole_seconds(now: float, until: float) -> int:
    """The fewest whole seconds after which a clock that shows `now` has reached `until`; 0 when it already has."""
    # `until` and the difference are rounded floats: a ceiling is at times one too few or too many.
    seconds = int(until - now) if until > now else 0
    while now + seconds < until:
        seconds += 1
    return seconds
