"""Counts the runs and deliveries that wait in the store, for an operator: the same on every node that shares it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from scheduler.clock.instants import Instant
from storage.errors import StorageError
from storage.store import Store, Tx

LOOK_S: Final = 15.0

SLOT = "SELECT MIN(next_slot_at) FROM monitors WHERE status = 'active'"
RUNS = "SELECT COUNT(*), MIN(start_at) FROM runs WHERE status = 'pending'"
DELIVERIES = "SELECT COUNT(*), MIN(next_at) FROM deliveries WHERE status = 'queued'"


class Backlog(NamedTuple):
    """The numbers that wait, those not yet due included, and for how long the oldest due ones have been due."""

    runs: int = 0
    runs_late_s: float = 0.0
    deliveries: int = 0
    deliveries_late_s: float = 0.0


class Watch:
    """The backlog as it was a moment ago."""

    def __init__(self, store: Store, *, now: Callable[[], float], instant: Instant) -> None:
        """Slots are due by the node's clock, deliveries by `instant`."""
        self._store = store
        self._now = now
        self._instant = instant
        self.seen = Backlog()

    async def keep_looking(self) -> None:
        """Look now and then; while the store is away, what was seen last stays."""
        while True:
            with suppress(StorageError):
                self.seen = await self._store.read(self._look)
            await trio.sleep(LOOK_S)

    def _look(self, tx: Tx) -> Backlog:
        (slot_at,), (runs, start_at), (deliveries, next_at) = (tx.all(sql)[0] for sql in (SLOT, RUNS, DELIVERIES))
        now = self._now()
        runs_late_s = max(_late_s(slot_at, now), _late_s(start_at, now))
        return Backlog(runs, runs_late_s, deliveries, _late_s(next_at, self._instant(tx)))


def _late_s(due_at: float | None, now: float) -> float:
    return 0.0 if due_at is None else max(0.0, now - due_at)
