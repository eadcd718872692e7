"""Starts runs for the slots of schedules, or skips them. Three skips in a row pause the schedule (spec 3).

Accounts are locked first, then schedules, then jobs, and feeds last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from billing.charges.charge_rows import READ_ACCOUNTS
from billing.errors import AccountDeleted, AccountSuspended, InsufficientCredits, KeyBudgetReached
from events.log.log import EventLog, Fact
from scheduler.clock.cadence import cadence_of, next_slot
from scheduler.clock.catch_up import due_slots
from scheduler.clock.instants import Instant
from scheduler.errors import CadenceInvalid, JobInvalid, JobLimitReached
from scheduler.jobs import job_rows
from scheduler.jobs.discover.run_drafts import RunTerms, draft_of
from scheduler.jobs.discover.run_events import of_schedule
from scheduler.jobs.discover.schedules import schedule_rows
from scheduler.jobs.discover.schedules.records import DiscoverSchedule, Occurrence
from scheduler.jobs.discover.searches import Searches
from scheduler.jobs.discover.spec import SearchBody, read_body
from scheduler.jobs.service import JobOwner, JobService
from storage.store import Tx

AT_ONCE: Final = 20
"""How many schedules are processed per transaction. Each may start a run of hundreds of legs."""
INVALID: Final = "run_invalid"
"""The stored run cannot be started: a platform was removed, or a newer release stored it."""
SKIPS_MAX: Final = 3
STILL_RUNS: Final = "previous_run_active"
NO_CREDITS: Final = "insufficient_credits"
NO_BUDGET: Final = "key_budget_reached"
SUSPENDED: Final = "account_suspended"
TOO_MANY: Final = "job_limit_reached"
UNREADABLE: Final = "cadence_unreadable"
THREE_SKIPS: Final = "three_skips"


class ScheduleSlots:
    """Opens slots of schedules on the store's thread, as a slot source of the clock."""

    def __init__(
        self,
        jobs: JobService,
        feed: EventLog,
        searches: Callable[[], Searches],
        *,
        now: Callable[[], float],
        make_id: Callable[[str], str],
        wake: Callable[[], None],
    ) -> None:
        """`wake` makes the workers check for new runs. It is called on the Trio thread."""
        self._jobs = jobs
        self._feed = feed
        self._searches = searches
        self._now = now
        self._make_id = make_id
        self._wake = wake

    def due_at(self, tx: Tx) -> float | None:
        """Return the earliest next slot of all schedules, or None."""
        return schedule_rows.next_due_at(tx)

    def open_due(self, tx: Tx) -> None:
        """Process a batch of overdue schedules.

        Each schedule's newest open slot starts a run, its older ones are recorded as missed, and its next slot is set.
        """
        now = self._now()
        due = schedule_rows.due_schedules(tx, now, AT_ONCE)
        tx.all_in(READ_ACCOUNTS, sorted({account_id for _, account_id in due}))
        facts: list[Fact] = []
        for schedule in schedule_rows.lock_schedules(tx, [id_ for id_, _ in due]):
            if schedule.next_slot_at is not None and schedule.next_slot_at <= now:
                facts += self._open(tx, schedule, schedule.next_slot_at, now)
        self._feed.append(tx, facts)
        tx.on_commit(self._wake)

    def reset_late(self, tx: Tx, instant: Instant) -> int:
        """Reset slots that are later than their cadence allows, and return their number."""
        now = instant(tx)
        ahead = schedule_rows.schedules_ahead(tx, now, AT_ONCE)
        late = [(one, slot) for one in ahead if (slot := _next_slot(one, now)) < (one.next_slot_at or 0.0)]
        for schedule, slot in late:
            schedule_rows.save_schedule(tx, replace(schedule, next_slot_at=slot))
            schedule_rows.make_older(tx, schedule.id, min(schedule.created_at, now))
        return len(late)

    def _open(self, tx: Tx, schedule: DiscoverSchedule, first: float, now: float) -> list[Fact]:
        try:
            due = due_slots(cadence_of(schedule.cadence), first, now, created_at=schedule.created_at)
        except (CadenceInvalid, ValueError):  # one unreadable row must not stop all others
            paused = replace(schedule, status="paused", paused_because=UNREADABLE, next_slot_at=None, updated_at=now)
            schedule_rows.save_schedule(tx, paused)
            return []
        occurrences = [Occurrence(schedule.id, slot, None, reason, now) for slot, reason in due.missed]
        if due.newest is not None and not schedule_rows.is_taken(tx, schedule.id, due.newest):
            occurrences.append(self._occurrence(tx, schedule, due.newest, now))
        schedule_rows.add_occurrences(tx, occurrences)
        moved = replace(_after(schedule, occurrences), next_slot_at=due.next_at)
        facts = _skips(schedule, occurrences)
        if moved.skips >= SKIPS_MAX:
            moved = replace(moved, status="paused", paused_because=THREE_SKIPS, next_slot_at=None, updated_at=now)
            facts += of_schedule(_named(schedule), ["discover.run_failed"], "failed", THREE_SKIPS)
        schedule_rows.save_schedule(tx, moved)
        return facts

    def _occurrence(self, tx: Tx, schedule: DiscoverSchedule, slot: float, now: float) -> Occurrence:
        """Return the occurrence of a slot: its run, or the reason why it is skipped."""
        try:
            run_id = self._begin(tx, schedule)
        except InsufficientCredits:
            reason: str | None = NO_CREDITS
        except KeyBudgetReached:
            reason = NO_BUDGET
        except (AccountSuspended, AccountDeleted):
            reason = SUSPENDED
        except JobLimitReached:
            reason = TOO_MANY
        except JobInvalid:
            reason = INVALID
        else:
            reason = None if run_id is not None else STILL_RUNS
            return Occurrence(schedule.id, slot, run_id, reason, now)
        return Occurrence(schedule.id, slot, None, reason, now)

    def _begin(self, tx: Tx, schedule: DiscoverSchedule) -> str | None:
        """Start a run and return its id, or None if the previous run has not settled."""
        before = None if schedule.last_run_id is None else job_rows.read_job(tx, schedule.last_run_id)
        if before is not None and before.status in ("queued", "running"):
            return None
        try:
            sent = msgspec.json.decode(schedule.body, type=SearchBody)
        except msgspec.MsgspecError as exc:  # for example one stored by a newer release during a rolling upgrade
            raise JobInvalid("run", "cannot be read by this release", "Upgrade this node.") from exc
        spec = read_body(sent, self._searches(), at="run.")
        terms = RunTerms(sent.max_credits, is_told=True, key_id=schedule.key_id, schedule_id=schedule.id)
        owner = JobOwner(schedule.account_id, schedule.key_id, self._make_id("req_"), in_background=True)
        return self._jobs.add(tx, draft=draft_of(spec, terms), owner=owner).id


