"""Starts `sluice` commands and nodes, each a process forked from one that has the program loaded.

Loading is most of a command and of a start, so this runs as many in a fifth of the time; and more of the kills during a
start meet what can be lost: the opening of the store, the recovery of charges, the binding of addresses.
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
    """Runs commands to their end, and starts those that go on."""

    def __init__(self, popen: "subprocess.Popen[bytes]", files: socket.socket) -> None:
        """`popen` is the process that forks, which is sent open files through `files`."""
        self._popen = popen
        self._files = files
        self._one_at_a_time = Lock()

    def run(self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], out: Path, err: Path) -> int:
        """Run `sluice` with these arguments; its exit code, minus the signal's number when one ended it."""
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
        err: Path,
        out: int | None = None,
        **how: object,
    ) -> Started:
        """Let `sluice` run with these arguments, in a session of its own; it prints to `out`, or for us to read.

        `how` says which other program than `sluice` takes the arguments, and how a node differs (see `Fleet.start`).
        """
        reading, writing = os.pipe()
        with err.open("wb") as errors:
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
        with self._one_at_a_time:
            if files:
                socket.send_fds(self._files, [b"."], files)
            stdin.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
            stdin.flush()
            assert select.select([stdout], [], [], COMMAND_S)[0], f"no response within {COMMAND_S} s: {request}"
            return int(stdout.readline())


def _described(arguments: Sequence[str], folder: Path, environ: Mapping[str, str]) -> dict[str, object]:
    # ASCII with surrogates escaped, so that arguments which are no UTF-8 arrive as the bytes that they are.
    told = [argument.encode("utf-8", "surrogateescape").hex() for argument in arguments]
    return {"arguments": told, "folder": str(folder), "environ": dict(environ)}


@contextmanager
def open_commands() -> Iterator[Commands]:
    """The process that forks, gone with all that it started when the block ends."""
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
            popen.stdin.close()  # it kills all that it started, and ends
            try:
                popen.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                popen.kill()  # Linux kills its children with it
                raise
