"""The Trio side of group commit: calls that arrive during a commit share the next transaction.

One thread runs the batches. A message in a queue signals that jobs are pending, and the thread then takes all pending
jobs as a batch. It reports the end of a batch with `TrioToken.run_sync_soon`, or to a lone caller with a bell. Both
sides share the collection of pending jobs without a lock, because each job is popped only once, either by the thread or
by a caller that gives up. Neither side iterates over the jobs, because a thread can be interrupted whenever an object
is created. Unless noted otherwise, all other state belongs to the Trio thread.
"""

import logging
import os
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from storage.errors import StoreBusy, StoreUnavailable
from storage.store import StoreStatistics
from storage.transactions import TAKEN, Callback, Job

QUEUE_MAX = 10_000
BATCH_MAX = 512
# While calls arrive together, the thread gathers jobs for the next batch for five times the shorter duration of the
# last two batches, because larger commits take less CPU per call. With few callers the thread gathers for at most 2 ms.
# With many callers it may gather longer, because CPU is the bottleneck.
GATHER_RATIO = 5.0
GATHER_FEW_S: Final = 0.002
GATHER_MANY_S: Final = 0.01
TOGETHER: Final = 0.5
PACE_BATCHES: Final = 8
# After a batch with at most this many callers, the thread immediately takes the jobs that have gathered, without waking
# the event loop. After a larger batch it waits for a message from the event loop, which is awake anyway and has more
# jobs ready by then.
FEW = 8
# A job without a waiting caller lingers for this time, so that it can be committed together with the next job that has
# one. A client that sends its next request immediately then need not wait while the writer closes its last charge. With
# one connection, this halves the number of commits. The idle thread does the waiting, because a timer on the event loop
# would cost 80,000 instructions. The thread also lingers after each commit, so that consecutive calls need not wake it.
LINGER_S = 0.01
TAKE: Final = "take"  # signals that jobs are pending
LINGER: Final = "linger"  # signals that jobs without a waiting caller are pending while the thread rests
STOP: Final = "stop"
FAILED_STATUS: Final = 70  # exit status of a process that ended because of a bug
CLOSE_S = 10.0  # a disk that does not respond must not keep the process alive for longer

_log = logging.getLogger(__name__)


