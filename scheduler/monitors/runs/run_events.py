"""Publishes a run's events to the account's feed (decisions 13)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal, cast

from events.instants import iso
from events.log.kinds import MonitorAlert, MonitorRun
from events.log.log import Fact, Subject
from scheduler.monitors.model.records import Monitor, Run

TYPES: Final = MappingProxyType(
    {
        "ok": "monitor.run_completed",
        "partial": "monitor.run_completed",
        "failed": "monitor.run_failed",
        "skipped": "monitor.run_skipped",
    }
)


def facts_of(monitor: Monitor, run: Run, *, alerts_fired: int = 0) -> list[Fact]:
    """A run that ended, and then its alerts where it has some; the monitor's id selects both."""
    data = MonitorRun(
        monitor_id=monitor.id,
        run_id=run.id,
        status=cast(Literal["ok", "partial", "failed", "skipped"], run.status),
        scheduled_for=iso(run.scheduled_for),
        alerts_fired=alerts_fired,
        rows=run.rows_count,
        credits_spent=run.credits_used,
        skip_reason=run.skip_reason,
    )
    facts = [_fact(monitor, run, TYPES[run.status], data)]
    if alerts_fired:
        alert = MonitorAlert(
            monitor_id=monitor.id, run_id=run.id, scheduled_for=data.scheduled_for, alerts_fired=alerts_fired
        )
        facts.append(_fact(monitor, run, "monitor.alert_fired", alert))
    return facts


def _fact(monitor: Monitor, run: Run, type_: str, data: MonitorRun | MonitorAlert) -> Fact:
    runs = f"/v1/monitors/{monitor.id}/runs"
    links = {"monitor": f"/v1/monitors/{monitor.id}", "run": f"{runs}/{run.id}", "runs": runs}
    subject = Subject("run", run.id, monitor.name)
    return Fact(monitor.account_id, type_, subject, data, key_id=monitor.key_id, parent_id=monitor.id, links=links)
