"""The clock that decides when work is ready and when a lease expires: one clock for all nodes of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from storage.store import Tx

Instant: TypeAlias = Callable[[Tx], float]
"""Returns the current time in Unix seconds, inside a transaction."""


class SlotSource(Protocol):
    """Slots that the clock opens in addition to those of monitors. Each method runs in its own transaction."""

    def due_at(self, tx: Tx) -> float | None:
        """Return the time of the source's next slot, or None."""
        ...

    def open_due(self, tx: Tx) -> None:
        """Open a batch of the overdue slots. `due_at` does not return an opened slot again."""
        ...

    def reset_late(self, tx: Tx, instant: Instant) -> int:
        """Reset slots that a fast clock has moved too far into the future, and return their number.

        Each slot is reset to the next one of its cadence.
        """
        ...


def instant_of(now: Callable[[], float], *, is_alone: bool) -> Instant:
    """Return the node's own clock if it is the only node of the store, otherwise the database's clock."""

    def instant(tx: Tx) -> float:
        if is_alone:
            return now()
        row = tx.one("SELECT {now}")
        assert row is not None, "the clock query returns one row"
        return float(row[0])

    return instant
