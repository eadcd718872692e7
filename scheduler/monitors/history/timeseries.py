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
    """The numbers to show: all metrics unless some are named, and all rows unless one is named."""

    metrics: Collection[str] | None = None
    row: str | None = None

    def of(self, numbers: Numbers) -> dict[str, Values]:
        """Return the selected numbers of a run."""
        rows = numbers.items() if self.row is None else [(self.row, numbers.get(self.row, {}))]
        picked = ((row_id, self._of_row(values)) for row_id, values in rows)
        return {row_id: values for row_id, values in picked if values}

    def _of_row(self, values: Values) -> Values:
        if self.metrics is None:
            return values
        return {metric: value for metric, value in values.items() if metric in self.metrics}


class Timeseries:
    """A timeseries built from runs as they are read, newest first.

    Beyond `points_max` numbers, the oldest runs are left out completely, and `series_truncated` reports that.
    """

    def __init__(self, chosen: Chosen, points_max: int = POINTS_MAX) -> None:
        self._chosen = chosen
        self._left = points_max
        self._kept: list[tuple[str, dict[str, Values]]] = []

    @property
    def is_full(self) -> bool:
        """Whether a run has been left out. If so, no more runs are accepted."""
        return self._left < 0

    def add(self, newest_first: Iterable[RunNumbers]) -> None:
        """Add the next runs, as many as there is room for."""
        for run in newest_first:
            numbers = self._chosen.of(run.numbers)
            self._left -= sum(map(len, numbers.values()))
            if self.is_full:
                return
            if numbers:
                self._kept.append((iso(run.t), numbers))

    def data(self, monitor_id: str, *, by_row: bool) -> dict[str, Any]:
        """Return the `data` of the timeseries, oldest point first.

        `points` are the numbers of the page, or of the selected row. For numbers-only monitors, `series` contains every
        row.
        """
        kept = self._kept[::-1]
        body: dict[str, Any] = {
            "monitor_id": monitor_id,
            "metric_keys": _metric_keys(kept),
            "points": _points(kept, self._chosen),
        }
        if by_row:
            body["series"] = _series(kept)
        return {**body, "series_truncated": True} if self.is_full else body


def _metric_keys(kept: Iterable[tuple[str, dict[str, Values]]]) -> list[str]:
    """Return each metric that has a point, in the order of first occurrence."""
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
