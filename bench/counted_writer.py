"""Counts instructions of a miss on the store's thread, for `bench.instructions`.

A separate process under callgrind runs batches on request (see `bench.writer`).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.core.callgrind import Callgrind
from bench.core.errors import ChildFailed
from bench.core.process import PROJECT, PYTHON
from bench.writer import ALONE, KINDS, TWENTY, open_load

STEPS: Final[Mapping[str, int]] = {TWENTY: 400, ALONE: 500}
"""The number of batches to count of each kind. In about this many batches, SQLite writes its log back once."""


def figure_name(kind: str) -> str:
    """Return the name of the figure of a kind of batch."""
    return f"the writer's share of a miss, {kind}"


def count_writer(folder: Path, steps: Mapping[str, int] = STEPS) -> dict[str, int]:
    """Return the instructions of a miss on the store's thread, by figure name; profiles go to `folder`.

    Raises:
        ChildFailed: A process that runs batches ended.
    """
    figures = {}
    for number, (kind, count) in enumerate(steps.items()):
        own = folder / str(number)
        own.mkdir()
        counter = Callgrind(own)
        command = [*counter.command, PYTHON, "-m", "bench.counted_writer", kind, str(count)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT, start_new_session=True
        ) as process:
            try:
                _answer_to(process, None)
                counter.begin(process.pid)
                _answer_to(process, "go on")
                figures[figure_name(kind)] = counter.end(process.pid) // (count * KINDS[kind].misses)
            finally:
                process.kill()
        print(f"{figure_name(kind)}: {figures[figure_name(kind)]:,}", flush=True)
    return figures


def _answer_to(process: subprocess.Popen[str], line: str | None) -> None:
    assert process.stdin is not None, "opened with a pipe"
    assert process.stdout is not None, "opened with a pipe"
    if line is not None:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
    if not process.stdout.readline():
        raise ChildFailed("the process that runs batches has ended")


def main(kind: str, steps: int) -> None:
    """Prepare this many batches, report that they are ready, and run them when a line arrives."""
    with TemporaryDirectory(prefix="sluice-bench-writer-") as folder, open_load(Path(folder), KINDS[kind]) as load:
        load.prepare(steps)
        print(flush=True)
        for _line in sys.stdin:
            for _ in range(steps):
                load.step()
            print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
