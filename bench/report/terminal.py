"""Runs the bench in a terminal: progress, Ctrl-C, tables, and result files."""

import itertools
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.core.errors import BenchError, WrongUse
from bench.core.results import FOLDER, Results, new_results, save
from bench.core.tasks import run_until_stopped
from bench.report.report import show_results

Announce = Callable[[str], None]
Measure = Callable[[Results, Announce], Awaitable[None]]
Draw = Callable[[Results, Path, str], list[Path]]
REFRESHES_PER_S = 2


@dataclass(frozen=True, slots=True)
class Files:
    """The location of a run's files, and whether to print JSON instead of tables."""

    folder: Path | None = None
    """The folder; None means `bench/results`."""
    name: str | None = None
    """The name of the files; None means the current time."""
    as_json: bool = False


def measure_and_show(measure: Measure, *, works: int, files: Files, is_sweep: bool = False) -> bool:
    """Measure with a progress bar, print tables and write files. Return whether it finished with valid figures.

    Ctrl-C and failures end the measurement early. Results up to that point are still printed and written.

    Raises:
        WrongUse: The files cannot be written.
        ChildFailed: A server or a load generator did not run.
    """
    folder, name = place_of(files)
    # The import takes a second, so it comes after argument errors. It comes before measuring, because the package may
    # be missing.
    from bench.report.plots import draw, draw_sweep  # noqa: PLC0415

    results = new_results()
    ended, failure = _measured(measure, results, works)
    results = replace(results, complete=ended)
    # The file is written first, so that the figures are kept even if the terminal or a picture fails.
    written = _write(results, folder, name, draw_sweep if is_sweep else draw)
    if written:
        show_results(results, as_json=files.as_json)
    say(*(f"written: {each}" for each in written))
    if failure is not None:
        raise failure
    if not ended:
        say("stopped before the end")
    return ended and is_valid(results)


def place_of(files: Files) -> tuple[Path, str]:
    """Return the folder and the name for a run's files. The folder is created if it is missing.

    Raises:
        WrongUse: The name is not a file name, or the folder is not writable.
    """
    folder = files.folder or FOLDER
    name = datetime.now(UTC).strftime("%Y%m%d-%H%M%S") if files.name is None else files.name
    if not name or Path(name).name != name:
        raise WrongUse(f"--name {name!r} is not a file name; use --out for a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as exc:
        raise WrongUse(f"cannot write to {folder} (--out): {exc.strerror}") from exc
    return folder, name


def _measured(measure: Measure, results: Results, works: int) -> tuple[bool, BenchError | OSError | None]:
    """Return whether the work finished, and its error if there was one. A closed terminal counts as an error."""
    try:
        return trio.run(run_until_stopped, partial(_with_progress_bar, measure, results, works)), None
    except (BenchError, OSError) as exc:
        return False, exc


async def _with_progress_bar(measure: Measure, results: Results, works: int) -> None:
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns, console=console, refresh_per_second=REFRESHES_PER_S, disable=not console.is_terminal
    ) as bar:
        task, begun = bar.add_task("", total=works), itertools.count()

        def announce(what: str) -> None:
            bar.update(task, completed=next(begun), description=what)
            if not console.is_terminal:
                say(what)

        await measure(results, announce)
        bar.update(task, completed=works)


def _write(results: Results, folder: Path, name: str, draw_it: Draw) -> list[Path]:
    if not (results.costs or results.marks or results.figures or any(point.steps for point in results.points)):
        return []
    file = folder / f"{name}.json"
    save(results, file)
    return [file, *draw_it(results, folder, name)]


def say(*lines: str) -> None:
    """Print lines to stderr, separate from the tables."""
    for line in lines:
        sys.stderr.write(f"{line}\n")


def is_valid(results: Results) -> bool:
    """Return whether every response matched its scenario."""
    surprises = [step.unexpected for point in results.points for step in point.steps]
    return not any(surprises) and not any(cost.unexpected for cost in results.costs)
