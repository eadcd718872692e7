"""A monitor's runs in the form that responses and commands show (spec 2.6, decisions 12)."""

from __future__ import annotations

from typing import Any

import orjson

from events.instants import iso, iso_or_none
from scheduler.monitors.model.records import Run
from scheduler.monitors.runs.run_rows import Delivered


def run_record(run: Run, delivery: Delivered | None = None) -> dict[str, Any]:
    """Return one run as a mapping that orjson can encode.

    `skip_reason` is included if the run was skipped, or failed for a known reason.
    """
    record = {
        "run_id": run.id,
        "monitor_id": run.monitor_id,
        "status": run.status,
        "scheduled_for": iso(run.scheduled_for),
        "started_at": iso_or_none(run.started_at),
        "finished_at": iso_or_none(run.finished_at),
        "credits_used": run.credits_used,
        "rows": run.rows_count,
        "legs": orjson.Fragment(run.legs),
        "alerts_fired": orjson.Fragment(run.alerts),
        "warnings": orjson.Fragment(run.warnings),
        "webhook_delivery": None if delivery is None else _delivery(delivery),
    }
    return record if run.skip_reason is None else {**record, "skip_reason": run.skip_reason}


def _delivery(delivery: Delivered) -> dict[str, Any]:
    return {
        "attempts": delivery.attempts,
        "lastStatus": delivery.last_status,
        "deliveredAt": iso_or_none(delivery.delivered_at),
        "failedAt": iso_or_none(delivery.failed_at),
    }
