"""Pure functions that find a monitor's open slots, and spread the runs of many monitors that share a slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from zlib import crc32

from scheduler.clock.cadence import Cadence, next_slot, slots_between

RECORDED_MAX: Final = 100
"""The maximum number of missed slots that are recorded one by one. One more record covers all older ones."""
CROWD_LEAST: Final = 200
"""If fewer monitors than this share a slot, all start immediately."""
STARTS_A_SECOND: Final = 50
SPREAD_MAX_S: Final = 60.0
MISSED: Final = "missed"


class Missed(NamedTuple):
    """A slot that passed without a run, and the reason why."""

    slot: float
    reason: str


class DueSlots(NamedTuple):
    """A monitor's slots up to now, and its next slot. The newest slot is run; the older ones were missed."""

    newest: float | None
    missed: list[Missed]
    next_at: float


class Ready(NamedTuple):
    """A run that can start."""

    start_at: float
    account_id: str
    run_id: str


def due_slots(cadence: Cadence, first: float, now: float, *, created_at: float) -> DueSlots:
    """Return the slots from `first`, the expected one, up to `now` (decisions 12).

    Raises:
        CadenceInvalid: the cadence has no slot left.
    """
    slots = slots_between(cadence, first - 0.5, now, created_at=created_at, limit=RECORDED_MAX + 2)
    missed = [Missed(slot, MISSED) for slot in slots[:-1]]
    if len(missed) > RECORDED_MAX:
        missed[0] = Missed(first, MISSED)
    return DueSlots(slots[-1] if slots else None, missed, next_slot(cadence, max(now, first - 0.5), created_at))


def start_of(slot: float, monitor_id: str, crowd: int) -> float:
    """Return when a run starts if `crowd` monitors share its slot: at the slot, or later to spread the runs."""
    if crowd < CROWD_LEAST:
        return slot
    return slot + crc32(monitor_id.encode()) / 2**32 * min(SPREAD_MAX_S, crowd / STARTS_A_SECOND)


def in_turn(ready: Iterable[Ready], busy: Mapping[str, int], *, free: int, each_max: int) -> list[Ready]:
    """Return at most `free` runs, round robin over accounts.

    `busy` counts the runs in progress, at most `each_max` per account. Runs of the same account keep their order;
    accounts with the fewest runs in progress go first.
    """
    turns, taking = [], Counter(busy)
    for one in sorted(ready):
        turn = taking[one.account_id]
        if turn < each_max:
            taking[one.account_id] += 1
            turns.append((turn, one))
    return [one for _turn, one in sorted(turns)[: max(0, free)]]
