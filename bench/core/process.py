"""Child processes of the bench: started, read from /proc while they run, and always stopped by their own id."""

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
"""A server under a profiler, on a busy machine, takes many times as long to start as any other."""
STOP_S = 10.0
READY_LINE_BYTES_MAX = 65_536
LOG_TAIL_BYTES = 2_000

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds (user and system) and resident bytes of a process and its living children.

    `own_bytes` are the resident ones without files that are mapped: a store's pages lie in the system's cache anyway.
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
    """Let this process open as many sockets as the system allows it to; the usual limit is a thousand or so."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def usage(pid: int) -> Usage:
    """The usage of `pid` and its living descendants, so that a server with workers is counted whole."""
    parts = [_own_usage(each) for each in _family(pid)]
    return Usage(
        cpu_s=sum(part.cpu_s for part in parts),
        rss_bytes=sum(part.rss_bytes for part in parts),
        own_bytes=sum(part.own_bytes for part in parts),
    )


def _family(pid: int) -> Iterator[int]:
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # an idle worker thread may end while it is looked at
            for child in (thread / "children").read_text().split():
                yield from _family(int(child))


def _own_usage(pid: int) -> Usage:
    _, resident, mapped, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    return Usage(
        # What clock_getcpuclockid gives: to the nanosecond, where /proc counts ticks of 10 ms.
        cpu_s=time.clock_gettime((~pid << 3) | 2),
        rss_bytes=resident * _PAGE_BYTES,
        own_bytes=(resident - mapped) * _PAGE_BYTES,
    )


def machine_ticks() -> tuple[int, int]:
    """(idle, all) ticks of all CPUs since the system started; what stands between two looks is the machine's load."""
    with Path("/proc/stat").open() as file:
        ticks = [int(count) for count in file.readline().split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def has_ended(pid: int) -> bool:
    """Whether a process that this one has started is over, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return True


@asynccontextmanager
async def open_server(
    command: Sequence[str], *, log: Path, environ: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Child]:
    """Run `command` until the block ends; entered once it has printed its first line. Its stderr goes to `log`.

    `environ` is added to this process's own environment.

    Raises:
        ChildFailed: it ended, or stayed silent for `START_S`, before that line; or the block failed since it ended.
    """
    with log.open("wb") as errors:
        # A session of its own: Ctrl-C reaches the bench alone, which then stops what it started, in order.
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
    # The ready line is the only one a server prints, so nothing that is read here belongs to anyone else.
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
        ChildFailed: it ended with an exit code other than 0.
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
    """The last words of a process."""
    return _tail(log.read_bytes())


def _tail(written: bytes) -> str:
    return written[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
