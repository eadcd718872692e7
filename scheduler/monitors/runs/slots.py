"""Turns slots into runs: slots that have arrived, and single slots on request.

A slot of a monitor has at most one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Final

from events.log.log import EventLog
from scheduler.clock.cadence import cadence_of
from scheduler.clock.catch_up import due_slots, start_of
from scheduler.errors import CadenceInvalid, MonitorUnknown
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.run_events import facts_of
from scheduler.monitors.web.watch import keep_until
from storage.store import Tx

STILL_RUNS: Final = "previous_run_active"
RECORDS_AT_ONCE: Final = 2_000
"""The approximate number of runs and skips per transaction. Each monitor may have missed a hundred slots."""


@dataclass(slots=True)
class Opened:
    """The runs opened for monitors whose slot has arrived. Only `Slots` fills it."""

    runs: list[Run] = field(default_factory=list)
    scheduled: list[tuple[str, float]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Monitors without a readable cadence. They get no next slot."""


class Slots:
    """Opens slots on the store's thread. Monitors are locked before runs, and feeds last."""

    def __init__(self, feed: EventLog, *, now: Callable[[], float], make_id: Callable[[str], str]) -> None:
        self._feed = feed
        self._now = now
        self._make_id = make_id

    def open_due(self, tx: Tx, *, limit: int, crowds: Mapping[float, int]) -> Opened:
        """Open the newest slot of at most `limit` monitors, record missed slots, and set the next ones.

        Return these changes. Monitors that do not fit into one transaction keep their slot for the next one. A slot is
        skipped if the previous run is still active. `crowds` contains the number of monitors that share each slot.
        """
        now = self._now()
        monitors = store.due_monitors(tx, now, limit)
        ids = [monitor.id for monitor in monitors]
        running, taken = run_rows.running_monitors(tx, ids), run_rows.taken_slots(tx, ids)
        opened = Opened()
        for monitor in monitors:
            if len(opened.runs) >= RECORDS_AT_ONCE:
                break
            self._open_due_of(opened, monitor, now, is_running=monitor.id in running, crowds=crowds)
        opened.runs = [run for run in opened.runs if (run.monitor_id, run.scheduled_for) not in taken]
        self._add_runs(tx, opened.runs, {monitor.id: monitor for monitor in monitors})
        store.schedule(tx, opened.scheduled)
        store.unschedule(tx, opened.unreadable)
        return opened

    def open_one(self, tx: Tx, monitor_id: str, slot: float | None = None) -> Run:
        """Return the run of a slot, by default of the current second's slot.

        If the slot already has a run, return it unchanged. Otherwise, create a pending or skipped run.

        Raises:
            MonitorUnknown: the monitor does not exist.
        """
        now = self._now()
        monitor = store.read_monitor(tx, monitor_id, locked=True)
        if monitor is None:
            raise MonitorUnknown(monitor_id)
        at = float(floor(now)) if slot is None else slot
        found = run_rows.run_of_slot(tx, monitor_id, at)
        if found is not None:
            return found
        is_running = monitor_id in run_rows.running_monitors(tx, [monitor_id])
        run = self._skipped(monitor, at, STILL_RUNS, now) if is_running else self._pending(monitor, at, now)
        self._add_runs(tx, [run], {monitor_id: monitor})
        return run

    def _open_due_of(
        self, opened: Opened, monitor: Monitor, now: float, *, is_running: bool, crowds: Mapping[float, int]
    ) -> None:
        assert monitor.next_slot_at is not None, "only scheduled monitors are selected"
        try:
            cadence = cadence_of(monitor.cadence)
            due = due_slots(cadence, monitor.next_slot_at, now, created_at=monitor.created_at)
        except (CadenceInvalid, ValueError):  # one unreadable row must not stop all others
            opened.unreadable.append(monitor.id)
            return
        opened.runs += [self._skipped(monitor, slot, reason, now) for slot, reason in due.missed]
        opened.scheduled.append((monitor.id, due.next_at))
        if due.newest is None:
            return
        if is_running:
            opened.runs.append(self._skipped(monitor, due.newest, STILL_RUNS, now))
        else:
            start_at = start_of(due.newest, monitor.id, crowds.get(due.newest, 0))
            opened.runs.append(self._pending(monitor, due.newest, start_at))

    def _add_runs(self, tx: Tx, runs: Sequence[Run], monitors: Mapping[str, Monitor]) -> None:
        run_rows.add_runs(tx, runs)
        skips = [run for run in runs if run.status == "skipped"]
        self._feed.append(tx, [fact for run in skips for fact in facts_of(monitors[run.monitor_id], run)])

    def _pending(self, monitor: Monitor, slot: float, start_at: float) -> Run:
        return Run(self._make_id("run_"), monitor.id, monitor.account_id, slot, "pending", start_at)

    def _skipped(self, monitor: Monitor, slot: float, reason: str, now: float) -> Run:
        id_ = self._make_id("run_")
        kept = keep_until(monitor.web, now)
        run = Run(id_, monitor.id, monitor.account_id, slot, "skipped", slot, finished_at=now, skip_reason=reason)
        return replace(run, keep_until=kept)
