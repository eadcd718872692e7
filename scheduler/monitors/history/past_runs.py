"""Reads the numbers of past runs, for timeseries, exports, charts and backtests (spec 4.5, 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import orjson

from scheduler.monitors.history.lists import SlotSpan
from scheduler.monitors.metrics.numbers import PAGE, Number, Numbers, change
from scheduler.monitors.runs.verdict import NO_ROWS, NO_VALUE
from scheduler.packing import unpacked
from storage.store import Tx

Changes = Mapping[str, Mapping[str, Mapping[str, Number | None]]]
"""The difference of each number from the previous run, as `abs` and `pct`, by row and metric.

A number that the previous run lacked has no entry.
"""
RUNS_MAX: Final = 1_000
"""At most this many runs of a window are read, starting with the newest."""

# A failed run is included only if rules were evaluated on it, because its `no_data` rules may have fired.
NEWEST: Final = """
SELECT id, scheduled_for, status, alerts FROM runs
WHERE monitor_id = ? AND scheduled_for >= ? AND scheduled_for < ?
    AND (status IN ('ok', 'partial') OR (status = 'failed' AND skip_reason IN (?, ?)))
ORDER BY scheduled_for DESC LIMIT ?
"""
NUMBERS: Final = "SELECT run_id, numbers, NULL FROM run_data WHERE run_id IN {in}"
CHANGED: Final = "SELECT run_id, numbers, deltas FROM run_data WHERE run_id IN {in}"
BASELINE: Final = """
SELECT numbers FROM run_data WHERE run_id = (
    SELECT id FROM runs WHERE monitor_id = ? AND scheduled_for < ? AND status IN ('ok', 'partial')
    ORDER BY scheduled_for DESC LIMIT 1
)
"""


@dataclass(frozen=True, slots=True)
class RunNumbers:
    """The stored numbers of a finished run.

    `t` is its slot. Numbers and changes are grouped by row; an ordinary monitor has one row, `_`. `alerts` are the
    alert objects of spec 2.7. A failed run has no numbers, but may have alerts.
    """

    t: float
    run_id: str
    status: Literal["ok", "partial", "failed"]
    numbers: Numbers
    deltas: Changes = field(default_factory=dict)
    alerts: Sequence[Mapping[str, Any]] = ()


def changes_in(deltas: bytes | None, numbers: Numbers) -> Changes:
    """Return the stored deltas of a run by row, for either kind of monitor.

    An ordinary monitor stores only differences. The percentages are computed from the new number.
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


class PastRun(NamedTuple):
    """A run that has numbers or alerts. `alerts` is JSON text."""

    run_id: str
    t: float
    status: Literal["ok", "partial", "failed"]
    alerts: str


def newest_runs(tx: Tx, monitor_id: str, window: SlotSpan, limit: int = RUNS_MAX) -> list[PastRun]:
    """Return the newest runs of a window that have numbers or alerts, newest first."""
    return [PastRun(*row) for row in tx.all(NEWEST, (monitor_id, *window.bounds, NO_VALUE, NO_ROWS, limit))]


def baseline_before(tx: Tx, monitor_id: str, at: float) -> Numbers | None:
    """Return the numbers that a run at the time `at` is compared with, or None for the first run."""
    row = tx.one(BASELINE, (monitor_id, at))
    return None if row is None or row[0] is None else orjson.loads(unpacked(row[0]))


class StoredNumbers(NamedTuple):
    """A run with its numbers and deltas in stored form."""

    run: PastRun
    numbers: bytes | None
    deltas: bytes | None


def stored_numbers(tx: Tx, runs: Sequence[PastRun], *, with_deltas: bool = False) -> list[StoredNumbers]:
    """Return the stored numbers of these runs, in order."""
    kept = {row[0]: row[1:] for row in tx.all_in(CHANGED if with_deltas else NUMBERS, [run.run_id for run in runs])}
    return [StoredNumbers(run, *kept.get(run.run_id, (None, None))) for run in runs]


def unpacked_numbers(stored: Sequence[StoredNumbers]) -> Iterator[RunNumbers]:
    """Decompress, decode and yield runs one by one.

    Otherwise tens of thousands of objects would exist at the same time and slow down the garbage collector.
    """
    for one in stored:
        yield _numbers(*one)


def _numbers(run: PastRun, numbers: bytes | None, deltas: bytes | None) -> RunNumbers:
    found: Numbers = {} if numbers is None else orjson.loads(unpacked(numbers))
    changes = changes_in(None if deltas is None else unpacked(deltas), found)
    alerts: list[dict[str, Any]] = orjson.loads(run.alerts)
    return RunNumbers(run.t, run.run_id, run.status, found, changes, alerts)
