"""One metric over time as an SVG picture: a line, its scale, and a marker where an alert fired; light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from scheduler.monitors.history import RunNumbers
from scheduler.monitors.numbers import PAGE, Number

WIDTH: Final = 800
HEIGHT: Final = 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 784, 48, 276
_LINES = 4
"""About how many lines of the scale there are."""
_DOTS_MAX = 60
"""Points of a line that still get a dot each."""
_LARGEST: Final = 1e300
"""What is beyond it is drawn at the edge, so that no sum overflows."""
_TITLE_MAX = 90
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE = """
.paper{fill:#fff}.text{fill:#1f2430}.faint{fill:#5b6270}.grid{stroke:#dfe3ea}.line{stroke:#1b66c9}.dot{fill:#1b66c9}
.alert{fill:#c62f2f;stroke:#fff}text{font:13px system-ui,sans-serif}.title{font-weight:600;font-size:15px}
@media (prefers-color-scheme:dark){.paper{fill:#14171d}.text{fill:#e8eaef}.faint{fill:#a2a9b7}.grid{stroke:#333a47}
.line{stroke:#6ea8fe}.dot{fill:#6ea8fe}.alert{fill:#ff7b72;stroke:#14171d}}
"""


class Point(NamedTuple):
    """The number at an instant, and the alerts that fired on it, each in words."""

    at: float
    value: Number
    alerts: Sequence[str] = ()


class _Scale(NamedTuple):
    """From the smallest line to the largest one, `step` apart."""

    low: float
    high: float
    step: float


def points_of(runs: Iterable[RunNumbers], metric: str, row: str = PAGE) -> Iterator[Point]:
    """The points of one metric of one row, in the order of the runs."""
    for run in runs:
        value = run.numbers.get(row, {}).get(metric)
        if value is not None:
            yield Point(run.t, value, tuple(_told(run, metric, row)))


def chart_svg(title: str, points: Sequence[Point]) -> str:
    """The picture of points in the order of time; without any it says so."""
    body = _drawn(points) if points else _text(WIDTH / 2, HEIGHT / 2, "No numbers in this window", "middle")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{_safe(title)}"><style>{_STYLE}</style>'
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<text class="text title" x="16" y="28">{_safe(title[:_TITLE_MAX])}</text>{body}</svg>\n'
    )


def _told(run: RunNumbers, metric: str, row: str) -> Iterator[str]:
    for alert in run.alerts:
        if alert.get("metric") == metric and alert.get("row_id", PAGE) == row:
            yield f"{alert.get('op')}: {_short(alert['to'])}" if alert.get("to") is not None else str(alert.get("op"))


def _drawn(points: Sequence[Point]) -> str:
    scale = _scale(min(point.value for point in points), max(point.value for point in points))
    first, last = points[0].at, points[-1].at
    placed = [(_x(point.at, first, last), _y(point.value, scale), point) for point in points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in placed)
    dots = "".join(_dot(x, y, point) for x, y, point in placed if len(placed) <= _DOTS_MAX and not point.alerts)
    alerts = "".join(_alert(x, y, point) for x, y, point in placed if point.alerts)
    polyline = f'<polyline class="line" fill="none" stroke-width="2" stroke-linejoin="round" points="{line}"/>'
    return f"{_grid(scale)}{_ends(first, last)}{polyline}{dots}{alerts}"


def _scale(low: Number, high: Number) -> _Scale:
    """Round lines around all values."""
    low, high = (max(-_LARGEST, min(value, _LARGEST)) for value in (low, high))
    rough = (high - low or abs(high)) / _LINES or 1.0
    power = 10.0 ** floor(log10(rough)) if rough > 1 / _LARGEST else rough
    step = power * next((factor for factor in (1, 2, 5) if factor * power >= rough), 10)
    return _Scale(floor(low / step) * step, (ceil(high / step) or 1) * step, step)


def _x(at: float, first: float, last: float) -> float:
    share = (at - first) / (last - first) if last > first else 0.5
    return _LEFT + share * (_RIGHT - _LEFT)


def _y(value: Number, scale: _Scale) -> float:
    share = (value - scale.low) / ((scale.high - scale.low) or 1.0)
    return _BOTTOM - min(max(share, 0.0), 1.0) * (_BOTTOM - _TOP)


def _grid(scale: _Scale) -> str:
    count = min(round((scale.high - scale.low) / scale.step), _LINES * 3)
    values = [scale.low + place * scale.step for place in range(count + 1)]
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{_y(value, scale):.1f}" y2="{_y(value, scale):.1f}"/>'
        f"{_text(_LEFT - 8, _y(value, scale) + 4, _short(value), 'end')}"
        for value in values
    )


def _ends(first: float, last: float) -> str:
    if first == last:
        return _text((_LEFT + _RIGHT) / 2, HEIGHT - 20, _minute(first), "middle")
    return _text(_LEFT, HEIGHT - 20, _minute(first), "start") + _text(_RIGHT, HEIGHT - 20, _minute(last), "end")


def _dot(x: float, y: float, point: Point) -> str:
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{_label(point)}</title></circle>'


def _alert(x: float, y: float, point: Point) -> str:
    told = _safe(f"{_label(point)}; alert {', '.join(point.alerts)}")
    return f'<circle class="alert" stroke-width="2" cx="{x:.1f}" cy="{y:.1f}" r="6"><title>{told}</title></circle>'


def _label(point: Point) -> str:
    return f"{_minute(point.at)}: {point.value:,}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="faint" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{_safe(text)}</text>'


def _minute(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _short(value: Number) -> str:
    """A number as it fits beside the scale: 12.5k, 3M."""
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if size <= abs(value) < 1e13:
            return f"{value / size:.4g}{unit}"
    return f"{value:.6g}"


def _safe(text: str) -> str:
    """Text as XML may hold it, within an attribute too: what it cannot hold at all is left out."""
    return escape(_NOT_XML.sub("", text), {'"': "&quot;"})
