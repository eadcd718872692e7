"""Builds a run's payload for the monitor's webhook, in the format that the owner has chosen (spec 2.7)."""

from __future__ import annotations

from typing import Literal, cast

import orjson

from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs.verdict import RunVerdict
from scheduler.monitors.web.checks import check_payload
from scheduler.webhooks.deliveries.payloads import (
    DeliveredRun,
    PayloadDeltas,
    full_numbers_payload,
    full_payload,
    rows_payload,
)


def make_payload(monitor: Monitor, run: Run, verdict: RunVerdict) -> bytes:
    """Return the payload. Every attempt of the run's delivery sends it unchanged."""
    if monitor.web is not None:
        return check_payload(monitor, run, verdict)
    assert verdict.body is not None, "only runs with a result are delivered"
    assert verdict.numbers is not None, "a result always has its numbers extracted"
    delivered = DeliveredRun(
        monitor_id=monitor.id,
        run_id=run.id,
        recipe=monitor.recipe,
        status=cast(Literal["ok", "partial"], run.status),
        scheduled_for=run.scheduled_for,
        alerts_fired=verdict.alerts_json,
    )
    result, deltas = orjson.Fragment(verdict.body), verdict.deltas_json
    if monitor.track is None:
        return full_payload(delivered, result=result, deltas=deltas or {})
    changes = cast("PayloadDeltas | None", deltas)
    if monitor.webhook_format == "rows":
        return rows_payload(delivered, numbers=verdict.numbers, deltas=changes)
    return full_numbers_payload(delivered, result=result, numbers=verdict.numbers, deltas=changes)
