"""Prints the figures as tables in the terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from bench.core.machine import described
from bench.core.results import Cost, Figure, Mark, Point, Results, Step
from bench.report.compare import Change

WIDTH_OF_A_PIPE = 160
"""The width of the tables in columns if the output is not a terminal."""
WIDE = 150
"""The minimum width of tables that show every column.

A narrower table omits columns, which are still in the JSON.
"""
LAG_SHARE = 0.2
"""If the generator's own lateness exceeds this share of p99, a remark reports it."""
FULL = 0.97
"""Above this share of its CPU time, the machine has no capacity left for the server."""
REQUESTS_FOR_P99, REQUESTS_FOR_P999 = 100, 1_000
BUSY_SERVER = 0.9
"""Above this share of a CPU, the single-process server itself is the limit."""


COST_COLUMNS = (
    *("scenario", "requests", "req/s", "us/req", "x hello", "x nginx", "x plain", "p50 ms", "p99 ms", "RSS MB"),
    *("client us", "remark"),
)
POINT_COLUMNS = (
    *(
        "scenario",
        "setting",
        "offered",
        "req/s",
        "served/s",
        "refused/s",
        "us/req",
        "CPU %",
        "p50 ms",
        "p90 ms",
        "p99 ms",
    ),
    *("p99 from to", "p99.9 ms", "RSS MB", "remark"),
)
LEFT_OUT = frozenset(
    {"requests", "x plain", "RSS MB", "client us"}
    | {"refused/s", "CPU %", "p90 ms", "p99 from to", "p99.9 ms", "remark"}
)
"""Columns that a narrow table omits. Their remarks are printed below it."""
WORDS = frozenset({"scenario", "mark", "measure", "unit", "figure", "verdict", "remark"})
LONG = frozenset({"mark", "measure", "figure", "remark", "setting"})
"""Columns whose text may wrap."""
LONG_AT_LEAST, LONG_AT_MOST = 10, 30
"""The minimum and maximum widths of these columns. A word is broken only if it is longer than the maximum."""


def show_results(results: Results, *, as_json: bool) -> None:
    """Print all results, either as tables or as the document that is also written to a file."""
    if as_json:
        print(msgspec.json.encode(results).decode())
        return
    wide = width() >= WIDE
    show(
        cost_table(results.costs, wide=wide),
        points_table(results.points, wide=wide),
        marks_table(results.marks),
        figures_table(results.figures),
    )
    for line in (*([] if wide else _remarks(results)), *_not_installed(results.costs)):
        print(line)
    print(f"on {described(results.machine)}; bench/README.md explains the figures")


def _remarks(results: Results) -> Iterator[str]:
    """Yield the remarks that do not fit in a narrow table."""
    for cost in results.costs:
        if said := invalid(cost.unexpected):
            yield f"{cost.scenario}: {said}"
    for point in results.points:
        if point.steps and (said := remark(point)):
            yield f"{' '.join(filter(None, (point.scenario, point.setting, point.label)))}: {said}"


def _not_installed(costs: Sequence[Cost]) -> Iterator[str]:
    """Yield the reasons for empty columns."""
    if costs and all(cost.scenario != "nginx" for cost in costs):
        yield "nginx is not installed, so its columns are empty"


def show(*tables: Table) -> None:
    """Print the tables that have rows."""
    console = Console(width=width())
    for table in tables:
        if table.row_count:
            console.print(table)


def width() -> int:
    """Return the width of the output, in columns."""
    console = Console()
    return console.width if console.is_terminal else WIDTH_OF_A_PIPE


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, without: frozenset[str] = frozenset()
) -> Table:
    kept, rows = [at for at, name in enumerate(columns) if name not in without], list(rows)
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for at in kept:
        name = columns[at]
        least = _longest_word([row[at] for row in rows]) if name in LONG else None
        justify: JustifyMethod = "left" if name in WORDS else "right"
        table.add_column(name, justify=justify, no_wrap=name not in LONG, overflow="fold", min_width=least)
    for row in rows:
        # Passed as Text, because a setting such as ["a"] would be parsed as markup.
        table.add_row(*(cell if isinstance(cell := row[at], Text) else Text(cell) for at in kept))
    return table


def _longest_word(cells: Iterable[str | Text]) -> int:
    """Return the minimum width at which the words of a column do not break."""
    longest = max((len(word) for cell in cells for word in str(cell).split()), default=0)
    return min(max(longest, LONG_AT_LEAST), LONG_AT_MOST)


def cost_table(costs: Sequence[Cost], *, wide: bool = True) -> Table:
    """Return the table of a request's cost in the closed loop.

    Ratios compare the CPU per request with a peer in the same run.
    """
    peers_us = {cost.scenario: cost.cpu_us for cost in costs if not cost.unexpected and cost.cpu_us}
    rows = [_cost_row(cost, peers_us) for cost in costs]
    return _table("CPU of the server's process", COST_COLUMNS, rows, without=frozenset() if wide else LEFT_OUT)


