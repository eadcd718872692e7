"""Finds a monitor's due slots, and spreads the runs of many monitors that share a slot: pure rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from zlib import crc32

from scheduler.clock.cadence import Cadence, next_slot, slots_between

RECORDED_MAX: Final = 100
"""Missed slots that get a record each; one more record stands for all that are older."""
CROWD_LEAST: Final = 200
"""Monitors that share a slot and still start at once."""
STARTS_A_SECOND: Final = 50
SPREAD_MAX_S: Final = 60.0
MISSED: Final = "missed"


class Missed(NamedTuple):
    """A slot that passed while nobody was there to run it, and the reason that its record gives."""

    slot: float
    reason: str


class DueSlots(NamedTuple):
    """The slots that a monitor owes: the newest, which is run, older ones that were missed, and when the next comes."""

    newest: float | None
    missed: list[Missed]
    next_at: float


class Ready(NamedTuple):
    """A run that may start."""

    start_at: float
    account_id: str
    run_id: str


def due_slots(cadence: Cadence, first: float, now: float, *, created_at: float) -> DueSlots:
    """The slots from `first`, the one that was expected, up to `now` (decisions 12).

    Raises:
        CadenceInvalid: the cadence has no slot left.
    """
    slots = slots_between(cadence, first - 0.5, now, created_at=created_at, limit=RECORDED_MAX + 2)
    missed = [Missed(slot, MISSED) for slot in slots[:-1]]
    if len(missed) > RECORDED_MAX:
        missed[0] = Missed(first, MISSED)
    return DueSlots(slots[-1] if slots else None, missed, next_slot(cadence, max(now, first - 0.5), created_at))


def start_of(slot: float, monitor_id: str, crowd: int) -> float:
    """Return when the run of a slot starts that `crowd` monitors share: at once, or at its place in a spread."""
    if crowd < CROWD_LEAST:
        return slot
    return slot + crc32(monitor_id.encode()) / 2**32 * min(SPREAD_MAX_S, crowd / STARTS_A_SECOND)


def in_turn(ready: Iterable[Ready], busy: Mapping[str, int], *, free: int, each_max: int) -> list[Ready]:
    """At most `free` runs, round robin over their accounts; `busy` is what runs already, at most `each_max` an account.

    An account's own runs keep their order; whoever has fewest under way is first.
    """
    turns, taking = [], Counter(busy)
    for one in sorted(ready):
        turn = taking[one.account_id]
        if turn < each_max:
            taking[one.account_id] += 1
            turns.append((turn, one))
    return [one for _turn, one in sorted(turns)[: max(0, free)]]
