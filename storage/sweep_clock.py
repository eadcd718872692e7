"""Provides the time for removing old rows, with a check for clocks that have jumped.

Removed data cannot be restored, and if the clock is wrong, all data may seem old. All code that removes data by age
therefore uses this time. The last trusted time is kept in the store for the next process. A clock is in doubt if it is
more than a day ahead of that time plus the time elapsed since then. In this case, nothing is removed until the clock
has run evenly for `SECOND_CHECK_S`. This gives the operator time to read the warning and correct the clock. If the node
was just off for a long time, removal then continues. A clock that goes back is trusted immediately, because that makes
no data seem older.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import trio

from storage.migrations import MigrationSet, Schema
from storage.store import Store, Tx

AHEAD_S: Final = 86_400.0
SECOND_CHECK_S: Final = 3_600.0

READ = "SELECT trusted_at FROM sweep_clock"
SAVE = """
INSERT INTO sweep_clock (id, trusted_at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET trusted_at = excluded.trusted_at
"""


class ClockReading(NamedTuple):
    """A reading of the clock in Unix seconds, and of a steady clock that cannot be set, at the same moment."""

    at: float
    steady_at: float

    def leads_to(self, later: ClockReading) -> float:
        """Return how many seconds the clock gained on the steady clock between two readings (negative: lost)."""
        return later.at - self.at - (later.steady_at - self.steady_at)


class SweepClock:
    """The clock that a node uses whenever it removes data by age."""

    def __init__(self, store: Store, instant: Callable[[Tx], float], *, event: Callable[..., None]) -> None:
        """`instant` returns the time of the store's clock, or of the node's clock for a local store.

        `event` logs (level, name, ...).
        """
        self._store = store
        self._instant = instant
        self._event = event
        self._trusted: ClockReading | None = None
        self._doubted: ClockReading | None = None

    async def check(self) -> float | None:
        """Return the time to use for removals; None while the clock is in doubt and nothing may be removed.

        Raises:
            StorageError: the clock cannot be read.
        """
        at, kept = await self._store.read(self._read)
        reading = ClockReading(at, trio.current_time())
        known = [one for one in (self._trusted, None if kept is None else ClockReading(kept, reading.steady_at)) if one]
        if not any(one.leads_to(reading) <= AHEAD_S for one in known) and not self._is_confirmed(reading, known):
            return None
        self._trusted, self._doubted = reading, None
        await self._store.write(partial(_save, at=at))
        return at

    def _is_confirmed(self, reading: ClockReading, known: list[ClockReading]) -> bool:
        """Return whether the clock has run evenly for long enough since it was first in doubt.

        If the clock was not in doubt yet, or has not run evenly, the doubt begins now.
        """
        first = self._doubted
        if first is not None and abs(first.leads_to(reading)) <= AHEAD_S:
            return reading.steady_at - first.steady_at >= SECOND_CHECK_S
        self._doubted = reading
        if known:  # empty if nothing was ever removed, because then no earlier time is known
            ahead_s = round(min(one.leads_to(reading) for one in known))
            self._event("warning", "clock_doubted", at=reading.at, ahead_s=ahead_s, sweeps_again_in_s=SECOND_CHECK_S)
        return False

    def _read(self, tx: Tx) -> tuple[float, float | None]:
        row = tx.one(READ)
        return self._instant(tx), None if row is None else row[0]


def _save(tx: Tx, at: float) -> None:
    tx.run(SAVE, (at,))


def m0001_sweep_clock(schema: Schema) -> None:
    """Create `sweep_clock`, with one row: the last trusted time."""
    schema.execute("""
    CREATE TABLE sweep_clock (
        id BIGINT PRIMARY KEY CHECK (id = 1),
        trusted_at DOUBLE PRECISION NOT NULL
    )
    """)


MIGRATIONS = MigrationSet("sweep_clock", (m0001_sweep_clock,))
