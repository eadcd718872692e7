"""Worker processes for CPU-intensive work.

A process that parses a page of several megabytes does not block other work, and it can be killed.

Measurements (docs/web-pages.md) show that processes are better than threads here: the work is mostly Python, so a
thread takes time from the event loop. If a page is built to take forever, a thread cannot be killed, and its memory
cannot be limited. A process is started when it is first needed, runs with low priority, and is replaced after a few
hundred tasks.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import mmap
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import trio

from upstreams.model.errors import NotFound, PageTooCostly, UnexpectedBody, UpstreamFailed, unreadable
from upstreams.model.steps import Answer, Task
from upstreams.workers.line import SPARE, TaskLine
from upstreams.workers.process import LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from limits.fair_turns import FairTurn

PROCESSES_MAX: Final = 2
TASKS_EACH: Final = 300
RESULT_BYTES_MAX: Final = 64 * 1024 * 1024
_READ_BYTES: Final = 256 * 1024
_KILLING_ACCOUNTS_MAX: Final = 1_000
CHARGED_CPU_S: Final = 2.0
"""CPU seconds above which a task is charged even if its deadline ended it. Few honest pages take this long."""
REMEMBERED_CPU_S: Final = 4.0
"""CPU seconds above which the page is also remembered as costly. On a busy node, the deadline may come earlier."""
_CPU_CLOCK: Final = 2
"""Combined with a process id, this is the id of its CPU clock, as in glibc's `clock_getcpuclockid` on Linux."""
_BY_PAGE: Final = frozenset((signal.SIGPROF, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS))
"""The signals that end a process because of a page: the CPU limit, or a library that aborts or crashes."""
_Buffer = TypeVar("_Buffer", bytearray, mmap)
_COMMAND: Final = (sys.executable, "-c", "from upstreams.workers.process import main; main()")


class ResultTooLong(Exception):
    """The result of a process exceeds the maximum length."""


@dataclass(slots=True)
class _Worker:
    """One process. Only the task that holds it may write to it."""

    process: subprocess.Popen[bytes]
    into: trio.lowlevel.FdStream
    out_of: trio.lowlevel.FdStream
    tasks: int = 0
    account_id: str = ""
    """The account that used the process last."""

    def cpu_s(self) -> float | None:
        """Return the CPU time of the process; None if it has ended or the system does not report it."""
        if self.process.returncode is not None:
            return None
        try:
            return time.clock_gettime((~self.process.pid << 3) | _CPU_CLOCK)
        except OSError:
            return None

    def kill(self) -> None:
        """Kill the process and close its pipes."""
        self.process.kill()
        for end in (self.into, self.out_of):
            end.close()


