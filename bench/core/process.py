"""Child processes of the bench. They are measured from /proc while they run, and always stopped by their own id."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import trio

from bench.core.errors import ChildFailed

PROJECT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable

START_S = 120.0
"""The maximum time for a start. On a busy machine, a server under a profiler takes many times longer to start."""
STOP_S = 10.0
READY_LINE_BYTES_MAX = 65_536
LOG_TAIL_BYTES = 2_000

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds (user and system) and resident bytes of a process and its living descendants.

    `own_bytes` are the resident bytes without mapped files, because the pages of a store are in the system's cache
    anyway.
    """

    cpu_s: float
    rss_bytes: int
    own_bytes: int


@dataclass(frozen=True, slots=True)
class Child:
    """A running server: its process id and the first line it printed."""

    pid: int
    ready_line: bytes


def raise_open_files() -> None:
    """Raise this process's limit of open files to the system's maximum. The default is about a thousand."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def usage(pid: int) -> Usage:
    """Return the usage of `pid` and its living descendants, so that a server's workers are included."""
    parts = [_own_usage(each) for each in _family(pid)]
    return Usage(
        cpu_s=sum(part.cpu_s for part in parts),
        rss_bytes=sum(part.rss_bytes for part in parts),
        own_bytes=sum(part.own_bytes for part in parts),
    )


def _family(pid: int) -> Iterator[int]:
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # an idle worker thread may end during the read
            for child in (thread / "children").read_text().split():
                yield from _family(int(child))


def _own_usage(pid: int) -> Usage:
    _, resident, mapped, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    return Usage(
        # The clock of clock_getcpuclockid is exact to the nanosecond, while /proc counts ticks of 10 ms.
        cpu_s=time.clock_gettime((~pid << 3) | 2),
        rss_bytes=resident * _PAGE_BYTES,
        own_bytes=(resident - mapped) * _PAGE_BYTES,
    )


def machine_ticks() -> tuple[int, int]:
    """Return the idle ticks and the total ticks of all CPUs since the system started.

    Compute the load of a period from the differences between two calls.
    """
    with Path("/proc/stat").open() as file:
        ticks = [int(count) for count in file.readline().split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def has_ended(pid: int) -> bool:
    """Return whether a process that was started here has ended, even if it was not waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return True


@asynccontextmanager
async def open_server(
    command: Sequence[str], *, log: Path, environ: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Child]:
    """Run `command` until the block ends. The block begins after the command's first line; stderr goes to `log`.

    `environ` is added to this process's own environment.

    Raises:
        ChildFailed: The command ended, or printed no line within `START_S`; or the block failed because the command
            ended.
    """
    with log.open("wb") as errors:
        # The child gets a separate session, so that Ctrl-C reaches only the bench, which then stops its children in
        # order.
        process = await trio.lowlevel.open_process(
            list(command),
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=PROJECT,
            env={**os.environ, **environ},
            start_new_session=True,
        )
    try:
        yield Child(pid=process.pid, ready_line=await _ready_line(process, log=log))
    except ChildFailed as exc:
        if process.poll():
            raise ChildFailed(f"{_shown(process.args)} ended with {process.returncode}\n{end_of(log)}") from exc
        raise
    finally:
        with trio.move_on_after(STOP_S, shield=True):
            process.terminate()
            await process.wait()
        with trio.move_on_after(STOP_S, shield=True):
            process.kill()
            await process.wait()
            if process.stdout is not None:
                await process.stdout.aclose()


async def _ready_line(process: trio.Process, *, log: Path) -> bytes:
    assert process.stdout is not None
    with trio.move_on_after(START_S):
        line = await _first_line(process.stdout)
        if line.endswith(b"\n"):
            return line
    raise ChildFailed(f"{_shown(process.args)} did not become ready\n{end_of(log)}")


async def _first_line(stdout: trio.abc.ReceiveStream) -> bytes:
    # A server prints only the ready line, so a chunk cannot contain anything else.
    line = received = bytes(await stdout.receive_some())
    while received and not line.endswith(b"\n") and len(line) < READY_LINE_BYTES_MAX:
        received = bytes(await stdout.receive_some())
        line += received
    return line


async def run_command(
    command: Sequence[str], *, stdin: bytes = b"", environ: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Return the stdout of `command`; `environ` is added to this process's own environment.

    Raises:
        ChildFailed: The exit code of the command was not 0.
    """
    done = await trio.run_process(
        list(command),
        stdin=stdin,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=PROJECT,
        env={**os.environ, **environ},
        start_new_session=True,
    )
    if done.returncode != 0:
        raise ChildFailed(f"{_shown(command)} ended with {done.returncode}\n{_tail(done.stderr)}")
    return done.stdout


def _shown(command: object) -> str:
    return " ".join(map(str, command)) if isinstance(command, list | tuple) else str(command)


def end_of(log: Path) -> str:
    """Return the end of a process's log."""
    return _tail(log.read_bytes())


def _tail(written: bytes) -> str:
    return written[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
