"""Counts waiting runs and deliveries in the store, for operators.

The numbers are the same on every node of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from scheduler.clock.instants import Instant
from storage.errors import StorageError
from storage.store import Store, Tx

CHECK_S: Final = 15.0

SLOT = "SELECT MIN(next_slot_at) FROM monitors WHERE status = 'active'"
RUNS = "SELECT COUNT(*), MIN(start_at) FROM runs WHERE status = 'pending'"
DELIVERIES = "SELECT COUNT(*), MIN(next_at) FROM deliveries WHERE status = 'queued'"


class Backlog(NamedTuple):
    """How many runs and deliveries are waiting, including future ones, and how late the oldest overdue ones are."""

    runs: int = 0
    runs_late_s: float = 0.0
    deliveries: int = 0
    deliveries_late_s: float = 0.0


class Watch:
    """Measures the backlog at intervals, and keeps the last result."""

    def __init__(self, store: Store, *, now: Callable[[], float], instant: Instant) -> None:
        """`now` is the clock for slots, and `instant` is the clock for deliveries."""
        self._store = store
        self._now = now
        self._instant = instant
        self.seen = Backlog()

    async def keep_checking(self) -> None:
        """Measure at intervals. While the store is unavailable, keep the last result."""
        while True:
            with suppress(StorageError):
                self.seen = await self._store.read(self._measure)
            await trio.sleep(CHECK_S)

    def _measure(self, tx: Tx) -> Backlog:
        (slot_at,), (runs, start_at), (deliveries, next_at) = (tx.all(sql)[0] for sql in (SLOT, RUNS, DELIVERIES))
        now = self._now()
        runs_late_s = max(_late_s(slot_at, now), _late_s(start_at, now))
        return Backlog(runs, runs_late_s, deliveries, _late_s(next_at, self._instant(tx)))


def _late_s(due_at: float | None, now: float) -> float:
    return 0.0 if due_at is None else max(0.0, now - due_at)
