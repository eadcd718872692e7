"""Stored runs as series of points (spec 4.5, decisions 12)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from events.instants import iso
from scheduler.monitors.history.past_runs import RunNumbers
from scheduler.monitors.metrics.numbers import PAGE, Numbers, Values

POINTS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """The numbers to show: all metrics unless some are named, all rows unless one is."""

    metrics: Collection[str] | None = None
    row: str | None = None

    def of(self, numbers: Numbers) -> dict[str, Values]:
        """Those numbers of a run that are asked for."""
        rows = numbers.items() if self.row is None else [(self.row, numbers.get(self.row, {}))]
        picked = ((row_id, self._of_row(values)) for row_id, values in rows)
        return {row_id: values for row_id, values in picked if values}

    def _of_row(self, values: Values) -> Values:
        if self.metrics is None:
            return values
        return {metric: value for metric, value in values.items() if metric in self.metrics}


def timeseries(
    monitor_id: str,
    newest_first: Iterable[RunNumbers],
    *,
    chosen: Chosen,
    by_row: bool,
    points_max: int = POINTS_MAX,
) -> dict[str, Any]:
    """The `data` of a timeseries, oldest point first.

    `points` are the numbers of the page, or of the one row that is asked for; `series`, of numbers-only monitors, has
    every row. Beyond `points_max` numbers the oldest runs are left out, whole, and `series_truncated` says so.
    """
    kept: list[tuple[str, dict[str, Values]]] = []
    size, truncated = 0, False
    for run in newest_first:
        numbers = chosen.of(run.numbers)
        size += sum(map(len, numbers.values()))
        truncated = size > points_max
        if truncated:
            break
        if numbers:
            kept.append((iso(run.t), numbers))
    kept.reverse()
    body: dict[str, Any] = {
        "monitor_id": monitor_id,
        "metric_keys": _metric_keys(kept),
        "points": _points(kept, chosen),
    }
    if by_row:
        body["series"] = _series(kept)
    return {**body, "series_truncated": True} if truncated else body


def _metric_keys(kept: Iterable[tuple[str, dict[str, Values]]]) -> list[str]:
    """Each metric that has a point, in the order of its first one."""
    return list(dict.fromkeys(metric for _, rows in kept for values in rows.values() for metric in values))


def _points(kept: Iterable[tuple[str, dict[str, Values]]], chosen: Chosen) -> list[dict[str, Any]]:
    row = PAGE if chosen.row is None else chosen.row
    return [{"t": t, "metrics": rows[row]} for t, rows in kept if row in rows]


def _series(kept: Iterable[tuple[str, dict[str, Values]]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for t, rows in kept:
        for row_id, values in rows.items():
            for metric, value in values.items():
                found.setdefault((row_id, metric), []).append({"t": t, "value": value})
    return [{"row_id": row_id, "metric": metric, "points": points} for (row_id, metric), points in found.items()]
