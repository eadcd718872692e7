"""Programs that tests run unchanged. Each leads a process group, which ends with its block and with pytest."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from tests.processes.ending import keeper

GONE_S = 60.0


def launch(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    out: int | IO[bytes] = subprocess.DEVNULL,
    err: int | IO[bytes] = subprocess.DEVNULL,
    user: int | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a process in its own session. The caller must end it with `finish`; it also ends with pytest.

    `user` runs it as another user, for servers that refuse to run as root.
    """
    popen = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        user=user,
        group=user,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        bufsize=0,  # so that `select` reports all data that was not read yet
        start_new_session=True,
    )
    keeper().keep(popen.pid)
    return popen


def lower_priority(pid: int, niceness: int) -> None:
    """Lower the priority of a process that `launch` has just started, and of everything that it starts.

    Linux may schedule by session before it considers priorities within a session, so the session's priority is lowered
    too.
    """
    os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))


def finish(popen: "subprocess.Popen[Any]") -> int:
    """Kill a process, if it still runs, and everything that it started. Return its exit code."""
    with suppress(ProcessLookupError):
        os.killpg(popen.pid, signal.SIGKILL)
    exit_code = popen.wait(GONE_S)
    keeper().forget(popen.pid)
    return exit_code


@contextmanager
def open_child(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    out: int | IO[bytes] = subprocess.DEVNULL,
    err: int | IO[bytes] = subprocess.DEVNULL,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process like `launch`, and kill it with everything that it started when the block ends."""
    popen = launch(command, folder=folder, environ=environ, out=out, err=err)
    with popen:
        try:
            yield popen
        finally:
            finish(popen)
