"""The instant by which old rows are removed: never one that a clock has jumped to, without a second look.

What is removed does not come back, and a wrong clock makes everything old. So whoever removes by age asks here first.
The last instant that was trusted is kept in the store, where the next process finds it. A clock that is more than a day
ahead of it, and of the time that has passed since, is in doubt: nothing is removed until it has gone on evenly for
`SECOND_LOOK_S`. By then somebody has read the warning, or the node was away for long and all is well. A clock that goes
back is trusted at once, since by it nothing is older than it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import trio

from storage.migrations import MigrationSet, Schema
from storage.store import Store, Tx

AHEAD_S: Final = 86_400.0
SECOND_LOOK_S: Final = 3_600.0

READ = "SELECT trusted_at FROM sweep_clock"
SAVE = """
INSERT INTO sweep_clock (id, trusted_at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET trusted_at = excluded.trusted_at
"""


class ClockReading(NamedTuple):
    """The clock's instant (Unix seconds) at an instant of the clock that nobody sets."""

    at: float
    steady_at: float

    def leads_to(self, later: ClockReading) -> float:
        """Return the clock's gain between the two readings, against the steady one; below 0 it fell behind."""
        return later.at - self.at - (later.steady_at - self.steady_at)


class SweepClock:
    """The clock of everything in a node that removes by age."""

    def __init__(self, store: Store, instant: Callable[[Tx], float], *, event: Callable[..., None]) -> None:
        """`instant` is the store's clock, or the node's where the store is its own; `event` logs (level, name, ...)."""
        self._store = store
        self._instant = instant
        self._event = event
        self._trusted: ClockReading | None = None
        self._doubted: ClockReading | None = None

    async def look(self) -> float | None:
        """The instant to remove by; None while it is in doubt, when nothing may be removed.

        Raises:
            StorageError: nobody knows.
        """
        at, kept = await self._store.read(self._read)
        look = ClockReading(at, trio.current_time())
        known = [one for one in (self._trusted, None if kept is None else ClockReading(kept, look.steady_at)) if one]
        if not any(one.leads_to(look) <= AHEAD_S for one in known) and not self._is_second(look, known):
            return None
        self._trusted, self._doubted = look, None
        await self._store.write(partial(_save, at=at))
        return at

    def _is_second(self, look: ClockReading, known: list[ClockReading]) -> bool:
        """Whether the clock has gone on evenly since it was first doubted; else it is doubted from now on."""
        first = self._doubted
        if first is not None and abs(first.leads_to(look)) <= AHEAD_S:
            return look.steady_at - first.steady_at >= SECOND_LOOK_S
        self._doubted = look
        if known:  # a store that was never swept has nothing to compare with
            ahead_s = round(min(one.leads_to(look) for one in known))
            self._event("warning", "clock_doubted", at=look.at, ahead_s=ahead_s, sweeps_again_in_s=SECOND_LOOK_S)
        return False

    def _read(self, tx: Tx) -> tuple[float, float | None]:
        row = tx.one(READ)
        return self._instant(tx), None if row is None else row[0]


def _save(tx: Tx, at: float) -> None:
    tx.run(SAVE, (at,))


def m0001_sweep_clock(schema: Schema) -> None:
    """One row: the last instant by which anything was removed."""
    schema.execute("""
    CREATE TABLE sweep_clock (
        id BIGINT PRIMARY KEY CHECK (id = 1),
        trusted_at DOUBLE PRECISION NOT NULL
    )
    """)


MIGRATIONS = MigrationSet("sweep_clock", (m0001_sweep_clock,))
