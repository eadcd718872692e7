"""Commands, each a process of its own, forked from one that has the program loaded: most of a command is loading.

A fork sees its own folder, environment, arguments, stdin, stdout and stderr, and ends as an interpreter ends.
Run as a program, this file is the process that forks: a JSON line in for each thing to do, a number out.
"""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from tests.fakes.started import Started

PROJECT = Path(__file__).resolve().parents[2]
SLUICE = (sys.executable, "-c", "from gateway.cli import main; main()")
COMMAND_S = 90.0
LOADED = ("gateway.cli", "gateway.server.hypercorn.engine", "storage.postgres.store", "storage.redis.state")
"""With what a command loads when it opens its store, and a node for another engine or for a shared state."""


class Commands:
    """Runs commands one after another, and starts those that go on."""

    def __init__(self, popen: "subprocess.Popen[bytes]", files: socket.socket) -> None:
        """`popen` is the process that forks, which is sent open files through `files`."""
        self._popen = popen
        self._files = files
        self._one_at_a_time = Lock()

    def run(self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], out: Path, err: Path) -> int:
        """Run `sluice` with these arguments; its exit code, minus the signal's number when one ended it."""
        return self._ask({**_described(arguments, folder, environ), "out": str(out), "err": str(err)})

    def start(
        self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], err: Path, out: int | None = None
    ) -> Started:
        """Let `sluice` run with these arguments, in a session of its own; it prints to `out`, or for us to read."""
        reading, writing = os.pipe()
        with err.open("wb") as errors:
            request = {**_described(arguments, folder, environ), "starts": True}
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
            assert select.select([stdout], [], [], COMMAND_S)[0], f"no answer within {COMMAND_S} s: {request}"
            return int(stdout.readline())


def _described(arguments: Sequence[str], folder: Path, environ: Mapping[str, str]) -> dict[str, object]:
    # ASCII with surrogates escaped, so that arguments which are no UTF-8 arrive as the bytes that they are.
    told = [argument.encode("utf-8", "surrogateescape").hex() for argument in arguments]
    return {"arguments": told, "folder": str(folder), "environ": dict(environ)}


@contextmanager
def open_commands() -> Iterator[Commands]:
    """The process that forks, gone with its current command when the block ends."""
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.commands", str(theirs.fileno())],
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
            os.killpg(popen.pid, 9)


def _fork_each(files: socket.socket) -> None:
    for name in LOADED:  # only the process that forks loads the program
        import_module(name)
    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        if "ended" in request:
            answer = _ended(request["ended"])
        elif "starts" in request:
            answer = _start(request, files)
        elif pid := os.fork():
            answer = _ended(pid)
        else:
            become(request)
            answer = None
        if answer is None:
            import_module("gateway.cli").main()
            return
        os.write(1, b"%d\n" % answer)


def _ended(pid: int) -> int:
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _start(request: Mapping[str, Any], files: socket.socket) -> int | None:
    """Fork, with these files as stdout and stderr; None in the fork."""
    _, given, _, _ = socket.recv_fds(files, 1, 2)
    waiting, ready = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid()
        files.close()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, *given)):
            os.dup2(file, number)
        for file in (nothing, *given, waiting, ready):
            os.close(file)
        _be(request)
        return None
    for file in (*given, ready):
        os.close(file)
    os.read(waiting, 1)  # until it leads its session
    os.close(waiting)
    return pid


def become(request: Mapping[str, object]) -> None:
    """Be the process that a request describes."""
    for number, file in enumerate((os.devnull, str(request["out"]), str(request["err"]))):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    _be(request)


def _be(request: Mapping[str, object]) -> None:
    arguments, environ = request["arguments"], request["environ"]
    assert isinstance(arguments, list)
    assert isinstance(environ, dict)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["sluice", *(os.fsdecode(bytes.fromhex(argument)) for argument in arguments)]
    sys.orig_argv = [*SLUICE, *sys.argv[1:]]  # with which it starts its workers


if __name__ == "__main__":
    _fork_each(socket.socket(fileno=int(sys.argv[1])))
