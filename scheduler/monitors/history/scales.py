"""The scales of a chart: round grid lines for numbers, round times for the time axis, and their labels."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Final, NamedTuple

from scheduler.monitors.metrics.numbers import Number

_LINES: Final = 4
"""The approximate number of grid lines of a number scale."""
_TICKS: Final = 7
"""The approximate maximum number of labels on a time scale."""
_LARGEST: Final = 1e300
"""The largest number that is drawn. Larger ones are drawn at the edge, so that sums do not overflow."""
_SMALLEST: Final = 1e-290
"""The smallest difference that is drawn. Numbers that are closer together are drawn as equal."""
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_STEPS_S: Final = (*(hours * _HOUR_S for hours in (1, 2, 3, 6, 12)), *(days * _DAY_S for days in (1, 2, 7, 14)))
_MONTH_S: Final = 30.4 * _DAY_S
_STEPS_MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120)
_UNITS: Final = (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3))


class Scale(NamedTuple):
    """Grid lines at the multiples of `step`, from `first` to `last`."""

    step: float
    first: int
    last: int

    def lines(self) -> list[float]:
        """Return the values of the grid lines in ascending order."""
        return [position * self.step for position in range(self.first, self.last + 1)]

    def share(self, value: float) -> float:
        """Return the height of a number: 0 on the lowest line, 1 on the highest."""
        low, high = self.first * self.step, self.last * self.step
        return min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)

    def labels(self) -> list[str]:
        """Return the labels of the lines.

        If any two labels would be equal, all but the lowest show their distance from the lowest.
        """
        labels = [short(line) for line in self.lines()]
        if len(set(labels)) == len(labels):
            return labels
        above = [f"+{short(position * self.step)}" for position in range(1, len(labels))]
        return [short(self.first * self.step, digits=6), *above]


def value_scale(low: Number, high: Number) -> Scale:
    """Return a scale with round lines around all values. A single value is placed in the middle."""
    low, high = (max(-_LARGEST, min(value, _LARGEST)) for value in (low, high))
    if low == high:
        low, high = low - abs(low) / 2, high + abs(high) / 2
    rough = (high - low) / _LINES
    rough = rough if rough > _SMALLEST else 1.0
    power = 10.0 ** floor(log10(rough))
    step = power * next((factor for factor in (1, 2, 5) if factor * power >= rough), 10)
    first = floor(low / step)
    return Scale(step, first, max(ceil(high / step), first + 1))


def time_ticks(first: float, last: float) -> list[tuple[float, str]]:
    """Return round UTC times between two times, each with a label: an hour, a day, or a month."""
    step = next((step for step in _STEPS_S if last - first <= step * _TICKS), None)
    if step is None:
        return [(at, _day(at)[:7]) for at in _months(first, last)]
    instants = [position * step for position in range(ceil(first / step), floor(last / step) + 1)]
    return [(at, _minute(at)[11:16] if at % _DAY_S else _day(at)[5:]) for at in instants]


def _months(first: float, last: float) -> list[float]:
    """Return beginnings of months.

    Months are counted from the year 0, so that multiples of the step align with years.
    """
    months = (last - first) / _MONTH_S
    step = next((step for step in _STEPS_MONTHS if months <= step * _TICKS), 1_200)
    after, upto = (datetime.fromtimestamp(at, UTC) for at in (first, last))
    positions = range(-(-(after.year * 12 + after.month) // step) * step, upto.year * 12 + upto.month, step)
    return [datetime(position // 12, position % 12 + 1, 1, tzinfo=UTC).timestamp() for position in positions]


def short(value: Number, *, digits: int = 4) -> str:
    """Return a number in short form for a scale, such as 12.5k or 3M."""
    for unit, size in _UNITS:
        if size <= abs(value) < 1e15:
            return f"{value / size:.{digits}g}{unit}"
    return f"{value:.6g}".replace("e+", "e")


def _day(at: float) -> str:
    return _minute(at)[:10]


def _minute(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
