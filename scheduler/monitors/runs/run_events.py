"""Publishes a run's events to the account's feed (decisions 13)."""

from __future__ import annotations

from math import floor
from types import MappingProxyType
from typing import Final, Literal, cast

import orjson

from events.instants import iso
from events.log.kinds import MonitorAlert, MonitorRun, WebChange, WebCheckFailed
from events.log.log import Fact, Subject
from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs.verdict import RunVerdict

TYPES: Final = MappingProxyType(
    {
        "ok": "monitor.run_completed",
        "partial": "monitor.run_completed",
        "failed": "monitor.run_failed",
        "skipped": "monitor.run_skipped",
    }
)


def facts_of(monitor: Monitor, run: Run, verdict: RunVerdict | None = None) -> list[Fact]:
    """Return the events of a finished run: one for its end, and one for its alerts if there are any.

    Both events contain the monitor's id. `verdict` is None if the run was not executed. Web checks report only changes
    and failures.
    """
    if monitor.web is not None:
        return _of_check(monitor, run, verdict)
    alerts_fired = 0 if verdict is None else len(verdict.alerts)
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


def _of_check(monitor: Monitor, run: Run, verdict: RunVerdict | None) -> list[Fact]:
    if run.status in ("failed", "skipped"):
        failure = WebCheckFailed(
            monitor_id=monitor.id,
            check_id=run.id,
            status=run.status,
            scheduled_for=iso(run.scheduled_for),
            skip_reason=run.skip_reason,
        )
        return [_check_fact(monitor, run, "web.check_failed", failure)]
    if verdict is None or not verdict.is_told or verdict.kept is None or verdict.kept.deltas is None:
        return []
    told = orjson.loads(verdict.kept.deltas)
    change = WebChange(
        monitor_id=monitor.id,
        check_id=run.id,
        scheduled_for=iso(run.scheduled_for),
        similarity_percent=floor(100 * told["similarity"]),
        lines_added=told["added_total"],
        lines_removed=told["removed_total"],
        credits_spent=run.credits_used,
    )
    return [_check_fact(monitor, run, "web.changed", change)]


def _check_fact(monitor: Monitor, run: Run, type_: str, data: WebChange | WebCheckFailed) -> Fact:
    place = f"/v1/web/monitors/{monitor.id}"
    links = {"monitor": place, "checks": f"{place}/checks"}
    subject = Subject("web_check", run.id, monitor.name)
    return Fact(monitor.account_id, type_, subject, data, key_id=monitor.key_id, parent_id=monitor.id, links=links)


def _fact(monitor: Monitor, run: Run, type_: str, data: MonitorRun | MonitorAlert) -> Fact:
    runs = f"/v1/monitors/{monitor.id}/runs"
    links = {"monitor": f"/v1/monitors/{monitor.id}", "run": f"{runs}/{run.id}", "runs": runs}
    subject = Subject("run", run.id, monitor.name)
    return Fact(monitor.account_id, type_, subject, data, key_id=monitor.key_id, parent_id=monitor.id, links=links)