def _next_slot(schedule: DiscoverSchedule, now: float) -> float:
    """Return the next slot of a schedule, or infinity if its cadence is unreadable.

    A creation time in the future counts as now.
    """
    try:
        return next_slot(cadence_of(schedule.cadence), now, min(schedule.created_at, now))
    except (CadenceInvalid, ValueError):  # the schedule will be paused at its next slot
        return float("inf")


def _after(schedule: DiscoverSchedule, occurrences: Sequence[Occurrence]) -> DiscoverSchedule:
    """Return a schedule after these occurrences, with its number of consecutive skips and its last run."""
    for one in occurrences:
        skips = 0 if one.run_id is not None else schedule.skips + 1
        schedule = replace(schedule, skips=skips, last_run_id=one.run_id or schedule.last_run_id)
    return schedule


def _skips(schedule: DiscoverSchedule, occurrences: Sequence[Occurrence]) -> list[Fact]:
    return [
        fact
        for one in occurrences
        if one.skip_reason is not None
        for fact in of_schedule(_named(schedule), ["discover.run_skipped"], "skipped", one.skip_reason)
    ]


def _named(schedule: DiscoverSchedule) -> tuple[str, str, str | None, str]:
    return schedule.account_id, schedule.id, schedule.key_id, schedule.name
