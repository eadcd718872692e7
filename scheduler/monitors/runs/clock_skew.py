"""Resets slots that a fast clock has put into the future (decisions 12).

Without a reset, a monitor with such a slot would not run until that time. Slots are reset only to times that have not
passed yet, and every slot that was run has a record, so no slot runs twice.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import Final, NamedTuple

from scheduler.clock.cadence import cadence_of, next_slot
from scheduler.clock.catch_up import SPREAD_MAX_S
from scheduler.clock.instants import Instant
from scheduler.errors import CadenceInvalid
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor
from storage.store import Store, Tx

AT_ONCE: Final = 200
_WEEK_S = 7 * 86_400.0

FARTHEST = """
SELECT cadence, MAX(next_slot_at) FROM monitors WHERE status = 'active' AND next_slot_at > ? GROUP BY cadence
"""
READ_AHEAD = f"""
SELECT {store.COLUMNS} FROM monitors WHERE status = 'active' AND cadence = ? AND next_slot_at > ?
ORDER BY id LIMIT ? {{lock}}
"""  # noqa: S608 - made of constants
MAKE_OLDER = "UPDATE monitors SET created_at = ? WHERE id = ?"


class _Waiting(NamedTuple):
    """Rows that wait for a certain time, and the longest valid wait."""

    find: str
    begin_now: str
    wait_max_s: float


RUNS: Final = _Waiting(
    "SELECT 1 FROM runs WHERE status = 'pending' AND start_at > ? LIMIT 1",
    "UPDATE runs SET start_at = ? WHERE status = 'pending' AND start_at > ?",
    2 * SPREAD_MAX_S,
)
# The longest configurable pause before an attempt is a day, and a receiver may ask for twice that.
DELIVERIES: Final = _Waiting(
    "SELECT 1 FROM deliveries WHERE status = 'queued' AND lease_until IS NULL AND next_at > ? LIMIT 1",
    "UPDATE deliveries SET next_at = ? WHERE status = 'queued' AND lease_until IS NULL AND next_at > ?",
    3 * 86_400.0,
)


async def reset_late(store_: Store, instant: Instant) -> int:
    """Reset everything that is scheduled later than possible, and return the number of changes.

    The number includes monitors, runs and deliveries.

    Raises:
        StorageError: some monitors, runs or deliveries may be unchanged.
    """
    resets = 0
    for cadence in await store_.read(lambda tx: cadences_too_late(tx, instant(tx))):
        while some := await store_.write(partial(_reset_monitors, cadence=cadence, instant=instant)):
            resets += some
    for waiting in (RUNS, DELIVERIES):
        if await store_.read(partial(_is_far_off, waiting=waiting, instant=instant)):
            resets += await store_.write(partial(_begin_now, waiting=waiting, instant=instant))
    return resets


def cadences_too_late(tx: Tx, now: float) -> list[str]:
    """Return the stored cadences that have a monitor whose slot is later than the cadence allows."""
    return [cadence for cadence, farthest in tx.all(FARTHEST, (now,)) if farthest > _latest(cadence, now)]


def _latest(cadence: str, now: float) -> float:
    """Return the next slot of a monitor created now. No other monitor of the cadence can have a later slot."""
    try:
        return next_slot(cadence_of(cadence), now, now)
    except (CadenceInvalid, ValueError):  # an unreadable cadence is reported when its slot is opened
        return float("inf")


def _reset_monitors(tx: Tx, cadence: str, instant: Instant) -> int:
    at = instant(tx)
    rows = tx.all(READ_AHEAD, (cadence, _latest(cadence, at), AT_ONCE))
    monitors = [store.monitor_of(row) for row in rows]
    slots: list[tuple[str, float]] = []
    for monitor in monitors:
        created_at = _created_at(monitor, at)
        slots.append((monitor.id, next_slot(cadence_of(cadence), at, created_at)))
        if created_at != monitor.created_at:
            tx.run(MAKE_OLDER, (created_at, monitor.id))
    store.schedule(tx, slots)
    return len(slots)


def _created_at(monitor: Monitor, now: float) -> float:
    """Return when the monitor was created.

    A creation time in the future is moved back by whole weeks, so that it keeps its weekday and its time of day.
    """
    return monitor.created_at - max(0, ceil((monitor.created_at - now) / _WEEK_S)) * _WEEK_S


def _is_far_off(tx: Tx, waiting: _Waiting, instant: Instant) -> bool:
    return tx.one(waiting.find, (instant(tx) + waiting.wait_max_s,)) is not None


def _begin_now(tx: Tx, waiting: _Waiting, instant: Instant) -> int:
    at = instant(tx)
    return tx.run(waiting.begin_now, (at, at + waiting.wait_max_s))
