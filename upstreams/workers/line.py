"""The line of tasks before the worker processes: short ones first, nobody passed by for ever, and none begun in vain.

A task is told at once that it would not be done in time, rather than when its time is up. Its expected cost is that
of a byte, as the last tasks have had it, times its bytes. It comes on by its arrival and `PATIENCE` times that cost: a
page of some kilobytes passes pages of megabytes, but only those that have not waited for long.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import trio

from upstreams.model.errors import WorkersBusy

PATIENCE: Final = 5.0
BYTE_S: Final = 1e-6
"""The expected seconds of a byte, until some are known."""
BYTE_S_LEAST: Final = 1e-7
BYTE_S_MOST: Final = 2e-5
TASK_S: Final = 0.02
"""The expected seconds of a task beside its bytes."""
LEARNED: Final = 0.2
"""The share that the last task has in what is expected."""
LEARNED_BYTES_MIN: Final = 32 * 1024
"""The cost of shorter ones says little of a byte's."""
FULL_S: Final = 20.0
"""Seconds of work for each process from which on nothing more is taken."""


@dataclass(slots=True, order=True)
class _Place:
    """A place in the line; `called` is set once it is that task's turn."""

    comes_at: float
    number: int
    cost_s: float = field(compare=False)
    called: trio.Event = field(compare=False, default_factory=trio.Event)


class TaskLine:
    """Gives turns to at most `at_once` tasks."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._working: dict[int, float] = {}
        """The instant at which each task that has its turn is expected to be done."""
        self._waiting: list[_Place] = []
        self._numbers = count()
        self._byte_s = BYTE_S

    def check_room(self) -> None:
        """Refuse work that would only join a line which is too long.

        Raises:
            WorkersBusy: it is.
        """
        ahead_s = self._ahead_s([place.cost_s for place in self._waiting])
        if ahead_s > FULL_S:
            raise WorkersBusy(ahead_s)

    @asynccontextmanager
    async def turn(self, size_bytes: int, deadline_at: float) -> AsyncIterator[None]:
        """A turn for a task of so many bytes, which is to be done by `deadline_at` on Trio's clock.

        Raises:
            WorkersBusy: its turn would not come in time, or did not.
        """
        number, cost_s = next(self._numbers), TASK_S + size_bytes * self._byte_s
        if len(self._working) < self._at_once:
            self._begin(number, cost_s)
        else:
            await self._wait(_Place(trio.current_time() + PATIENCE * cost_s, number, cost_s), deadline_at)
        began, is_done = trio.current_time(), False
        try:
            yield
            is_done = True
        finally:
            took_s = trio.current_time() - began
            if is_done or took_s > cost_s:  # one whose caller left early says nothing
                self._learn(size_bytes, took_s)
            del self._working[number]
            self._call_next()

    async def _wait(self, place: _Place, deadline_at: float) -> None:
        """Stand in line until the place has its turn, or could not be done in time any more."""
        ahead_s = self._ahead_s([one.cost_s for one in self._waiting if one < place])
        if trio.current_time() + ahead_s + place.cost_s > deadline_at:
            raise WorkersBusy(ahead_s)
        heapq.heappush(self._waiting, place)
        with trio.move_on_at(deadline_at - place.cost_s):
            try:
                await place.called.wait()  # once called it returns, whatever comes beside it
            finally:
                if not place.called.is_set():
                    self._waiting.remove(place)
                    heapq.heapify(self._waiting)
        if not place.called.is_set():
            raise WorkersBusy(self._ahead_s([one.cost_s for one in self._waiting]))

    def _ahead_s(self, costs_s: list[float]) -> float:
        """The expected seconds until these and all that are under way are done."""
        now = trio.current_time()
        left_s = sum(max(0.0, ends_at - now) for ends_at in self._working.values())
        return (sum(costs_s) + left_s) / self._at_once

    def _begin(self, number: int, cost_s: float) -> None:
        self._working[number] = trio.current_time() + cost_s

    def _call_next(self) -> None:
        if self._waiting and len(self._working) < self._at_once:
            place = heapq.heappop(self._waiting)
            self._begin(place.number, place.cost_s)  # here, so that nobody comes in between
            place.called.set()

    def _learn(self, size_bytes: int, took_s: float) -> None:
        if size_bytes >= LEARNED_BYTES_MIN:
            found_s = min(max(took_s / size_bytes, BYTE_S_LEAST), BYTE_S_MOST)
            self._byte_s += LEARNED * (found_s - self._byte_s)
