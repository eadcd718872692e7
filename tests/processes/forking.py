"""The process that forks commands and nodes. It reads one request per line as JSON, and answers each with a number.

At the end of its input it kills the group of each process that it started, so they end with pytest even when pytest is
killed. Linux kills them with this process, too.
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

from gateway.cli import _COMMANDS as COMMANDS
from tests.processes.ending import end_with_parent

LOADED = (
    *("gateway.node.serve", "gateway.node.stores", "gateway.node.wiring", "gateway.server.hypercorn.engine"),
    *("storage.postgres.store", "storage.redis.state", "storage.sqlite.store", "upstreams.sandbox.drift"),
    *("encodings.idna", "encodings.utf_8_sig", "sqlite_utils", "zxcvbn"),
    *(f"gateway.cli.{module}" for module, _, _ in COMMANDS.values()),
    *(f"upstreams.sandbox.{name}" for name in ("github.graphql", "github.invented", "hackernews.invented", "web")),
)
"""The modules that any command needs, and that a node needs to start, for any engine, store and state.

A node imports 600 modules, which would otherwise take most of the CPU time of its start.
"""


def fork_each(files: socket.socket) -> None:
    """Handle the request in each line of stdin until the input ends."""
    for name in LOADED:  # only this process loads the program
        import_module(name)
    import_module("upstreams.composites").load_all()
    import_module("gateway.config.secrets").derive_secrets("loads what derives secrets")
    gc.freeze()  # otherwise, each fork would examine all loaded objects at its end, four times as long as it ran
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
    """Fork, with the received files as stdout and stderr. Return zero in the fork."""
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
        for file in (nothing, *given, waiting, ready, *request.get("closed", ())):
            os.close(file)
        _become(request)
        return 0
    for file in (*given, ready):
        os.close(file)
    os.read(waiting, 1)  # until the fork leads its session
    os.close(waiting)
    return pid


def _become(request: Mapping[str, Any]) -> None:
    from tests.processes.commands import SLUICE  # noqa: PLC0415 - only this process loads the program

    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = ["sluice", *(os.fsdecode(bytes.fromhex(argument)) for argument in request["arguments"])]
    sys.orig_argv = [*SLUICE, *sys.argv[1:]]  # the command with which a node starts its workers


def _run(request: Mapping[str, Any]) -> None:
    differing = {name: request[name] for name in ("skew_s", "pace", "spans") if request.get(name)}
    if differing:
        from tests.processes.serving import serve_as  # noqa: PLC0415 - only this process loads the program

        serve_as(**differing)
    else:
        _end_by(import_module(request.get("program", "gateway.cli")).main)


def _end_by(main: Callable[[], object]) -> None:
    """Run `main` and end like an interpreter, but do not free the loaded objects.

    Freeing them takes half of a command's time.
    """
    exit_code = 0
    try:
        main()
    except SystemExit as exc:
        if not isinstance(exc.code, int | None):
            raise
        exit_code = exc.code or 0
    with suppress(OSError, ValueError):  # if this fails, the interpreter below reports it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
    sys.exit(exit_code)


if __name__ == "__main__":
    fork_each(socket.socket(fileno=int(sys.argv[1])))
