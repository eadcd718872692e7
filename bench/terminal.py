"""A run of the bench at the terminal: its progress, Ctrl-C, the tables, and the files it leaves."""

import itertools
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.plots import draw, draw_sweep
from bench.report import WIDE, cost_table, figures_table, marks_table, points_table, show, width
from bench.results import Results, new_results, save
from bench.tasks import run_until_told

Tell = Callable[[str], None]
Measure = Callable[[Results, Tell], Awaitable[None]]
REFRESHES_PER_S = 2


def measure_and_show(measure: Measure, *, works: int, folder: Path, name: str, is_sweep: bool = False) -> bool:
    """Measure behind a progress bar, print the tables and write the files; whether it came to its end, all valid.

    Ctrl-C ends the measuring early; what is known by then is shown and written all the same.

    Raises:
        ChildFailed: a server or a load generator did not run.
    """
    results = new_results()
    ended = trio.run(run_until_told, partial(_behind_a_bar, measure, results, works))
    results = replace(results, complete=ended)
    wide = width() >= WIDE
    show(
        cost_table(results.costs, wide=wide),
        points_table(results.points, wide=wide),
        marks_table(results.marks),
        figures_table(results.figures),
    )
    _say(*_write(results, folder, name, is_sweep=is_sweep))
    if not ended:
        _say("stopped before the end")
    return ended and is_valid(results)


async def _behind_a_bar(measure: Measure, results: Results, works: int) -> None:
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns, console=console, refresh_per_second=REFRESHES_PER_S, disable=not console.is_terminal
    ) as bar:
        task, begun = bar.add_task("", total=works), itertools.count()

        def tell(what: str) -> None:
            bar.update(task, completed=next(begun), description=what)
            if not console.is_terminal:
                _say(what)

        await measure(results, tell)
        bar.update(task, completed=works)


def _write(results: Results, folder: Path, name: str, *, is_sweep: bool) -> list[str]:
    if not (results.costs or results.marks or results.figures or any(point.steps for point in results.points)):
        return []
    file = folder / f"{name}.json"
    save(results, file)
    pictures = (draw_sweep if is_sweep else draw)(results, folder, name)
    return [f"written: {each}" for each in (file, *pictures)]


def _say(*lines: str) -> None:
    for line in lines:
        sys.stderr.write(f"{line}\n")


def is_valid(results: Results) -> bool:
    """Whether every answer was as its scenario says."""
    surprises = [step.unexpected for point in results.points for step in point.steps]
    return not any(surprises) and not any(cost.unexpected for cost in results.costs)
