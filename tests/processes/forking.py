"""The process that forks commands and nodes: a JSON line in for each thing to do, a number out.

At the end of its input it kills the group of each process that it started, so they end with pytest even when that is
killed; and Linux kills them with it.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import orjson

from tests.processes.ending import end_with_parent

LOADED = (
    *("gateway.cli", "gateway.server.hypercorn.engine", "storage.postgres.store", "storage.redis.state"),
    *("encodings.idna", "zxcvbn"),
)
"""With what a command loads when it opens its store, and a node when it starts, for any engine, store and state."""


def fork_each(files: socket.socket) -> None:
    """Do what each line of stdin says until there are no more."""
    for name in LOADED:  # only this process loads the program
        import_module(name)
    import_module("upstreams.platforms").load_platforms()
    import_module("gateway.config.secrets").derive_secrets("loads what derives secrets")
    gc.freeze()  # a fork that ends would walk over all that was loaded, which takes four times as long as a command
    running: set[int] = set()
    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        if pid := request.get("ended"):
            _, status = os.waitpid(pid, 0)
            running.discard(pid)
            answer = os.waitstatus_to_exitcode(status)
        elif answer := _fork(request, files):
            running.add(answer)
        else:
            _run(request)
            return
        os.write(1, b"%d\n" % answer)
    for pid in running:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _fork(request: Mapping[str, Any], files: socket.socket) -> int:
    """Fork, with the files that were sent as stdout and stderr; zero in the fork."""
    _, given, _, _ = socket.recv_fds(files, 1, 2)
    parent = os.getpid()
    waiting, ready = os.pipe()
    pid = os.fork()
    if not pid:
        end_with_parent(parent)
        os.setsid()
        files.close()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, *given)):
            os.dup2(file, number)
        for file in (nothing, *given, waiting, ready):
            os.close(file)
        _become(request)
        return 0
    for file in (*given, ready):
        os.close(file)
    os.read(waiting, 1)  # until it leads its session
    os.close(waiting)
    return pid


def _become(request: Mapping[str, Any]) -> None:
    from tests.processes.commands import SLUICE  # noqa: PLC0415 - see `fork_each`

    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = ["sluice", *(os.fsdecode(bytes.fromhex(argument)) for argument in request["arguments"])]
    sys.orig_argv = [*SLUICE, *sys.argv[1:]]  # with which it starts its workers


def _run(request: Mapping[str, Any]) -> None:
    differing = {name: request[name] for name in ("skew_s", "pace", "spans") if request.get(name)}
    if differing:
        from tests.processes.serving import serve_as  # noqa: PLC0415 - see `fork_each`

        serve_as(**differing)
    else:
        _end_by(import_module(request.get("program", "gateway.cli")).main)


def _end_by(main: Callable[[], object]) -> None:
    """Run `main` and end as an interpreter does, but without taking apart all that was loaded: half of a command."""
    exit_code = 0
    try:
        main()
    except SystemExit as exc:
        if not isinstance(exc.code, int | None):
            raise
        exit_code = exc.code or 0
    with suppress(OSError, ValueError):  # what cannot be written is for the interpreter to tell
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
    sys.exit(exit_code)


if __name__ == "__main__":
    fork_each(socket.socket(fileno=int(sys.argv[1])))