def _cost_row(cost: Cost, peers_us: Mapping[str, float]) -> list[str]:
    ratios = [cost.cpu_us / peers_us[name] if name in peers_us else None for name in ("hello", "nginx", "plain")]
    return [
        cost.scenario,
        str(cost.requests),
        f"{cost.per_second:.0f}",
        f"{cost.cpu_us:.0f}",
        *(number(ratio) for ratio in ratios),
        f"{cost.p50_ms:.2f}",
        f"{cost.p99_ms:.2f}",
        f"{cost.rss_bytes / 1e6:.0f}",
        f"{cost.client_us:.0f}",
        invalid(cost.unexpected),
    ]


def marks_table(marks: Sequence[Mark]) -> Table:
    """Return the table of the figures that have marks."""
    rows = [(mark.name, number(mark.value), f"{mark.limit:g}", mark.unit, _verdict(mark)) for mark in marks]
    return _table("Marks", ("mark", "measured", "at most", "unit", "verdict"), rows)


def _verdict(mark: Mark) -> Text:
    if mark.value is None:
        return Text("not judged", "yellow")
    return Text("met", "green") if mark.met else Text("not met", "red")


def figures_table(figures: Sequence[Figure]) -> Table:
    """Return the table of the figures that have no marks."""
    rows = [(figure.name, number(figure.value), figure.unit) for figure in figures]
    return _table("Figures", ("measure", "measured", "unit"), rows)


def points_table(points: Sequence[Point], *, wide: bool = True) -> Table:
    """Return the table of all rates of all scenarios: the medians of their repeats, and the range of p99."""
    shown = [point for point in points if point.steps]
    rows = [[each.scenario, each.setting, each.label, *_figures(each.steps), remark(each)] for each in shown]
    without = frozenset() if any(each.setting for each in shown) else frozenset({"setting"})
    return _table("Open loop", POINT_COLUMNS, rows, without=without | (frozenset() if wide else LEFT_OUT))


def _figures(steps: Sequence[Step]) -> list[str]:
    # If nothing was served, there is no latency.
    served = [step for step in steps if step.max_ms]
    p99s, cpus_us = [step.p99_ms for step in served], [step.cpu_us for step in steps if step.cpu_us]
    return [
        number(steps[0].rate),
        number(median(step.served_per_s for step in steps)),
        number(median(step.refused_per_s for step in steps)),
        f"{median(cpus_us):.0f}" if cpus_us else "-",
        f"{100 * median(step.cpu_share for step in steps):.0f}",
        _median(step.p50_ms for step in served),
        _median(step.p90_ms for step in served),
        _median(p99s),
        f"{number(min(p99s))} to {number(max(p99s))}" if p99s else "-",
        _median(step.p999_ms for step in served),
        f"{max(held.rss_bytes for step in steps for held in step.memory) / 1e6:.0f}",
    ]


def _median(values: Iterable[float]) -> str:
    known = list(values)
    return number(median(known)) if known else "-"


def remark(point: Point) -> str:
    """Return why a point is not valid, and other remarks: lost requests, a late generator, a full machine."""
    steps = point.steps
    notes = sorted({note for step in steps if (note := invalid(step.unexpected))})
    if unanswered := sum(step.unanswered for step in steps):
        notes.append(f"{unanswered} unanswered")
    if median(step.machine_share for step in steps) > FULL and median(step.cpu_share for step in steps) < BUSY_SERVER:
        notes.append("machine full")
    if median(step.lag_p99_ms for step in steps) > LAG_SHARE * median(step.p99_ms for step in steps):
        notes.append(f"generator late {median(step.lag_p99_ms for step in steps):.1f} ms")
    # If fewer than one request is expected above a percentile, the percentile is just the slowest request.
    requests = max(step.requests for step in steps)
    if not requests:
        notes.append("no request in such a short time")
    elif requests < REQUESTS_FOR_P999:
        notes.append(f"p99{'' if requests < REQUESTS_FOR_P99 else '.9'} of {requests}")
    return "; ".join(notes)


def changes_table(changes: Sequence[Change], *, everything: bool) -> Table:
    """Return the table of the changed figures, or of all figures."""
    columns = ("scenario", "offered", "figure", "A", "B", "change", "noise", "verdict")
    shown = [change for change in changes if everything or change.verdict != "same"]
    return _table("B against A", columns, map(_change_row, shown))


def _change_row(change: Change) -> list[str | Text]:
    colour = {"better": "green", "worse": "red"}.get(change.verdict, "default")
    # On a logarithmic scale, a fall to 1/1.1 equals a rise to 1.1.
    noise = "-" if change.noise is None else f"{1 / (1 + change.noise) - 1:+.1%} {change.noise:+.1%}"
    figures = [number(change.before), number(change.after), f"{change.change:+.1%}", noise]
    return [change.scenario, change.label, change.figure, *figures, Text(change.verdict, colour)]


def invalid(unexpected: dict[str, int]) -> str:
    """Return why figures are not valid; "" if they are."""
    counts = ", ".join(f"{count} x {what}" for what, count in sorted(unexpected.items()))
    return f"invalid: {counts}" if counts else ""


def number(value: float | None) -> str:
    """Return a figure with three significant digits, or a dash for None."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