class Bell:
    """A pipe on which one task can wait at a time."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)

    def close(self) -> None:
        """Close the pipe. After this, no thread may call `ring`."""
        os.close(self._reading)
        os.close(self._writing)

    def ring(self) -> None:
        """Wake the waiting task, or the next one to wait. Callable from any thread.

        Pending rings are merged into one.
        """
        os.write(self._writing, b"!")

    async def wait(self, give_up: Callable[[], bool]) -> None:
        """Wait for a ring.

        If cancelled, the task stops waiting only if `give_up` returns True, which means that nothing will ring.
        """
        is_cancelled = False
        try:
            await trio.lowlevel.wait_readable(self._reading)
        except trio.Cancelled:  # noqa: ASYNC103 - raised again at the next checkpoint
            if give_up():
                raise
            is_cancelled = True
        if is_cancelled:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(self._reading)
        os.read(self._reading, 64)


class CommitPace:
    """Decides whether calls arrive together, so that gathering them is worthwhile.

    The criterion is at least one call per two commit durations, averaged over about the last eight batches. The number
    of calls per batch is not a good criterion, because gathering for long enough collects several calls in any case.
    """

    def __init__(self) -> None:
        self._called_s = self._passed_s = 0.0
        """Averages per batch: the time to commit its calls one by one, and the time since the previous batch."""
        self._began_at = 0.0

    def add(self, waiters: int, began_at: float, took_s: float) -> bool:
        """Record a batch: the number of its callers, its start and its duration in seconds.

        Return whether to gather jobs before the next batch.
        """
        passed_s = min(max(took_s, began_at - self._began_at), PACE_BATCHES * took_s)
        self._began_at = began_at
        self._called_s += (min(passed_s, waiters * took_s) - self._called_s) / PACE_BATCHES
        self._passed_s += (passed_s - self._passed_s) / PACE_BATCHES
        return self._called_s > TOGETHER * self._passed_s


class Writer:
    """Queues jobs for a thread that commits them in batches."""

    def __init__(self, run: Callable[[Sequence[Job]], list[Callback] | None], bell: Bell) -> None:
        """`run` executes a batch on the thread and sets each job's outcome. It must not raise.

        `run` returns the callbacks to call after the commit, or None if it did not commit.
        """
        self._run = run
        self._token = trio.lowlevel.current_trio_token()
        self._messages: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._pending: OrderedDict[Job, None] = OrderedDict()
        self._ended: deque[tuple[Sequence[Job], list[Callback] | None]] = deque()
        """Batches, in commit order, that the thread has ended and the Trio side has not reported yet."""
        self._bell = bell
        self._alone: Job | None = None
        """The job of the caller that waits for the bell."""
        self._running = False
        """Whether the thread will take the pending jobs without another signal."""
        self._closed = False
        self._refusal: str | None = None
        self._pace = CommitPace()
        self._took_s = 0.0
        """The duration of the last batch. Only the thread uses this attribute and `_pace`."""
        self._rests = True
        """Whether the thread waits for a message without a timeout.

        The thread sets this before it checks for jobs one last time. Either side clears it.
        """
        self._commits = self._calls = self._failed = self._unheard = 0

    async def submit(self, job: Job) -> object:
        """Wait for the job's outcome.

        If the call is cancelled before the thread has taken the job, the job never runs. After that, a cancelled call
        waits for the outcome.

        Raises:
            StoreBusy, StoreUnavailable: the job never ran.
            The job's own exceptions.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check_open()
        self._pending[job] = None
        if self._running or self._alone is not None or job.abandonable:
            self._wake_thread()
            return await job.wait(self._pending)
        await self._wait_alone(job)
        return job.outcome()

    def submit_nowait(self, job: Job) -> None:
        """Queue the job. Raises StoreBusy or StoreUnavailable if it cannot be queued."""
        self._check_open()
        self._pending[job] = None
        if self._rests:
            self._rests = False
            self._messages.put(LINGER)

    def refuse(self, why: str | None) -> None:
        """Refuse all calls, including waiting ones, with this reason. None accepts calls again."""
        self._refusal = why
        if why is not None:
            waiting = self._take(QUEUE_MAX)
            for job in waiting:
                job.error = StoreUnavailable(why)
            self._publish(waiting)

    def statistics(self) -> StoreStatistics:
        """Return counters for the operator."""
        return StoreStatistics(
            waiting=len(self._pending),
            commits=self._commits,
            calls=self._calls,
            failed_commits=self._failed,
            background_errors=self._unheard,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self._refusal is not None:
            raise StoreUnavailable(self._refusal)
        if len(self._pending) >= QUEUE_MAX:
            raise StoreBusy(f"{QUEUE_MAX} calls are already waiting for the database")

    def _wake_thread(self) -> None:
        if not self._running:
            self._running = True
            # The thread takes the pending jobs when the event loop releases the interpreter lock, mostly at the end of
            # this tick.
            self._messages.put(TAKE)

    async def _wait_alone(self, job: Job) -> None:
        """Like `Job.wait`, for a lone caller whose job finds the thread idle."""
        self._alone, job.task = job, trio.lowlevel.current_task()
        self._wake_thread()
        try:
            while not job.has_ended:
                await self._bell.wait(lambda: self._pending.pop(job, TAKEN) is not TAKEN)
                if self._ended:
                    self._report(awake=job)
                    self._set_idle()
        finally:
            self._alone = job.task = None

    def _report(self, awake: Job | None = None) -> None:
        """Report the ended batches to their callers.

        The caller of the job `awake` is already running and is skipped.
        """
        while self._ended:
            batch, callbacks = self._ended.popleft()
            self._calls += len(batch)
            if callbacks is None:
                self._failed += 1
            else:
                self._commits += 1
                for callback in callbacks:
                    callback()
            self._publish(batch, awake)

    def _publish(self, jobs: Sequence[Job], awake: Job | None = None) -> None:
        for job in jobs:
            job.has_ended = True
            if job.task is None:
                if job.error is not None and not job.abandonable:
                    self._publish_failure(job)
            elif job is awake:
                continue
            elif job is self._alone:
                self._bell.ring()
            else:
                trio.lowlevel.reschedule(job.task)

    def _publish_failure(self, job: Job) -> None:
        self._unheard += 1
        _log.error("a background write failed: %s", job.error, exc_info=job.error)
        if job.on_failure is not None:
            job.on_failure()

    def _set_idle(self) -> None:
        """Record that the thread is idle or about to be, and wake it if jobs are pending."""
        self._running = False
        if self._pending:
            self._wake_thread()

    def _report_and_set_idle(self) -> None:
        self._report()
        self._set_idle()

    def _take(self, at_most: int) -> list[Job]:
        """Remove and return up to `at_most` jobs, oldest first. Called on either side."""
        taken: list[Job] = []
        with suppress(KeyError):  # raised when no job is left
            while len(taken) < at_most:
                taken.append(self._pending.popitem(last=False)[0])
        return taken

    def _work(self) -> None:
        """Run the thread.

        An error here is a bug and ends the process, because all callers would otherwise wait forever.

        The process ends as if killed. All commits are in the store when the program starts again.
        """
        try:
            self._commit_all()
        except BaseException:  # noqa: ASYNC103, BLE001 - this is the top of the thread
            _log.critical("the commit thread has failed; this process exits", exc_info=True)
            logging.shutdown()
            os._exit(FAILED_STATUS)

    def _commit_all(self) -> None:
        """Run batch after batch until a stop is requested and no jobs are left."""
        while (batch := self._wait()) is not None:
            try:
                self._run_batches(batch)
            except trio.RunFinishedError:
                if self._ended:
                    _log.warning(
                        "calls that ended after the event loop stopped: %d",
                        sum(len(jobs) for jobs, _ in self._ended),
                    )

    def _wait(self) -> Sequence[Job] | None:
        """Return the next batch, or None to stop. Jobs without a waiting caller linger before they form a batch."""
        while True:
            try:
                message = self._messages.get() if self._rests else self._messages.get(timeout=LINGER_S)
            except queue.Empty:
                self._rests = True
                if not self._pending:
                    continue
                message = TAKE
            self._rests = False
            if message == LINGER:
                continue
            batch = self._take(BATCH_MAX)
            if message == STOP:
                if not batch:
                    return None
                self._messages.put(STOP)
            return batch

    def _run_batches(self, batch: Sequence[Job]) -> None:
        """Run a batch. As long as calls arrive together, also run the jobs that gathered after each batch."""
        while batch:
            before_s, began = self._took_s, time.monotonic()
            callbacks = self._run(batch)
            self._took_s = time.monotonic() - began
            waiters = sum(job.task is not None for job in batch)
            self._ended.append((batch, callbacks))
            if not self._pace.add(waiters, began, self._took_s):
                if callbacks is not None and self._alone in batch:  # after a failure, callers were already notified
                    self._bell.ring()
                    return
                break
            self._token.run_sync_soon(self._report)
            are_few = waiters <= FEW
            time.sleep(min(GATHER_RATIO * min(before_s, self._took_s), GATHER_FEW_S if are_few else GATHER_MANY_S))
            batch = self._take(BATCH_MAX) if are_few else ()
        # A single message, because a second one would wake the event loop once more, which delays a lone caller.
        self._token.run_sync_soon(self._report_and_set_idle)


@asynccontextmanager
async def open_writer(run: Callable[[Sequence[Job]], list[Callback] | None]) -> AsyncIterator[Writer]:
    """Open a running writer. On exit, queued jobs are committed and the thread ends."""
    bell = Bell()
    writer = Writer(run, bell)
    thread = threading.Thread(target=writer._work, name="storage-writer", daemon=True)
    thread.start()
    try:
        yield writer
    finally:
        writer._closed = True
        writer._messages.put(STOP)
        with trio.move_on_after(CLOSE_S, shield=True):
            await trio.to_thread.run_sync(thread.join, abandon_on_cancel=True)
            while writer._alone is not None:  # noqa: ASYNC110 - it was woken but has not returned from the bell yet
                await trio.sleep(0.001)
        if thread.is_alive():
            _log.error("the database does not respond; calls lost: %d", writer.statistics().waiting)
        else:
            bell.close()
