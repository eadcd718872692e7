"""Checks that slots, runs, credits and events match: a pure function that yields one sentence per fault."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.monitors.runs.run_events import TYPES
from scheduler.monitors.runs.runs import GIVEN_UP

CALLED: Final = ("ok", "partial", "failed")


class MonitorRow(NamedTuple):
    """A monitor as stored."""

    id: str
    account_id: str
    params: str
    created_at: float
    runs_total: int
    credits_spent: int


class RunRow(NamedTuple):
    """A run as stored."""

    id: str
    monitor_id: str
    account_id: str
    scheduled_for: float
    status: str
    attempt: int
    credits_used: int
    skip_reason: str | None


class Event(NamedTuple):
    """An event that reports the end of a run."""

    type: str
    subject_id: str
    parent_id: str | None


class Money(NamedTuple):
    """An account with its balance, its reserved credits, and the credits that it was given."""

    account_id: str
    balance: int
    held: int
    given: int


@dataclass(frozen=True, slots=True)
class Found:
    """The contents of the store. `spent` has the number of settlements and the final cost of each request id."""

    monitors: Sequence[MonitorRow]
    runs: Sequence[RunRow]
    spent: Mapping[str, tuple[int, int]]
    events: Sequence[Event]
    money: Sequence[Money]


def judge(
    found: Found, *, slots_of: Callable[[MonitorRow], Sequence[float]], calls: Mapping[str, int]
) -> Iterator[str]:
    """Yield the faults. `slots_of` returns the slots of a monitor, `calls` the number of its upstream calls."""
    runs: dict[str, list[RunRow]] = defaultdict(list)
    for run in found.runs:
        runs[run.monitor_id].append(run)
        yield from _ending(run)
    for monitor in found.monitors:
        own = runs[monitor.id]
        yield from _slots(monitor, own, slots_of(monitor))
        yield from _totals(monitor, own)
        yield from _calls(monitor, own, calls.get(monitor.id, 0))
    yield from _charges(found)
    yield from _event_faults(found)
    yield from _money(found)


def _ending(run: RunRow) -> Iterator[str]:
    if run.status not in TYPES:
        yield f"{run.id} is {run.status} at the end"
    if run.status in ("skipped", "failed") and not run.skip_reason:
        yield f"{run.id} is {run.status} for no reason"


def _slots(monitor: MonitorRow, runs: Sequence[RunRow], slots: Sequence[float]) -> Iterator[str]:
    ran = Counter(run.scheduled_for for run in runs)
    yield from (f"{monitor.id}: the slot {slot:.0f} was lost" for slot in slots if slot not in ran)
    yield from (f"{monitor.id}: the slot {slot:.0f} was run {count} times" for slot, count in ran.items() if count > 1)
    yield from (f"{monitor.id}: the slot {slot:.0f} is none" for slot in ran.keys() - set(slots))


def _totals(monitor: MonitorRow, runs: Sequence[RunRow]) -> Iterator[str]:
    told = (monitor.runs_total, monitor.credits_spent)
    summed = (sum(run.status in CALLED for run in runs), sum(run.credits_used for run in runs))
    if told != summed:
        yield f"{monitor.id} tells {told} of runs and credits, its runs sum up to {summed}"


def _calls(monitor: MonitorRow, runs: Sequence[RunRow], calls: int) -> Iterator[str]:
    """Check that each run made one call, and at most one more for each interrupted attempt."""
    least = sum(run.status in CALLED and run.skip_reason != GIVEN_UP for run in runs)
    most = least + sum(max(run.attempt - 1, 0) for run in runs)
    if not least <= calls <= most:
        yield f"{monitor.id} has asked {calls} times, its runs tell of {least} to {most}"


def _charges(found: Found) -> Iterator[str]:
    """Check the charges of a run's attempts, whose ids begin with its own: at most one of them settles."""
    settled, cost = Counter[str](), Counter[str]()
    for request_id, (settlements, credits_spent) in found.spent.items():
        run_id = request_id.partition(".")[0]
        settled[run_id] += settlements
        cost[run_id] += credits_spent
    for run in found.runs:
        if settled[run.id] != (run.credits_used > 0):
            yield f"{run.id} used {run.credits_used} credits and was settled {settled[run.id]} times"
        if cost[run.id] != run.credits_used:
            yield f"{run.id} used {run.credits_used} credits and was charged {cost[run.id]}"
    yield from (f"{id_} was charged and is no run" for id_ in cost.keys() - {run.id for run in found.runs})


def _event_faults(found: Found) -> Iterator[str]:
    told: dict[str, list[Event]] = defaultdict(list)
    for event in found.events:
        told[event.subject_id].append(event)
    for run in found.runs:
        wanted = [Event(TYPES.get(run.status, ""), run.id, run.monitor_id)]
        if (events := told.pop(run.id, [])) != wanted:
            yield f"{run.id} is {run.status} and its events are {[event.type for event in events]}"
    yield from (f"an event tells of {id_}, which is no run" for id_ in told)


def _money(found: Found) -> Iterator[str]:
    used = Counter[str]()
    for run in found.runs:
        used[run.account_id] += run.credits_used
    for account_id, balance, held, given in found.money:
        if held:
            yield f"{account_id} holds {held} credits at the end"
        if given - used[account_id] != balance:
            yield f"{account_id} has {balance} of {given} credits, its runs used {used[account_id]}"
