"""Starts `sluice` commands and nodes. Each is forked from a process that has the program loaded.

Loading takes most of the time of a command or a start. Forking saves four fifths of the time. Also, more kills during a
start hit the steps at which data can be lost: opening the store, recovering charges, and binding addresses.
"""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import orjson

from tests.processes.started import Started

PROJECT = Path(__file__).resolve().parents[2]
SLUICE = (sys.executable, "-c", "from gateway.cli import main; main()")
COMMAND_S = 90.0


class Commands:
    """Runs commands until they end, and starts commands that keep running."""

    def __init__(self, popen: "subprocess.Popen[bytes]", files: socket.socket) -> None:
        """`popen` is the process that forks. It receives open files through the socket `files`."""
        self._popen = popen
        self._files = files
        self._lock = Lock()

    def run(self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], out: Path, err: Path) -> int:
        """Run `sluice` with these arguments. Return its exit code, or minus the number of the signal that ended it."""
        with (
            out.open("wb") as output,
            self.start(arguments, folder=folder, environ=environ, err=err, out=output.fileno()) as started,
        ):
            try:
                return started.wait(COMMAND_S)
            finally:
                started.kill_group()

    def start(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        err: Path | int,
        out: int | None = None,
        **how: object,
    ) -> Started:
        """Start `sluice` with these arguments in its own session.

        The command prints to `out`, or to a pipe that the caller reads. Its stderr is a file, or the open file `err`.

        `how` may name a program other than `sluice`, standard streams to close in `closed`, and the differences of a
        node from the usual (see `Fleet.start`).
        """
        reading, writing = os.pipe()
        with err.open("wb") if isinstance(err, Path) else open(err, "wb", closefd=False) as errors:
            request = {**_described(arguments, folder, environ), **how}
            try:
                pid = self._ask(request, writing if out is None else out, errors.fileno())
            finally:
                os.close(writing)
        return Started(pid, reading, lambda ended: self._ask({"ended": ended}))

    def _ask(self, request: Mapping[str, object], *files: int) -> int:
        stdin, stdout = self._popen.stdin, self._popen.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            if files:
                socket.send_fds(self._files, [b"."], files)
            stdin.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
            stdin.flush()
            assert select.select([stdout], [], [], COMMAND_S)[0], f"no response within {COMMAND_S} s: {request}"
            return int(stdout.readline())


def _described(arguments: Sequence[str], folder: Path, environ: Mapping[str, str]) -> dict[str, object]:
    # ASCII with surrogates escaped, so that arguments that are not UTF-8 arrive as the same bytes.
    told = [argument.encode("utf-8", "surrogateescape").hex() for argument in arguments]
    return {"arguments": told, "folder": str(folder), "environ": dict(environ)}


@contextmanager
def open_commands() -> Iterator[Commands]:
    """Run the process that forks. It is killed with everything that it started when the block ends."""
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        subprocess.Popen(
            [sys.executable, "-m", "tests.processes.forking", str(theirs.fileno())],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[theirs.fileno()],
        ) as popen,
    ):
        try:
            yield Commands(popen, ours)
        finally:
            assert popen.stdin is not None
            popen.stdin.close()  # at the end of its input, the process kills everything that it started, and ends
            try:
                popen.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                popen.kill()  # Linux kills its children too
                raise
