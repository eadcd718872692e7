"""The store of the simulated world: a real database with group commit in virtual time, and simulated faults.

The store has the guarantees of `storage.batching`. A call that is cancelled before it is dispatched never runs; a call
that is cancelled later is still awaited. Calls that wait at the same time share a commit. No caller is notified before
its commit is durable. A commit may be slow or fail. The process may die before a commit, or after it but before callers
are notified.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from random import Random
from typing import cast

import trio

from billing.charges.batch_rows import Charge, ChargeRequest, CloseRequest
from gateway.calls.idempotency import Begin, ClaimEnd
from storage.errors import StoreUnavailable
from storage.migrations import MigrationSet
from storage.store import BatchHandler, Req, Res, StoreSize, StoreStatistics, T, Tx
from storage.transactions import Callback, Job
from tests.fakes.inline_calls import InlineCalls
from tests.simulation.requests import CURRENT
from tests.simulation.shadow import Shadow
from tests.simulation.spells import Weather

KINDS = {"slow": (3.0, 10.0), "failing": (3.0, 6.0), "stuck": (2.0, 8.0)}
"""The periods between calm ones: their weights and mean lengths."""
STANDS_STILL = 0.3
STANDSTILL_S = (290.0, 400.0)
"""How long the store commits nothing. Meanwhile, idempotency keys are taken over from their owners (spec 8: after 5
minutes)."""
DRAIN_S = 10.0
TROUBLE_S = 1.0
"""A commit that takes longer counts as trouble."""


class SimStore:
    """One process's connection to `database`. `shadow` checks it after each commit, before callers are notified."""

    partitions = None

    def __init__(self, database: InlineCalls, weather: Weather, rng: Random, shadow: Shadow) -> None:
        self.on_death: Callable[[], None] = lambda: None
        """Called when the process dies."""
        self.commits_left: int | None = None
        """The process dies just before or just after the last of this many further commits."""
        self.may_stand_still = False
        """Whether the store may commit nothing for minutes right after a claim was taken."""
        self._stands_still = False
        self._trouble_at = float("-inf")
        self._began_at = float("inf")
        self._database = database
        self._weather = weather
        self._rng = rng
        self._shadow = shadow
        self._pending: dict[Job, None] = {}
        self._batch: list[Job] = []
        self._is_durable = False
        self._refusal: str | None = None
        self._wake = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        self._commits = self._calls = self._failed = 0

    @asynccontextmanager
    async def open(self, _url: str, _migrations: Sequence[MigrationSet]) -> AsyncIterator[SimStore]:
        """Like `storage.opening.open_store`: when the block ends, queued calls are committed."""
        working = trio.CancelScope(shield=True)  # continues when its callers are cancelled, like a thread
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._work, working)
            try:
                yield self
            finally:
                with trio.move_on_after(DRAIN_S, shield=True):
                    await self._idle.wait()
                self._refusal = "the store is closed"
                working.cancel()

    def die(self) -> None:
        """End the process. Commits in progress may become durable or not, and nothing happens after that."""
        self._refusal = "the process is dead"
        if self._batch and not self._is_durable and self._rng.random() < 0.5:
            self._run(self._batch)
        for job in [*self._batch, *self._pending]:
            job.error = StoreUnavailable(self._refusal)
            _wake_up(job)
        self._batch = []
        self._pending.clear()
        self._idle.set()
        self.on_death()

    def had_trouble(self, since: float) -> bool:
        """Return whether a call has failed or taken long since that time, or is taking long now."""
        return self._trouble_at >= since or trio.current_time() - self._began_at > TROUBLE_S

    async def write(self, fn: Callable[[Tx], T]) -> T:
        return cast("T", await self._submit(Job(fn=fn)))

    async def read(self, fn: Callable[[Tx], T]) -> T:
        await trio.sleep(self._rng.uniform(0.0, 0.002))
        if self._refusal is not None or (self._kind() == "failing" and self._rng.random() < 0.3):
            self._trouble_at = trio.current_time()
            raise StoreUnavailable(self._refusal or "the disk reports an I/O error")
        found = self._database.look(fn)
        await trio.sleep(self._rng.uniform(0.0, 0.002))
        return found

    async def submit(self, handler: BatchHandler[Req, Res], request: Req) -> Res:
        return cast("Res", await self._submit(Job(handler=handler, request=request)))  # type: ignore[arg-type]

    def submit_nowait(
        self, handler: BatchHandler[Req, Res], request: Req, on_failure: Callable[[], None] | None = None
    ) -> None:
        self._queue(Job(handler=handler, request=request, on_failure=on_failure))  # type: ignore[arg-type]

    async def ping(self) -> None:
        await self._submit(Job(fn=lambda _tx: None, abandonable=True))

    def announce(self, note: Mapping[str, str]) -> None:
        """Do nothing, because the note is not read."""

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(len(self._pending), self._commits, self._calls, self._failed, 0)

    async def measure(self) -> StoreSize:
        await trio.lowlevel.checkpoint()
        return StoreSize(0, None, ())

    async def scrub(self, table: str) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    async def flush_log(self) -> None:
        await trio.lowlevel.checkpoint()

    async def disk(self) -> None:
        await trio.lowlevel.checkpoint()

    def closing(self) -> set[str]:
        """Return the requests whose closing call is queued or in progress."""
        requests = [job.request for job in (*self._batch, *self._pending)]
        closes = [request.close if isinstance(request, ClaimEnd) else request for request in requests]
        return {close.request_id for close in closes if isinstance(close, CloseRequest | Charge)}

    async def _submit(self, job: Job) -> object:
        self._queue(job)
        return await job.wait(self._pending)

    def _queue(self, job: Job) -> None:
        if self._refusal is not None:
            raise StoreUnavailable(self._refusal)
        charge = job.request.charge if isinstance(job.request, Begin) else job.request
        if isinstance(charge, ChargeRequest):
            CURRENT.get().charged.append(charge.request_id)
        self._pending[job] = None
        self._wake.set()
        if self._idle.is_set():
            self._idle = trio.Event()

    async def _work(self, working: trio.CancelScope) -> None:
        with working:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                while self._pending:
                    await self._commit()
                self._idle.set()

    async def _commit(self) -> None:
        self._batch = list(islice(self._pending, self._rng.choice((1, 3, 512))))
        for job in self._batch:
            del self._pending[job]
        self._began_at = trio.current_time()
        await trio.sleep(self._before_s())
        if self.commits_left is not None:
            self.commits_left -= 1
            if not self.commits_left:
                self.die()
                return
        callbacks = self._run(self._batch)
        self._is_durable = True
        await trio.sleep(self._rng.uniform(0.0, 0.003) if self._rng.random() < 0.9 else self._rng.uniform(0.0, 0.4))
        if callbacks is None or self.had_trouble(trio.current_time()):
            self._trouble_at = trio.current_time()
        self._began_at = float("inf")
        self._tell(callbacks)

    def _before_s(self) -> float:
        now, kind = trio.current_time(), self._kind()
        if self._stands_still:
            self._stands_still = False
            return self._rng.uniform(*STANDSTILL_S)
        if kind == "stuck":
            return self._weather.ends_at(now) - now
        return self._rng.uniform(0.1, 3.0) if kind == "slow" else self._rng.uniform(0.0, 0.004)

    def _run(self, batch: Sequence[Job]) -> list[Callback] | None:
        fails = self._kind() == "failing" and self._rng.random() < 0.7
        self._database.failing = StoreUnavailable("the disk reports an I/O error") if fails else None
        callbacks = self._database.run_batch(batch)
        if callbacks is not None:
            self._commits += 1
            took_claims = any(isinstance(job.request, Begin) and job.error is None for job in batch)
            self._stands_still = self.may_stand_still and took_claims and self._rng.random() < STANDS_STILL
            self._shadow.look()
        return callbacks

    def _tell(self, callbacks: list[Callback] | None) -> None:
        batch, self._batch, self._is_durable = self._batch, [], False
        self._calls += len(batch)
        self._failed += callbacks is None
        for callback in callbacks or ():
            callback()
        self._shadow.tell()
        for job in batch:
            if job.task is None and job.error is not None and job.on_failure is not None:
                job.on_failure()
            _wake_up(job)

    def _kind(self) -> str:
        return self._weather.at(trio.current_time())


def _wake_up(job: Job) -> None:
    if job.task is not None:
        trio.lowlevel.reschedule(job.task)
        job.task = None
