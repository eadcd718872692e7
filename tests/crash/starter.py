"""Nodes that are started by forking a process which has the program loaded, and ended by `kill -9`.

Loading takes most of a start, during which nothing can be lost; without it as many kills fit in a fifth of the time and
more of those during a start meet the opening of the store, the recovery of charges or the binding of addresses.
Run as a program, this file is the process that forks: a line of JSON in for each node and a line to kill it, the exit
code out. It ends with its stdin, and takes its node along.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import trio

from tests.fakes.commands import PROJECT, become

READY_S = 20.0
LOOK_EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class Started:
    """A node from its fork on."""

    out: Path
    log: Path

    async def listening(self) -> dict[str, str]:
        """Its first line, as soon as it has printed it."""
        with trio.fail_after(READY_S):
            while not (text := self.out.read_bytes()).endswith(b"\n"):  # noqa: ASYNC110 - a process sets no event
                await trio.sleep(LOOK_EVERY_S)
        line: dict[str, str] = orjson.loads(text)
        return line

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of this name that it has logged; a kill may have cut off the last line."""
        events = [orjson.loads(line) for line in self.log.read_bytes().split(b"\n")[:-1]]
        return [event for event in events if event["event"] == name]


class Starter:
    """Starts and kills one node at a time."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        """`popen` is the process that forks."""
        self._popen = popen

    def start(self, config: Path, environ: Mapping[str, str]) -> Started:
        """`sluice serve` on this config, forked when this returns."""
        folder = config.parent
        started = Started(folder / "node.out", folder / "node.log")
        started.out.write_bytes(b"")
        self._tell(
            {
                "arguments": [os.fsencode(one).hex() for one in ("serve", "--config", str(config))],
                "folder": str(folder),
                "environ": dict(environ),
                "out": str(started.out),
                "err": str(started.log),
            }
        )
        self._hear()
        return started

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; it must not have ended before."""
        self._tell({})
        assert self._hear() == -signal.SIGKILL, "the node ended by itself"

    def _tell(self, request: Mapping[str, object]) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
        self._popen.stdin.flush()

    def _hear(self) -> int:
        assert self._popen.stdout is not None
        return int(self._popen.stdout.readline())


@contextmanager
def open_starter() -> Iterator[Starter]:
    """The process that forks, gone with its node when the block ends."""
    command = [sys.executable, "-m", "tests.crash.starter"]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as popen:
        try:
            yield Starter(popen)
        finally:
            os.killpg(popen.pid, signal.SIGKILL)


def _fork_each() -> None:
    from gateway.cli import main  # noqa: PLC0415 - only the process that forks loads the program

    while start := sys.stdin.buffer.readline():
        pid = os.fork()
        if not pid:
            become(orjson.loads(start))
            main()
            return
        os.write(1, b"0\n")
        sys.stdin.buffer.readline()
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _fork_each()
