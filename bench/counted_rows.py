"""Counts instructions per row of a list, with known and with new texts, for `bench.instructions`.

A separate process under callgrind reads pages on request. Counting starts with the received body and ends with the
encoded response.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bench.core.callgrind import Callgrind
from bench.core.errors import ChildFailed
from bench.core.process import PROJECT, PYTHON
from bench.rows import LISTS, ROWS, prepared

KINDS: Final = ("known", "new")
_PAGES: Final = 3


def figure_name(id_: str, kind: str) -> str:
    """Return the name of a list's figure."""
    return f"a row of {id_}, texts {kind}"


def count_rows(counter: Callgrind, lists: Sequence[str] = tuple(LISTS)) -> dict[str, int]:
    """Return the instructions per row of each list, by figure name.

    Raises:
        ChildFailed: The process that reads the pages ended.
    """
    figures = {}
    with _reading_process(counter, lists) as process:
        for id_ in lists:
            for kind in KINDS:
                counter.begin(process.pid)
                _answer_to(process, f"{id_} {kind}")
                counted = figures[figure_name(id_, kind)] = counter.end(process.pid) // (_PAGES * ROWS)
                print(f"{figure_name(id_, kind)}: {counted:,}", flush=True)
    return figures


@contextmanager
def _reading_process(counter: Callgrind, lists: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = [*counter.command, PYTHON, "-m", "bench.counted_rows", *lists]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT, start_new_session=True
    ) as process:
        try:
            _answer_to(process, "")
            yield process
        finally:
            process.kill()


def _answer_to(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None, "opened with a pipe"
    assert process.stdout is not None, "opened with a pipe"
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    if not process.stdout.readline():
        raise ChildFailed("the process that reads lists has ended")


def main(lists: Sequence[str]) -> None:
    """For each line of stdin, read the pages of the list that it names, then print a line."""
    of_list = {id_: prepared(id_, 2 * _PAGES) for id_ in lists}
    for of in of_list.values():
        for body in of.changed[_PAGES:]:
            of.page(body)
    for line in sys.stdin:
        id_, _, kind = line.strip().partition(" ")
        if id_:
            of = of_list[id_]
            for body in of.changed[:_PAGES] if kind == "new" else [of.full] * _PAGES:
                of.page(body)
        print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
