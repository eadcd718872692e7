"""Measures the size of a store periodically, stores the measurements for some days, and forecasts the growth.

Each hour has one row, with the size at the end of that hour and the number of calls that all nodes charged during it.
At each measurement, a node adds its calls since the last one. When a node ends, the calls since its last measurement
are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import trio

from storage.disk_watch import DiskWatch
from storage.errors import StorageError
from storage.migrations import MigrationSet, Schema
from storage.store import Row, Store, StoreSize, Tx

EVERY_S: Final = 600.0
HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0
KEPT_S: Final = 2 * DAY_S
KNOWN_AFTER_S: Final = HOUR_S
"""The shortest time span from which growth is calculated."""
CALLS_LEAST: Final = 1_000
DAYS_WARNED: Final = 7.0

SAVE = """
INSERT INTO store_samples (hour, at, bytes, calls) VALUES (?, ?, ?, ?) ON CONFLICT (hour) DO UPDATE
SET at = excluded.at, bytes = excluded.bytes, calls = store_samples.calls + excluded.calls
"""
FORGET = "DELETE FROM store_samples WHERE hour < ? OR hour > ?"
READ = "SELECT at, bytes, calls FROM store_samples ORDER BY hour"


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth over a time span, and the number of calls charged in that time."""

    over_s: float
    bytes: int
    calls: int

    @property
    def bytes_a_day(self) -> float:
        """The growth in bytes per day; negative if the store shrinks."""
        return self.bytes * DAY_S / self.over_s

    @property
    def bytes_per_thousand_calls(self) -> float | None:
        """The growth in bytes per thousand calls; None if too few calls were charged."""
        return None if self.calls < CALLS_LEAST else self.bytes * 1_000 / self.calls


def growth_of(samples: Sequence[Row]) -> Growth | None:
    """Return the growth over the last day before the newest sample, or None if too little is known.

    A sample is (time, bytes, calls).
    """
    if not samples:
        return None
    end, bytes_end, _ = samples[-1]
    recent = [sample for sample in samples if sample[0] >= end - DAY_S]
    begin, bytes_begin, _ = recent[0]
    if end - begin < KNOWN_AFTER_S:
        return None
    return Growth(end - begin, bytes_end - bytes_begin, sum(calls for _, _, calls in recent[1:]))


class StoreGrowth:
    """Measures a store and stores the measurements. `now` returns Unix seconds."""

    def __init__(self, store: Store, disk: DiskWatch, *, now: Callable[[], float]) -> None:
        self._store = store
        self._disk = disk
        self._now = now
        self.size: StoreSize | None = None
        """The size at the last measurement, if any."""
        self.growth: Growth | None = None

    async def keep_measuring(self, event: Callable[..., None], calls_made: Callable[[], int]) -> None:
        """Measure now and every ten minutes. `event` logs.

        `calls_made` returns how many calls this node has charged so far. The first measurement is not stored, because a
        machine may start with a wrong clock and correct it before the second one.
        """
        counted, is_first = 0, True
        while True:
            try:
                await self.measure()
                if not is_first:
                    made = calls_made()
                    await self._store.write(partial(self._save, calls=made - counted))
                    counted = made
                self._warn(event)
            except StorageError as exc:
                event("warning", "store_not_measured", error=str(exc))
            is_first = False
            await trio.sleep(EVERY_S)

    async def measure(self) -> None:
        """Measure the store and read its samples. Raises StorageError; in that case the previous values remain."""
        self.size = await self._store.measure()
        self.growth = growth_of(await self._store.read(lambda tx: tx.all(READ)))
        await self._disk.check()

    def days_left(self) -> float | None:
        """Return the days until the disk reaches its floor at the current growth; None if unknown or never.

        The forecast assumes that free space inside the database file is used first.
        """
        size, growth, space = self.size, self.growth, self._disk.space
        if size is None or growth is None or space is None or growth.bytes <= 0:
            return None
        room = max(0, space.free_bytes - self._disk.floor_bytes) + (size.free_bytes or 0)
        return room / growth.bytes_a_day

    async def report(self) -> dict[str, Any]:
        """Measure now and return all figures, ready for JSON. Raises StorageError if measuring fails."""
        await self.measure()
        assert self.size is not None, "it was just measured"
        growth, space, days = self.growth, self._disk.space, self.days_left()
        per_thousand = None if growth is None else growth.bytes_per_thousand_calls
        return {
            "bytes": self.size.bytes,
            "free_bytes": self.size.free_bytes,
            "tables": [asdict(table) for table in self.size.tables],
            "measured_over_h": None if growth is None else round(growth.over_s / HOUR_S, 2),
            "growth_bytes_a_day": None if growth is None else round(growth.bytes_a_day),
            "calls": None if growth is None else growth.calls,
            "bytes_per_thousand_calls": None if per_thousand is None else round(per_thousand),
            "disk": None if space is None else {**asdict(space), "floor_bytes": self._disk.floor_bytes},
            "days_until_full": None if days is None else round(days, 1),
        }

    def _warn(self, event: Callable[..., None]) -> None:
        days = self.days_left()
        if days is not None and days < DAYS_WARNED:
            assert self.growth is not None, "days_left() needs the growth"
            event("warning", "disk_fills", days_left=round(days, 1), growth_bytes_a_day=round(self.growth.bytes_a_day))

    def _save(self, tx: Tx, calls: int) -> None:
        assert self.size is not None, "it was just measured"
        at = self._now()
        hour = int(at // HOUR_S)
        tx.run(SAVE, (hour, at, self.size.bytes, calls))
        tx.run(FORGET, (hour - int(KEPT_S // HOUR_S), hour))


def m0001_store_samples(schema: Schema) -> None:
    """Create `store_samples`, with one row per hour: the store's size at its end, and the calls charged in it."""
    schema.execute("""
    CREATE TABLE store_samples (
        hour BIGINT PRIMARY KEY,
        at DOUBLE PRECISION NOT NULL,
        bytes BIGINT NOT NULL CHECK (bytes >= 0),
        calls BIGINT NOT NULL CHECK (calls >= 0)
    )
    """)


MIGRATIONS = MigrationSet("growth", (m0001_store_samples,))
