"""Deadlines of many waits, kept by one task.

Each deadline costs a dictionary entry instead of a cancel scope, which takes 7 us.

A new deadline is stored in `_new` with its exact time. Most deadlines are cleared before the task wakes, and cost
nothing more. The task sleeps until the earliest known deadline. When it wakes, it expires overdue subjects and files
the rest of `_new` by tick, so that it handles each deadline once, and wakes once for all deadlines in the same tick.

`whole_seconds` returns a wait in whole seconds, as the header `Retry-After` needs it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil, inf
from typing import Final, Protocol

import trio

TICK_S: Final = 0.05
"""The maximum delay of an expiry, in seconds."""
_NEVER: Final = 1e12
"""Later times on Trio's clock, including infinity, share one tick."""


class Expiring(Protocol):
    """A wait with a deadline. `expire` wakes its task."""

    def expire(self) -> None:
        """Handle the expiry. Called at most once, and not after the deadline was cleared."""
        ...


class Deadlines:
    """Deadlines on Trio's clock: never early, and at most one tick late. Its task (`run`) must be running."""

    def __init__(self) -> None:
        """Create an instance without deadlines."""
        self._new: dict[Expiring, float] = {}
        self._tick_of: dict[Expiring, int] = {}
        self._filed: dict[int, dict[Expiring, None]] = {}
        """Subjects by tick. An empty tick stays until no earlier tick is left."""
        self._ticks: list[int] = []
        """A heap of the ticks in `_filed`."""
        self._wakes_at = inf
        self._sooner = trio.Event()

    def set(self, subject: Expiring, at: float) -> None:
        """Expire `subject`, which must not have a deadline yet, at `at`, unless it is cleared earlier."""
        self._new[subject] = at
        if at < self._wakes_at:
            self._wakes_at = at
            self._sooner.set()

    def clear(self, subject: Expiring) -> None:
        """Remove the subject's deadline, if it has one."""
        if self._new.pop(subject, None) is None:
            tick = self._tick_of.pop(subject, None)
            if tick is not None:
                del self._filed[tick][subject]

    async def run(self) -> None:
        """Expire overdue subjects until cancelled."""
        while True:
            self._sooner = trio.Event()
            with trio.move_on_at(self._wakes_at):
                await self._sooner.wait()
            now = trio.current_time()
            if now >= self._wakes_at:
                for subject in self._take_due(now):
                    subject.expire()

    def _take_due(self, now: float) -> list[Expiring]:
        """Remove and return the overdue subjects, and file all new ones that are not overdue."""
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
    """Return the seconds from `now` to `until`, rounded up to a whole number; 0 if `until` has passed."""
    # `until` and the difference are rounded floats, so `ceil` is sometimes one too low or too high.
    seconds = int(until - now) if until > now else 0
    while now + seconds < until:
        seconds += 1
    return seconds
