"""Builds webhook payloads exactly as in spec 2.7.

The bytes are built once per delivery, and every attempt sends them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import orjson

from events.instants import iso

Number = int | float
Numbers = Mapping[str, Mapping[str, Number]]
"""The numbers of a run: row id -> metric path -> number, in page order."""


class PayloadDelta(TypedDict):
    """The change of one number. `pct` is None if the previous value was 0."""

    prev: Number
    cur: Number
    abs: Number
    pct: Number | None


class PayloadDeltas(TypedDict):
    """The changes of a run's numbers since the previous run: row id -> metric path -> change."""

    rows: Mapping[str, Mapping[str, PayloadDelta]]
    rows_new: Sequence[str]
    rows_gone: Sequence[str]


@dataclass(frozen=True, slots=True)
class DeliveredRun:
    """The fields of a run in every payload. `alerts_fired` contains the alert objects of spec 2.7.

    `scheduled_for` is in Unix seconds.
    """

    monitor_id: str
    run_id: str
    recipe: str
    status: Literal["ok", "partial"]
    scheduled_for: float
    alerts_fired: Sequence[Mapping[str, object]]


def full_payload(run: DeliveredRun, *, result: object, deltas: Mapping[str, Number]) -> bytes:
    """Return the payload of an ordinary monitor: the recipe's body and its changes, which are empty on the first run.

    `result` is a Python value for JSON, or an `orjson.Fragment` of stored bytes.
    """
    return orjson.dumps({**_facts(run), "result": result, "deltas": deltas})


def full_numbers_payload(run: DeliveredRun, *, result: object, numbers: Numbers, deltas: PayloadDeltas | None) -> bytes:
    """Return the payload of a numbers-only monitor: the response, numbers, and changes (None on the first run)."""
    return orjson.dumps({**_facts(run), "result": result, "numbers": numbers, "deltas": deltas})


def rows_payload(run: DeliveredRun, *, numbers: Numbers, deltas: PayloadDeltas | None) -> bytes:
    """Return the rows of a numbers-only monitor, for spreadsheets: one row per number.

    A new number has null changes.
    """
    before = {} if deltas is None else deltas["rows"]
    rows = [
        _row(run, row_id, metric, value, before.get(row_id, {}).get(metric))
        for row_id, metrics in numbers.items()
        for metric, value in metrics.items()
    ]
    return orjson.dumps({**_facts(run), "rows": rows})


def _facts(run: DeliveredRun) -> dict[str, object]:
    return {
        "monitor_id": run.monitor_id,
        "run_id": run.run_id,
        "recipe": run.recipe,
        "status": run.status,
        "scheduled_for": iso(run.scheduled_for),
        "alerts_fired": list(run.alerts_fired),
    }


def _row(run: DeliveredRun, row_id: str, metric: str, value: Number, delta: PayloadDelta | None) -> dict[str, object]:
    return {
        "t": iso(run.scheduled_for),
        "row_id": row_id,
        "metric": metric,
        "value": value,
        "prev": delta and delta["prev"],
        "abs_change": delta and delta["abs"],
        "pct_change": delta and delta["pct"],
    }
