"""The Trio side of group commit: what waited while the last commit ran goes into the next transaction.

One thread runs the batches. It is told through a queue that something is pending, takes what has gathered, and tells of
the end by `TrioToken.run_sync_soon`, or a lone caller by a bell. What is pending is shared by both sides: each job is
popped from it once, by the thread or by who gives it up, which needs no lock. Nobody goes through it, since a thread
may be interrupted wherever an object is made. All other state belongs to the Trio thread, or says whose it is.
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

from storage.bell import Bell
from storage.errors import StoreBusy, StoreUnavailable
from storage.store import StoreStatistics
from storage.transactions import TAKEN, Callback, Job

QUEUE_MAX = 10_000
BATCH_MAX = 512
# While calls come together, the next batch gathers for five times as long as the shorter of the last two took, since
# larger commits take less CPU a call. Few wait for 2 ms at most; where there are many, CPU is what they are short of.
GATHER_RATIO = 5.0
GATHER_FEW_S: Final = 0.002
GATHER_MANY_S: Final = 0.01
TOGETHER: Final = 0.5
PACE_BATCHES: Final = 8
# After a batch of no more callers the thread takes what has gathered at once, which saves waking up the loop. After a
# larger one it waits for a word of the loop, which is awake, and has more ready by then.
FEW = 8
# What nobody waits for goes along with the next call that somebody does, if one comes soon: a client that asks again at
# once does not find the writer busy closing its last charge (at one connection: half the commits). The thread waits for
# that, which has nothing else to do then: a timer on the loop took it 80,000 instructions. It lingers after each commit
# before it rests, so that where calls come one after another none needs to wake it for that.
LINGER_S = 0.01
TAKE: Final = "take"  # what the thread is told: something is pending
LINGER: Final = "linger"  # something is pending that nobody waits for, and the thread rests
STOP: Final = "stop"
FAILED_STATUS: Final = 70  # of a process whose software failed in itself
CLOSE_S = 10.0  # a disk that does not answer must not keep the process alive for longer

_log = logging.getLogger(__name__)


class CommitPace:
    """Whether calls come together: over the last eight batches or so, one comes in every second commit's time.

    That several share a batch does not show it, since who gathers for long enough finds several of any callers.
    """

    def __init__(self) -> None:
        self._called_s = self._passed_s = 0.0
        """The commits that the calls of the usual batch would take one by one, and the time since the batch before."""
        self._began_at = 0.0

    def add(self, waiters: int, began_at: float, took_s: float) -> bool:
        """Count a batch for so many callers, whose commit began and took so long in seconds; whether to gather now."""
        passed_s = min(max(took_s, began_at - self._began_at), PACE_BATCHES * took_s)
        self._began_at = began_at
        self._called_s += (min(passed_s, waiters * took_s) - self._called_s) / PACE_BATCHES
        self._passed_s += (passed_s - self._passed_s) / PACE_BATCHES
        return self._called_s > TOGETHER * self._passed_s


class Writer:
    """A queue in front of one thread that commits."""

    def __init__(self, run: Callable[[Sequence[Job]], list[Callback] | None], bell: Bell) -> None:
        """`run` executes one batch on the thread, sets each job's outcome and gives what to call after the commit.

        None instead says that it did not commit. `run` does not raise.
        """
        self._run = run
        self._token = trio.lowlevel.current_trio_token()
        self._messages: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._pending: OrderedDict[Job, None] = OrderedDict()
        self._ended: deque[tuple[Sequence[Job], list[Callback] | None]] = deque()
        """Batches in the order of their commits, of which the Trio side has not heard; filled by the thread."""
        self._bell = bell
        self._alone: Job | None = None
        """The job of the caller who waits for the bell."""
        self._running = False
        """The thread is told to take what is pending, or takes it by itself."""
        self._closed = False
        self._refusal: str | None = None
        self._pace = CommitPace()
        self._took_s = 0.0
        """How long the last batch took; the thread's own, as the pace is."""
        self._rests = True
        """The thread waits for a message: set by it before a last look at what is pending, ended by either side."""
        self._commits = self._calls = self._failed = self._unheard = 0

    async def submit(self, job: Job) -> object:
        """Wait for the job's outcome. Cancelled before it is taken, it never happens; after that, it is awaited.

        Raises:
            StoreBusy, StoreUnavailable: it never happened. Or what the job itself raised.
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
        """Queue the job. Raises StoreBusy or StoreUnavailable when it cannot be queued."""
        self._check_open()
        self._pending[job] = None
        if self._rests:
            self._rests = False
            self._messages.put(LINGER)

    def refuse(self, why: str | None) -> None:
        """Refuse every call from now on, those that wait too; None takes them again."""
        self._refusal = why
        if why is not None:
            waiting = self._take(QUEUE_MAX)
            for job in waiting:
                job.error = StoreUnavailable(why)
            self._publish(waiting)

    def statistics(self) -> StoreStatistics:
        """Counters for the operator."""
        return StoreStatistics(
            waiting=len(self._pending),
            commits=self._commits,
            calls=self._calls,
            failed_commits=self._failed,
            unheard_errors=self._unheard,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self._refusal is not None:
            raise StoreUnavailable(self._refusal)
        if len(self._pending) >= QUEUE_MAX:
            raise StoreBusy(f"{QUEUE_MAX} calls wait for the database")

    def _wake_thread(self) -> None:
        if not self._running:
            self._running = True
            # It takes what is pending when the loop lets go of the interpreter, mostly at the end of this tick.
            self._messages.put(TAKE)

    async def _wait_alone(self, job: Job) -> None:
        """As `Job.wait`, for a caller who finds the thread waiting."""
        self._alone, job.task = job, trio.lowlevel.current_task()
        self._wake_thread()
        try:
            while not job.has_ended:
                await self._bell.wait(lambda: self._pending.pop(job, TAKEN) is not TAKEN)
                if self._ended:
                    self._report(awake=job)
                    self._go_on()
        finally:
            self._alone = job.task = None

    def _report(self, awake: Job | None = None) -> None:
        """Tell everybody of the batches that have ended, but the one who is `awake`."""
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
        _log.error("a write that nobody waits for failed: %s", job.error, exc_info=job.error)
        if job.on_failure is not None:
            job.on_failure()

    def _go_on(self) -> None:
        """The thread waits, or is about to."""
        self._running = False
        if self._pending:
            self._wake_thread()

    def _report_and_go_on(self) -> None:
        self._report()
        self._go_on()

    def _take(self, at_most: int) -> list[Job]:
        """So many of the longest pending; on either side."""
        taken: list[Job] = []
        with suppress(KeyError):  # none is left
            while len(taken) < at_most:
                taken.append(self._pending.popitem(last=False)[0])
        return taken

    def _work(self) -> None:
        """The thread. A fault of its own ends the process, as a kill does, since all who wait would wait for ever.

        What was committed is known to whoever starts again.
        """
        try:
            self._commit_all()
        except BaseException:  # noqa: ASYNC103, BLE001 - nobody is above it
            _log.critical("the thread that commits has failed; this process ends", exc_info=True)
            logging.shutdown()
            os._exit(FAILED_STATUS)

    def _commit_all(self) -> None:
        """One batch after another, until it is told to stop and there are no more."""
        while (batch := self._wait()) is not None:
            try:
                self._run_batches(batch)
            except trio.RunFinishedError:
                if self._ended:
                    _log.warning("%d calls ended after the program had", sum(len(jobs) for jobs, _ in self._ended))

    def _wait(self) -> Sequence[Job] | None:
        """The next batch, which may be one that nobody waits for if no other came while it lingered. None to stop."""
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
        """Run a batch, and while calls come together what has gathered after each."""
        while batch:
            before_s, began = self._took_s, time.monotonic()
            callbacks = self._run(batch)
            self._took_s = time.monotonic() - began
            waiters = sum(job.task is not None for job in batch)
            self._ended.append((batch, callbacks))
            if not self._pace.add(waiters, began, self._took_s):
                if callbacks is not None and self._alone in batch:  # of a failure, `run` has told others before
                    self._bell.ring()
                    return
                break
            self._token.run_sync_soon(self._report)
            are_few = waiters <= FEW
            time.sleep(min(GATHER_RATIO * min(before_s, self._took_s), GATHER_FEW_S if are_few else GATHER_MANY_S))
            batch = self._take(BATCH_MAX) if are_few else ()
        # One message instead of two: a lone caller pays for each with a wake-up of the loop.
        self._token.run_sync_soon(self._report_and_go_on)


@asynccontextmanager
async def open_writer(run: Callable[[Sequence[Job]], list[Callback] | None]) -> AsyncIterator[Writer]:
    """A running writer; on leaving, what is queued is committed and the thread ends."""
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
            while writer._alone is not None:  # noqa: ASYNC110 - woken, and still on his way from the bell
                await trio.sleep(0.001)
        if thread.is_alive():
            _log.error("the database does not answer; %d calls are lost", writer.statistics().waiting)
        else:
            bell.close()