class ProcessPool:
    """The worker processes of a node: `processes_max`, and one more for accounts without a running task.

    Other tasks wait. The processes are shared fairly between accounts, by the CPU time of their tasks.
    """

    def __init__(self, processes_max: int = PROCESSES_MAX) -> None:
        at_once = max(1, min(processes_max, os.cpu_count() or 1))
        self._line = TaskLine(at_once)
        self._processes_max = at_once + SPARE
        self.check_room = self._line.check_room
        self.statistics = self._line.statistics
        self._idle: list[_Worker] = []
        self._kills_by_account: dict[str, int] = {}
        """How many processes each account's tasks have killed that the account has not replaced yet."""
        self.started_total = 0

    async def run(self, task: Task, deadline_at: float, *, source: str, account_id: str) -> Answer:
        """Run an account's task and return its result as the body of an answer.

        The task is killed at `deadline_at` on Trio's clock.

        Raises:
            NotFound: The task found nothing.
            PageTooCostly: The task exceeded its CPU time or memory, or used much CPU time before its deadline.
            WorkersBusy: The task was not started, because too much work is queued before it.
            UpstreamFailed: The body cannot be parsed, time ran out, or the process ended.
        """
        size_bytes = sum(len(one) for one in task.args if isinstance(one, bytes))
        turn: FairTurn | None = None
        try:
            with trio.move_on_at(deadline_at):
                async with self._line.turn(account_id, size_bytes, deadline_at) as turn:
                    return Answer(200, {}, await self._run(task, source, turn), source)
        except PageTooCostly:
            task.remember()
            raise
        used_s = 0.0 if turn is None else turn.used_s or 0.0
        if used_s >= REMEMBERED_CPU_S:
            task.remember()
        if used_s >= CHARGED_CPU_S:
            raise PageTooCostly("The request timed out before the page was parsed.")
        raise UpstreamFailed(source, "no time left to parse the response", passing=True)

    def close(self) -> None:
        """Kill all idle processes."""
        while self._idle:
            worker = self._idle.pop()
            worker.kill()
            worker.process.wait()

    async def _run(self, task: Task, source: str, turn: FairTurn) -> Any:
        worker = await self._worker(turn.account_id)
        with self._returned_or_killed(worker, turn.account_id), _counted(worker, turn):
            try:
                reply = await _exchange(worker, msgspec.msgpack.encode((task.function, task.args)))
            except ResultTooLong as exc:
                raise PageTooCostly from exc
            except (trio.BrokenResourceError, trio.ClosedResourceError, EOFError) as exc:
                if await _exit_signal(worker) in _BY_PAGE:  # noqa: ASYNC120 - a cancelled task needs no reason
                    raise PageTooCostly from exc
                raise UpstreamFailed(source, "the process that parsed the response has ended") from exc
        with reply:
            kind, *values = msgspec.msgpack.decode(reply)
        if kind == "done":
            return values[0]
        if kind == "costly":
            raise PageTooCostly(values[0])
        if kind == "not_found":
            raise NotFound(values[0], reason=values[1])
        raise unreadable(source, (UnexpectedBody if kind == "unexpected" else ValueError)(values[0]))

    async def _worker(self, account_id: str) -> _Worker:
        """Return an idle process, or a new one if there is capacity.

        Starting a process takes about ten times as long as parsing a short page. An account that lost its idle process
        to another account would have to wait that long. Therefore, an account uses the idle process of another account
        only once all processes have started. An account that killed processes starts as many new ones, instead of using
        the processes of others.
        """
        ended = self._kills_by_account.pop(account_id, 0)
        if ended > 1:
            self._kills_by_account[account_id] = ended - 1
        is_first = self.started_total < self._processes_max and account_id not in {one.account_id for one in self._idle}
        has_room = self.statistics().in_use + len(self._idle) <= self._processes_max
        if self._idle and not ((ended or is_first) and has_room):
            worker = next((one for one in self._idle if one.account_id == account_id), self._idle[-1])
            self._idle.remove(worker)
        else:
            worker = await self._start()
        worker.account_id = account_id
        return worker

    @contextmanager
    def _returned_or_killed(self, worker: _Worker, account_id: str) -> Iterator[None]:
        """Take the process back if the block succeeds and the process is not worn out; otherwise kill it."""
        try:
            yield
        except BaseException:
            _end(worker)
            self._kills_by_account[account_id] = min(self._kills_by_account.get(account_id, 0) + 1, self._processes_max)
            if len(self._kills_by_account) > _KILLING_ACCOUNTS_MAX:
                del self._kills_by_account[next(iter(self._kills_by_account))]
            raise
        worker.tasks += 1
        if worker.tasks < TASKS_EACH:
            self._idle.append(worker)
        else:
            _end(worker)

    async def _start(self) -> _Worker:
        self.started_total += 1
        process = await trio.to_thread.run_sync(_started)
        assert process.stdin is not None
        assert process.stdout is not None
        into, out_of = (trio.lowlevel.FdStream(os.dup(pipe.fileno())) for pipe in (process.stdin, process.stdout))
        process.stdin.close()
        process.stdout.close()
        return _Worker(process, into, out_of)


@contextmanager
def _counted(worker: _Worker, turn: FairTurn) -> Iterator[None]:
    """Set `turn.used_s` to the CPU time that the process uses in the block; None if it is unknown.

    The time of its first task includes the start of the process.
    """
    began_s = worker.cpu_s() if worker.tasks else 0.0
    try:
        yield
    finally:
        ended_s = worker.cpu_s()
        turn.used_s = None if began_s is None or ended_s is None else ended_s - began_s


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - it runs this program
        _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


async def _exchange(worker: _Worker, request: bytes) -> mmap:
    """Send one request, and return its reply.

    The request and the reply may be long, so they are not copied. Touching all pages of a copy in one step would block
    the event loop.

    Raises:
        EOFError: The process ended.
        ResultTooLong: The result is longer than `RESULT_BYTES_MAX`.
    """
    await worker.into.send_all(LENGTH.pack(len(request)))
    await worker.into.send_all(request)
    (length,) = LENGTH.unpack(await _read(worker.out_of, bytearray(LENGTH.size)))
    if not 0 < length <= RESULT_BYTES_MAX:
        raise ResultTooLong
    return await _read(worker.out_of, mmap(-1, length))


async def _read(stream: trio.lowlevel.FdStream, into: _Buffer) -> _Buffer:
    """Fill a buffer with bytes from a stream.

    Raises:
        EOFError: The stream ended.
    """
    at = 0
    while at < len(into):
        piece = await stream.receive_some(min(len(into) - at, _READ_BYTES))
        if not piece:
            raise EOFError
        into[at : at + len(piece)] = piece
        at += len(piece)
    return into


async def _exit_signal(worker: _Worker) -> int:
    """Return the signal that ended a process, or 0. A process that only closed its pipe is killed."""
    worker.kill()
    return -await trio.to_thread.run_sync(worker.process.wait)


def _end(worker: _Worker) -> None:
    """Kill a process. A thread waits for its end, which takes long if the process used much memory."""
    worker.kill()
    trio.lowlevel.spawn_system_task(_reap, worker.process)


async def _reap(process: subprocess.Popen[bytes]) -> None:
    await trio.to_thread.run_sync(process.wait)
