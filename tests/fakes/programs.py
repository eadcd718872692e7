"""Programs that follow the feed, each started, read line by line and ended; and what happens that they can follow."""

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.fakes.commands import PROJECT
from tests.fakes.sluice_process import Place, Process

LINE_S = 90.0


@contextmanager
def open_program(
    words: Sequence[str], folder: Path, environ: Mapping[str, str], *, stdout: int = subprocess.PIPE
) -> Iterator[Process]:
    """A program with its stderr in a file, killed at the end with all that it started."""
    log = folder / "program.err"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            words,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "TMPDIR": str(folder), **environ},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=errors,
            bufsize=0,  # so that `select` sees all that has not been read
            start_new_session=True,
        ) as popen,
    ):
        try:
            yield Process(popen, log)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(popen.pid, signal.SIGKILL)


def has_line(process: Process, within_s: float = LINE_S) -> bool:
    """Whether it prints something, or ends, in time."""
    return bool(select.select([process.popen.stdout], [], [], within_s)[0])


def read_line(process: Process) -> bytes:
    """The next line of its stdout; empty at its end."""
    stdout = process.popen.stdout
    assert stdout is not None
    assert has_line(process), process.log.read_text()
    return stdout.readline()


def rest_of(process: Process) -> list[bytes]:
    """What it printed until it ended."""
    stdout = process.popen.stdout
    assert stdout is not None
    return stdout.read().splitlines()


def happen(place: Place, account: str, *names: str) -> list[str]:
    """Let keys of these names be revoked, which are events; the keys' ids."""
    made = [place.told("key", "create", "--account", account, "--name", name)["id"] for name in names]
    for key_id in made:
        place.told("key", "revoke", key_id)
    return made
