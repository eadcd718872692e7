"""What a clock that stood ahead has left behind is brought back to the present (decisions 12).

Whatever it made due so far off would wait until that day. Slots are pulled back only to such as are yet to come, and
one that has been run has its record, so none is run twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Final

from scheduler.errors import CadenceInvalid
from scheduler.monitors import store
from scheduler.monitors.cadence import cadence_of, next_slot
from scheduler.monitors.due import SPREAD_MAX_S
from scheduler.monitors.records import Monitor
from storage.store import Store, Tx

AT_ONCE: Final = 200
WAIT_MAX_S: Final = 2 * SPREAD_MAX_S
"""No run that a right clock has opened begins later than this from now."""
_WEEK_S = 7 * 86_400.0

FARTHEST = """
SELECT cadence, MAX(next_slot_at) FROM monitors WHERE status = 'active' AND next_slot_at > ? GROUP BY cadence
"""
READ_AHEAD = f"""
SELECT {store.COLUMNS} FROM monitors WHERE status = 'active' AND cadence = ? AND next_slot_at > ?
ORDER BY id LIMIT ? {{lock}}
"""  # noqa: S608 - made of constants
MAKE_OLDER = "UPDATE monitors SET created_at = ? WHERE id = ?"
START_NOW = "UPDATE runs SET start_at = ? WHERE status = 'pending' AND start_at > ?"


async def come_back(store_: Store, now: Callable[[], float]) -> int:
    """Bring back what is due further off than it can be; how many monitors and runs that were.

    Raises:
        StorageError: some may be where they were.
    """
    brought = 0
    for cadence in await store_.read(lambda tx: cadences_ahead(tx, now())):
        while some := await store_.write(partial(_pull_back, cadence=cadence, now=now)):
            brought += some
    if await store_.read(lambda tx: _has_late_start(tx, now())):
        brought += await store_.write(lambda tx: tx.run(START_NOW, (now(), now() + WAIT_MAX_S)))
    return brought


def cadences_ahead(tx: Tx, now: float) -> list[str]:
    """The cadences, as they are stored, of which a monitor is due later than any of that cadence can be."""
    return [cadence for cadence, farthest in tx.all(FARTHEST, (now,)) if farthest > _latest(cadence, now)]


def _latest(cadence: str, now: float) -> float:
    """The next slot of a monitor that is made this moment: all others of the cadence have theirs by then."""
    try:
        return next_slot(cadence_of(cadence), now, now)
    except (CadenceInvalid, ValueError):  # the clock tells of it when its slot comes
        return float("inf")


def _pull_back(tx: Tx, cadence: str, now: Callable[[], float]) -> int:
    at = now()
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
    """When it was made; of one that is made in the future whole weeks before, so that it keeps its time of the day."""
    return monitor.created_at - max(0, ceil((monitor.created_at - now) / _WEEK_S)) * _WEEK_S


def _has_late_start(tx: Tx, now: float) -> bool:
    return (
        tx.one("SELECT 1 FROM runs WHERE status = 'pending' AND start_at > ? LIMIT 1", (now + WAIT_MAX_S,)) is not None
    )
