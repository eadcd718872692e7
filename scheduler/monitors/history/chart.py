"""Draws one metric over time as an SVG for light and dark themes: a line, its scales, and a marker for each alert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

from scheduler.monitors.history.past_runs import RunNumbers
from scheduler.monitors.history.scales import Scale, short, time_ticks, value_scale
from scheduler.monitors.metrics.numbers import PAGE, Number

WIDTH: Final = 800
HEIGHT: Final = 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 776, 48, 268
_DOTS_MAX = 60
"""A line with at most this many points is drawn with a dot at each point."""
_TITLE_MAX = 84
"""The maximum width of a title in columns. Wide characters take two columns."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE = """
.paper{fill:#fff}.text{fill:#1f2430}.faint{fill:#5b6270}.grid{stroke:#dfe3ea}.dot{fill:#1b66c9}
.line{fill:none;stroke:#1b66c9;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.alert{fill:#c62f2f;stroke:#fff;stroke-width:2}.absent{fill:#fff;stroke:#c62f2f;stroke-width:2}
text{font:13px system-ui,sans-serif}.title{font-weight:600;font-size:15px}
@media (prefers-color-scheme:dark){.paper{fill:#14171d}.text{fill:#e8eaef}.faint{fill:#a2a9b7}.grid{stroke:#333a47}
.line{stroke:#6ea8fe}.dot{fill:#6ea8fe}.alert{fill:#ff7b72;stroke:#14171d}.absent{fill:#14171d;stroke:#ff7b72}}
"""


class ChartPoint(NamedTuple):
    """The number at one time, or None, and a text for each alert that fired then."""

    at: float
    value: Number | None
    alerts: Sequence[str] = ()


def points_of(runs: Iterable[RunNumbers], metric: str, row: str = PAGE) -> Iterator[ChartPoint]:
    """Yield a point for each run, in order, for one metric of one row."""
    for run in runs:
        yield ChartPoint(run.t, run.numbers.get(row, {}).get(metric), tuple(_alerts_of(run, metric, row)))


def chart_svg(title: str, points: Iterable[ChartPoint]) -> str:
    """Return a chart of these points, which must be in time order. If there is no number, the chart says so."""
    trimmed = _trimmed(list(points))
    body = _drawn(trimmed) if trimmed else _text(WIDTH / 2, HEIGHT / 2, "No numbers in this window", "middle")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{_safe(title)}"><style>{_STYLE}</style>'
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<text class="text title" x="16" y="28">{_safe(_clipped(title))}</text>{body}</svg>\n'
    )


def _trimmed(points: Sequence[ChartPoint]) -> Sequence[ChartPoint]:
    """Return the points from the first to the last with a number or an alert, or no points if none has a number."""
    positions = [position for position, point in enumerate(points) if point.value is not None or point.alerts]
    has_number = any(point.value is not None for point in points)
    return points[positions[0] : positions[-1] + 1] if has_number else ()


def _alerts_of(run: RunNumbers, metric: str, row: str) -> Iterator[str]:
    """Yield the run's alerts about this number. `no_data` alerts apply to every row."""
    for alert in run.alerts:
        if alert.get("metric") == metric and (alert.get("op") == "no_data" or alert.get("row_id", PAGE) == row):
            yield f"{alert.get('op')}: {short(alert['to'])}" if alert.get("to") is not None else str(alert.get("op"))


def _drawn(points: Sequence[ChartPoint]) -> str:
    values = [point.value for point in points if point.value is not None]
    scale = value_scale(min(values), max(values))
    first, last = points[0].at, points[-1].at
    placed = [(_x(point.at, first, last), _y(point.value, scale), point) for point in points]
    has_dots = len(placed) <= _DOTS_MAX
    dots = "".join(_dot(*each) for each in placed if has_dots and each[2].value is not None and not each[2].alerts)
    alerts = "".join(_alert(*each) for each in placed if each[2].alerts)
    return f"{_grid(scale)}{_times(first, last)}{_line(placed)}{dots}{alerts}"


def _line(placed: Iterable[tuple[float, float, ChartPoint]]) -> str:
    """Return the line through the numbers.

    A run without a number breaks the line. A number between two gaps becomes a line of zero length, which is drawn as a
    dot.
    """
    pieces: list[str] = []
    is_drawing = False
    for x, y, point in placed:
        if point.value is not None:
            pieces.append(f"L{x:.1f},{y:.1f}" if is_drawing else f"M{x:.1f},{y:.1f}h0")
        is_drawing = point.value is not None
    return f'<path class="line" d="{"".join(pieces)}"/>'


def _x(at: float, first: float, last: float) -> float:
    share = (at - first) / (last - first) if last > first else 0.5
    return _LEFT + share * (_RIGHT - _LEFT)


def _y(value: Number | None, scale: Scale) -> float:
    return _BOTTOM - (0.0 if value is None else scale.share(value)) * (_BOTTOM - _TOP)


def _grid(scale: Scale) -> str:
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{_y(line, scale):.1f}" y2="{_y(line, scale):.1f}"/>'
        f"{_text(_LEFT - 8, _y(line, scale) + 4, label, 'end')}"
        for line, label in zip(scale.lines(), scale.labels(), strict=True)
    )


def _times(first: float, last: float) -> str:
    """Return the labels of both ends of the time axis, and of round times in between."""
    if first == last:
        return _text((_LEFT + _RIGHT) / 2, HEIGHT - 8, _minute(first), "middle")
    ticks = "".join(
        f'<line class="grid" x1="{_x(at, first, last):.1f}" x2="{_x(at, first, last):.1f}" y1="{_TOP}" y2="{_BOTTOM}"/>'
        f"{_text(_x(at, first, last), _BOTTOM + 18, label, 'middle')}"
        for at, label in time_ticks(first, last)
    )
    ends = _text(_LEFT, HEIGHT - 8, _minute(first), "start") + _text(_RIGHT, HEIGHT - 8, _minute(last), "end")
    return ticks + ends


def _dot(x: float, y: float, point: ChartPoint) -> str:
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{_label(point)}</title></circle>'


def _alert(x: float, y: float, point: ChartPoint) -> str:
    """Return a disc at the number, or a ring at the lower edge if there is no number."""
    title = _safe(f"{_label(point)}; alert {', '.join(point.alerts)}")
    kind, radius = ("alert", 6) if point.value is not None else ("absent", 5)
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{title}</title></circle>'


def _label(point: ChartPoint) -> str:
    return f"{_minute(point.at)}: {'no number' if point.value is None else f'{point.value:,}'}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="faint" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{_safe(text)}</text>'


def _minute(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _clipped(title: str) -> str:
    """Return a title that fits above the chart. In a long title, the middle is left out."""
    columns = sum(2 if east_asian_width(each) in "WF" else 1 for each in title)
    if columns <= _TITLE_MAX:
        return title
    half = _TITLE_MAX * len(title) // columns // 2
    return f"{title[:half]}…{title[-half:]}"


def _safe(text: str) -> str:
    """Return text escaped for XML and its attributes, without characters that XML does not allow."""
    return escape(_NOT_XML.sub("", text), {'"': "&quot;"})
