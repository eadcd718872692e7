"""By which clock something is due, and a lease passes: one for all nodes of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from storage.store import Tx

Instant: TypeAlias = Callable[[Tx], float]
"""The instant as Unix seconds, asked for in a transaction."""


class SlotSource(Protocol):
    """Slots that the clock opens beside those of monitors, each function in a transaction of its own."""

    def due_at(self, tx: Tx) -> float | None:
        """When the next of its slots is due."""
        ...

    def open_due(self, tx: Tx) -> None:
        """Open some that are due; once they are, they are not due any more."""
        ...

    def bring_back(self, tx: Tx, instant: Instant) -> int:
        """Bring back to the next one what a clock that stood ahead has made due too far off; how many that were."""
        ...


def instant_of(now: Callable[[], float], *, is_alone: bool) -> Instant:
    """The node's own clock where it has the store to itself, else the database's."""

    def instant(tx: Tx) -> float:
        if is_alone:
            return now()
        row = tx.one("SELECT {now}")
        assert row is not None, "a clock always tells"
        return float(row[0])

    return instant
