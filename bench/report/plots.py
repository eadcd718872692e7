"""Draws the figures of a result, as SVG and PNG."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from bench.core.results import MemorySample, Point, Results, Step
from bench.scenarios.flood import FLOOD, QUIET

PERCENTILES: tuple[tuple[str, str, Callable[[Step], float]], ...] = (
    ("p50", "#1b6ca8", lambda step: step.p50_ms),
    ("p90", "#3c9d5d", lambda step: step.p90_ms),
    ("p99", "#d9822b", lambda step: step.p99_ms),
    ("p99.9", "#b5364a", lambda step: step.p999_ms),
)
BANDED = ("p50", "p99")
COLOURS = ("#1b6ca8", "#d9822b", "#3c9d5d", "#b5364a", "#7656a8", "#4a4a4a", "#1d9a9a", "#c05a9a", "#8a7a2a", "#2a4a8a")
COLUMNS = 3
DPI = 130


def draw(results: Results, folder: Path, name: str) -> list[Path]:
    """Draw the results into `folder`, and return the paths of the files."""
    points = [point for point in results.points if point.steps]
    if not points:
        return []
    figures = {"latency": _latency(points), "cpu": _cpu(points, results.hello_us), "memory": _memory(points)}
    if flood := [point for point in points if point.scenario == FLOOD]:
        figures["flood"] = _flood(flood, [point for point in points if point.scenario == QUIET])
    return [file for what, figure in figures.items() for file in save(figure, folder / f"{name}-{what}")]


def draw_sweep(results: Results, folder: Path, name: str) -> list[Path]:
    """Draw how the settings of a sweep differ, and return the paths of the files."""
    return save(_sweep([point for point in results.points if point.steps]), folder / f"{name}-sweep")


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as SVG and PNG."""
    files = [Path(f"{stem}.{kind}") for kind in ("svg", "png")]
    # Text in an SVG remains text, so that it can be searched. A fixed salt makes the output reproducible.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "sluice"}):
        for file in files:
            figure.savefig(file, dpi=DPI, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def _latency(points: Sequence[Point]) -> Figure:
    scenarios = list(dict.fromkeys(point.scenario for point in points))
    rows = -(-len(scenarios) // COLUMNS)
    columns = min(len(scenarios), COLUMNS)
    figure = Figure(figsize=(1.2 + 4.2 * columns, 1.2 + 2.9 * rows), layout="constrained")
    figure.suptitle(
        "Latency of served requests against the offered rate\nlines: medians of the repeats, bands: p50 and p99 ranges",
        fontsize="medium",
    )
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, scenario in zip(grid.flat, scenarios, strict=False):
        _percentiles(axes, [point for point in points if point.scenario == scenario])
        axes.set_title(scenario, fontweight="bold")
    for axes in list(grid.flat)[len(scenarios) :]:
        axes.set_visible(False)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(PERCENTILES))
    return figure


def _percentiles(axes: Axes, points: Sequence[Point]) -> None:
    rates = [_rate(point) for point in points]
    for label, colour, figure in PERCENTILES:
        low, middle, high = _spread(points, _visible(figure))
        axes.plot(rates, middle, marker="o", markersize=3.5, color=colour, label=label)
        if label in BANDED:
            _band(axes, rates, (low, high), colour)
    _rate_axis(axes)
    _log_ms(axes, "latency, ms")


def _band(axes: Axes, rates: Sequence[float], band: tuple[list[float], list[float]], colour: str) -> None:
    if len(rates) == 1:  # an area of zero width would be invisible
        axes.vlines(rates, *band, color=colour, alpha=0.35, linewidth=5)
    else:
        axes.fill_between(rates, *band, color=colour, alpha=0.18, linewidth=0)


def _visible(figure: Callable[[Step], float]) -> Callable[[Step], float]:
    """Return the figure, or NaN (a gap) for 0: nothing was served, and a logarithmic axis has no 0."""
    return lambda step: figure(step) or math.nan


def _spread(points: Sequence[Point], figure: Callable[[Step], float]) -> tuple[list[float], list[float], list[float]]:
    """Return the lowest, the median and the highest of each point's repeats."""
    found = [[value for step in point.steps if not math.isnan(value := figure(step))] for point in points]
    values = [each or [math.nan] for each in found]
    return [min(each) for each in values], [median(each) for each in values], [max(each) for each in values]


def _cpu(points: Sequence[Point], hello_us: Sequence[float]) -> Figure:
    scenarios = list(dict.fromkeys(point.scenario for point in points))
    figure = Figure(figsize=(9.5, 1.6 + 0.5 * len(scenarios)), layout="constrained")
    axes = figure.subplots()
    axes.set_title("CPU time of the server process per response: one dot per repeat, darker at higher rates")
    for place, scenario in enumerate(scenarios):
        rows = [point for point in points if point.scenario == scenario]
        highest = max(_rate(point) for point in rows)
        for point in rows:
            costs = [step.cpu_us for step in point.steps if step.cpu_us]
            shade = 0.25 + 0.7 * _rate(point) / highest
            axes.scatter(costs, [place] * len(costs), color=COLOURS[0], alpha=shade, s=42, linewidth=0)
    if hello_us:
        axes.axvline(median(hello_us), color="#4a4a4a", linestyle=":", label="bare Trio + httptools")
        figure.legend(loc="outside lower right", fontsize="small")
    axes.set_yticks(range(len(scenarios)), [_named(points, name) for name in scenarios])
    axes.set_ylim(len(scenarios) - 0.5, -0.5)
    axes.set_xscale("log")
    if not any(map(math.isfinite, axes.dataLim.intervalx)):
        axes.set_xlim(1, 1_000)  # as in `_log_ms`
    _plain_numbers(axes.xaxis)
    axes.set_xlabel("CPU microseconds per response (after the name: the lowest median of a rate)")
    axes.grid(which="both", axis="x", alpha=0.25)
    return figure


def _named(points: Sequence[Point], scenario: str) -> str:
    """Return the scenario's name, followed by the lowest CPU of its rates if it has responses."""
    steps = [[step.cpu_us for step in point.steps if step.cpu_us] for point in points if point.scenario == scenario]
    lowest = min((median(costs) for costs in steps if costs), default=None)
    return f"{scenario}  {'no answers' if lowest is None else f'{lowest:.0f} us'}"


def _memory(points: Sequence[Point]) -> Figure:
    figure = Figure(figsize=(9.5, 5), layout="constrained")
    axes = figure.subplots()
    axes.set_title("Memory of the server's process over time (dotted: including the mapped pages of its store)")
    for nth, scenario in enumerate(dict.fromkeys(point.scenario for point in points)):
        held = _held(points, scenario)
        seconds = [each.at_s - held[0].at_s for each in held]
        colour, style = COLOURS[nth % len(COLOURS)], "-" if nth < len(COLOURS) else "--"
        own = [each.own_bytes / 1e6 for each in held]
        axes.plot(seconds, own, color=colour, linestyle=style, linewidth=1.6, label=scenario)
        axes.plot(seconds, [each.rss_bytes / 1e6 for each in held], color=colour, linestyle=":", linewidth=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the first counted request")
    axes.set_ylabel("MB")
    axes.grid(alpha=0.25)
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def _held(points: Sequence[Point], scenario: str) -> list[MemorySample]:
    """Return the memory samples of a scenario's server in time order."""
    steps = (step for point in points if point.scenario == scenario for step in point.steps)
    return sorted(held for step in steps for held in step.memory)


def _flood(flood: Sequence[Point], quiet: Sequence[Point]) -> Figure:
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    figure.suptitle("A flood and a quiet key")
    answered, waited = figure.subplots(1, 2)
    labels = [point.label for point in flood]
    served = [median(step.served_per_s for step in point.steps) for point in flood]
    refused = [median(step.refused_per_s for step in point.steps) for point in flood]
    answered.bar(labels, served, color=COLOURS[0], label="served")
    answered.bar(labels, refused, bottom=served, color=COLOURS[1], label="refused")
    answered.set_ylabel("answers/s")
    whats: tuple[tuple[str, Sequence[Point], Callable[[Step], float]], ...] = (
        ("served", flood, _visible(lambda step: step.p99_ms)),
        ("refused", flood, _visible(lambda step: step.refused_p99_ms)),
        ("the quiet key", quiet, _visible(lambda step: step.p99_ms)),
    )
    for nth, (what, points, value) in enumerate(whats):
        at, middle = [point.label for point in points], _spread(points, value)[1]
        waited.plot(at, middle, marker="o", linestyle="", color=COLOURS[nth], label=what)
    waited.set_ylim(bottom=0)
    waited.set_ylabel("p99, ms")
    for axes in (answered, waited):
        axes.set_xlabel("offered rate relative to the node's capacity")
        axes.grid(axis="y", alpha=0.25)
        axes.legend(fontsize="small")
    return figure


def _sweep(points: Sequence[Point]) -> Figure:
    settings = list(dict.fromkeys(point.setting for point in points))
    figure = Figure(figsize=(13, 4.6 + 0.25 * (len(settings) // COLUMNS)), layout="constrained")
    figure.suptitle(f"{points[0].scenario}: one line per setting (median of the repeats, band: their range)")
    panels = figure.subplots(1, 3)
    whats: tuple[tuple[str, Callable[[Step], float]], ...] = (
        ("served, requests/s", lambda step: step.served_per_s),
        ("p99 of served requests, ms", _visible(lambda step: step.p99_ms)),
        ("CPU us per response", lambda step: step.cpu_us),
    )
    for axes, (what, value) in zip(panels, whats, strict=True):
        for nth, setting in enumerate(settings):
            rows = [point for point in points if point.setting == setting]
            low, middle, high = _spread(rows, value)
            rates, colour = [_rate(point) for point in rows], COLOURS[nth % len(COLOURS)]
            axes.plot(rates, middle, marker="o", markersize=4, color=colour, label=setting)
            _band(axes, rates, (low, high), colour)
        _rate_axis(axes)
        axes.set_ylabel(what)
    _log_ms(panels[1], whats[1][0])
    for axes in (panels[0], panels[2]):
        axes.set_ylim(bottom=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=COLUMNS, fontsize="small")
    return figure


def _rate(point: Point) -> float:
    return point.steps[0].rate


def _rate_axis(axes: Axes) -> None:
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("offered, requests/s")
    axes.grid(which="major", alpha=0.25)


def _log_ms(axes: Axes, label: str) -> None:
    axes.set_yscale("log")
    if not any(map(math.isfinite, axes.dataLim.intervaly)):
        axes.set_ylim(1, 100)  # nothing was served, so the panel is empty
    _plain_numbers(axes.yaxis)
    axes.set_ylabel(label)


def _plain_numbers(axis: Axis) -> None:
    """Label ticks as 1, 2, 5, 10, ... instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
