"""Programs that follow the feed: helpers to start them, read their lines, end them, and create events."""

import os
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.processes.children import open_child
from tests.processes.commands import PROJECT
from tests.processes.place import Place
from tests.processes.process import Process

LINE_S = 90.0


@contextmanager
def open_program(
    words: Sequence[str], folder: Path, environ: Mapping[str, str], *, stdout: int = subprocess.PIPE
) -> Iterator[Process]:
    """Run a program with its stderr in a file. It is killed at the end with everything that it started."""
    log = folder / "program.err"
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "TMPDIR": str(folder)}
    with (
        log.open("wb") as errors,
        open_child(words, folder=folder, environ={**own, **environ}, out=stdout, err=errors) as popen,
    ):
        yield Process(popen, log)


def has_line(process: Process, within_s: float = LINE_S) -> bool:
    """Return whether the program prints a line or ends within this time."""
    return bool(select.select([process.popen.stdout], [], [], within_s)[0])


def read_line(process: Process) -> bytes:
    """Return the next line of the program's stdout, or b"" at its end. Fails if neither arrives within `LINE_S`."""
    stdout = process.popen.stdout
    assert stdout is not None
    assert has_line(process), process.log.read_text()
    return stdout.readline()


def rest_of(process: Process) -> list[bytes]:
    """Return the remaining lines of the program's output, until it ends."""
    lines = []
    while line := read_line(process):
        lines.append(line.removesuffix(b"\n"))
    return lines


def happen(place: Place, account: str, *names: str) -> list[str]:
    """Create and revoke keys with these names, which writes events. Return the ids of the keys."""
    made = [place.json_of("key", "create", "--account", account, "--name", name)["id"] for name in names]
    for key_id in made:
        place.json_of("key", "revoke", key_id)
    return made
