"""The Trio side of group commit: what waited while the last commit ran goes into the next transaction.

One thread runs the batches. It gets them through a queue, or takes what has gathered by itself, and reports each with
`TrioToken.run_sync_soon`. What is pending is shared by both sides: each job is popped from it once, by the thread or by
who gives it up, which needs no lock. All other state belongs to the Trio thread, or says whose it is.
"""

import logging
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Final

import trio

from storage.errors import StoreBusy, StoreUnavailable
from storage.store import StoreStatistics
from storage.transactions import TAKEN, Callback, Job

QUEUE_MAX = 10_000
BATCH_MAX = 512
# While calls come together, the next batch gathers for five times as long as the shorter of the last two took: fewer,
# larger commits take less CPU a billed call, and one slow moment of the disk is no reason to wait. They do when one of
# the last batches was for several, so a lone caller never waits.
GATHER_RATIO = 5.0
GATHER_S_MAX = 0.01
TOGETHER = 4
# After a batch of no more jobs the thread takes what has gathered by itself, which saves waking up the loop. After a
# larger one the loop is awake, and gives it all that is ready in the same tick.
FEW = 16
# What nobody waits for goes along with the next call that somebody does, if one comes soon: a client that asks again at
# once does not find the writer busy closing its last charge (at one connection: half the commits). The thread waits for
# that, which has nothing else to do then: a timer on the loop took it 80,000 instructions. It lingers after each commit
# before it rests, so that where calls come one after another none needs to wake it for that.
LINGER_S = 0.01
LINGER: Final = ()  # what the thread is told instead of a batch, when it rests
CLOSE_S = 10.0  # a disk that does not answer must not keep the process alive for longer

_log = logging.getLogger(__name__)


