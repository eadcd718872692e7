"""The runs of the past with their numbers, as timeseries, exports, charts and backtests read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from scheduler.monitors.metrics.numbers import PAGE, Number, Numbers, change

Changes = Mapping[str, Mapping[str, Mapping[str, Number | None]]]
"""By row and metric, `abs` and `pct`: how a number differs from the run before. What was not there before has none."""


@dataclass(frozen=True, slots=True)
class RunNumbers:
    """The stored numbers of a run that ended.

    `t` is its slot; numbers and changes are by row, of which an ordinary monitor has one, `_`. `alerts` are the alert
    objects of 2.7. A failed run has no numbers, but may have alerts.
    """

    t: float
    run_id: str
    status: Literal["ok", "partial", "failed"]
    numbers: Numbers
    deltas: Changes = field(default_factory=dict)
    alerts: Sequence[Mapping[str, Any]] = ()


def changes_in(deltas: bytes | None, numbers: Numbers) -> Changes:
    """The stored deltas of a run by row, of whichever kind of monitor they are.

    Those of an ordinary monitor are differences alone; what they are in percent follows from the number they led to.
    """
    stored: Mapping[str, Any] | None = None if deltas is None else orjson.loads(deltas)
    if not stored:
        return {}
    if isinstance(rows := stored.get("rows"), dict):
        return rows
    values = numbers.get(PAGE, {})
    return {PAGE: {path: _change(values[path], difference) for path, difference in stored.items() if path in values}}


def _change(cur: Number, difference: Number) -> Mapping[str, Number | None]:
    return {"abs": difference, "pct": change(cur - difference, cur).pct}