class Writer:
    """A queue in front of one thread that commits."""

    def __init__(self, run: Callable[[Sequence[Job]], list[Callback] | None]) -> None:
        """`run` executes one batch on the thread, sets each job's outcome and gives what to call after the commit.

        None instead says that it did not commit. `run` does not raise.
        """
        self._run = run
        self._token = trio.lowlevel.current_trio_token()
        self._batches: queue.SimpleQueue[Sequence[Job] | None] = queue.SimpleQueue()
        self._pending: dict[Job, None] = {}
        self._running = False
        self._closed = False
        self._refusal: str | None = None
        self._together = 0
        """For so many batches more, calls are taken to come together; the thread's own."""
        self._took_s = 0.0
        """How long the last batch took; the thread's own too."""
        self._rests = True
        """The thread waits for a message: set by it before a last look at what is pending, ended by either side."""
        self._quiet = trio.Event()
        self._has_work = trio.Event()
        self._commits = self._calls = self._failed = self._unheard = 0

    async def submit(self, job: Job) -> object:
        """Wait for the job's outcome. Cancelled before it is dispatched, it never happens; after that, it is awaited.

        Raises:
            StoreBusy, StoreUnavailable: it never happened. Or what the job itself raised.
        """
        self._queue(job)
        self._start()
        return await job.wait(self._pending)

    def submit_nowait(self, job: Job) -> None:
        """Queue the job. Raises StoreBusy or StoreUnavailable when it cannot be queued."""
        self._queue(job)
        if self._rests:
            self._rests = False
            self._batches.put(LINGER)

    def _queue(self, job: Job) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self._refusal is not None:
            raise StoreUnavailable(self._refusal)
        if len(self._pending) >= QUEUE_MAX:
            raise StoreBusy(f"{QUEUE_MAX} calls wait for the database")
        self._pending[job] = None

    def _start(self) -> None:
        if self._pending and not self._running:
            # Not at once: every task that is ready in this tick of the loop gets into the same commit.
            self._running = True
            self._has_work.set()

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

    def _dispatch(self) -> None:
        if batch := self._take(BATCH_MAX):
            self._batches.put(batch)
        else:
            self._running = False
            self._quiet.set()

    def _take(self, at_most: int) -> list[Job]:
        """So many of the longest pending, without any that is given up meanwhile; on either side."""
        longest = list(islice(self._pending, at_most))  # in one step of the interpreter
        return [job for job in longest if self._pending.pop(job, TAKEN) is not TAKEN]

    def _work(self) -> None:
        """The thread: one batch after another until it is told to stop."""
        while (batch := self._next()) is not None:
            self._run_batch(batch)

    def _next(self) -> Sequence[Job] | None:
        """The next batch; what nobody waits for is asked for when none has come while the thread lingered."""
        while True:
            try:
                batch = self._batches.get() if self._rests else self._batches.get(timeout=LINGER_S)
            except queue.Empty:
                self._look()
                continue
            self._rests = False
            if batch != LINGER:
                return batch

    def _look(self) -> None:
        """Have what is pending dispatched; the thread rests when nothing is."""
        self._rests = True
        if self._pending:
            self._rests = False
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._start)

    def _run_batch(self, batch: Sequence[Job]) -> None:
        """Run a batch, and while calls come together what has gathered after each."""
        try:
            while batch:
                before_s, began = self._took_s, time.monotonic()
                callbacks = self._run(batch)
                self._took_s = time.monotonic() - began
                if not self._come_together(batch):
                    # One message instead of two: a lone caller pays for each with a wake-up of the loop.
                    self._token.run_sync_soon(self._go_on, batch, callbacks)
                    return
                self._token.run_sync_soon(self._done, batch, callbacks)
                time.sleep(min(GATHER_RATIO * min(before_s, self._took_s), GATHER_S_MAX))
                batch = self._take(BATCH_MAX) if len(batch) <= FEW else ()
            self._token.run_sync_soon(self._dispatch)
        except trio.RunFinishedError:
            _log.warning("%d calls ended after the program had", len(batch))

    def _come_together(self, batch: Sequence[Job]) -> bool:
        """Whether one of the last batches was for several callers."""
        self._together = TOGETHER if _is_shared(batch) else max(0, self._together - 1)
        return self._together > 0

    def _go_on(self, batch: Sequence[Job], callbacks: list[Callback] | None) -> None:
        self._done(batch, callbacks)
        self._dispatch()

    def _done(self, batch: Sequence[Job], callbacks: list[Callback] | None) -> None:
        self._calls += len(batch)
        if callbacks is None:
            self._failed += 1
        else:
            self._commits += 1
            for callback in callbacks:
                callback()
        self._publish(batch)

    def _publish(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.task is not None:
                trio.lowlevel.reschedule(job.task)
            elif job.error is not None and not job.abandonable:
                self._publish_failure(job)

    def _publish_failure(self, job: Job) -> None:
        self._unheard += 1
        _log.error("a write that nobody waits for failed: %s", job.error, exc_info=job.error)
        if job.on_failure is not None:
            job.on_failure()

    async def _keep_dispatching(self, scope: trio.CancelScope) -> None:
        """Begin to commit when somebody waits, until `scope` is cancelled."""
        with scope:
            while True:
                await self._has_work.wait()
                self._has_work = trio.Event()
                self._dispatch()

    async def _drain(self) -> None:
        """Wait until everything queued is committed; the deadline is the caller's."""
        await trio.lowlevel.checkpoint()
        self._start()
        while self._running:
            self._quiet = trio.Event()
            await self._quiet.wait()


def _is_shared(batch: Sequence[Job]) -> bool:
    """Whether more than one caller waits for it; what nobody waits for does not count."""
    waiting = 0
    for job in batch:
        waiting += job.task is not None
        if waiting > 1:
            return True
    return False


@asynccontextmanager
async def open_writer(run: Callable[[Sequence[Job]], list[Callback] | None]) -> AsyncIterator[Writer]:
    """A running writer; on leaving, what is queued is committed and the thread ends."""
    writer = Writer(run)
    thread = threading.Thread(target=writer._work, name="storage-writer", daemon=True)
    thread.start()
    dispatching = trio.CancelScope()
    # A system task, not a nursery: that would wrap whatever the block raises in a group.
    trio.lowlevel.spawn_system_task(writer._keep_dispatching, dispatching)
    try:
        yield writer
    finally:
        writer._closed = True
        with trio.move_on_after(CLOSE_S, shield=True):
            await writer._drain()
            writer._batches.put(None)
            await trio.to_thread.run_sync(thread.join, abandon_on_cancel=True)
        dispatching.cancel()
        if thread.is_alive():
            _log.error("the database does not answer; %d calls are lost", len(writer._pending))
