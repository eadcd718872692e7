"""The job workers of a node: they find open jobs, lease them and run them (decisions 17)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from scheduler.clock.catch_up import Ready
from scheduler.clock.instants import instant_of
from scheduler.jobs import job_rows
from scheduler.jobs.job_runs import JobRuns
from scheduler.jobs.records import JobRecord
from scheduler.leased_workers import LeasedKind, LeasedWorkers, WorkLease
from scheduler.log import OperatorLog
from scheduler.pressure import NO_PRESSURE, Pressure
from storage.errors import StorageError
from storage.store import Store, Tx
from storage.supervision import Keep

CHECK_S: Final = 1.0
RENEW_S: Final = 2.0
READY_MAX: Final = 1_000
"""The maximum number of candidates read before choosing the next jobs."""
IN_FLIGHT_MAX: Final = 200
EACH_MAX: Final = 20
"""The maximum number of one account's jobs in progress on a node. Their steps share the account's turns."""


@dataclass(frozen=True, slots=True)
class WorkerSetting:
    """The dependencies of the workers. `is_alone` means that no other process runs the jobs of this store.

    `stopping` returns True once no more jobs may start.
    """

    store: Store
    runs: JobRuns
    node: str
    log: OperatorLog
    keep: Keep
    now: Callable[[], float]
    is_alone: bool
    stopping: Callable[[], bool]
    pressure: Pressure = NO_PRESSURE


class Workers:
    """Runs jobs in `nursery`, which owns every attempt of this node."""

    def __init__(self, setting: WorkerSetting, nursery: trio.Nursery) -> None:
        self._store = setting.store
        self._kinds = setting.runs.kinds
        self._node = setting.node
        self._log = setting.log
        self._now = setting.now
        self._is_alone = setting.is_alone
        self._leases_at = instant_of(setting.now, is_alone=setting.is_alone)
        self._stopping = setting.stopping
        self._refusal = setting.pressure.refusal
        self._woken = trio.Event()
        kind = LeasedKind(
            name="job",
            lease_of=_lease_of,
            run=setting.runs.run,
            fail=setting.runs.fail,
            renew=self._renew,
            renew_every_s=RENEW_S,
            is_private=setting.runs.is_private,
            ended=self.wake,
        )
        self._leased = LeasedWorkers(kind, nursery, setting.log)
        self.keep_renewing = self._leased.keep_renewing

    def wake(self) -> None:
        """Check for open jobs now."""
        self._woken.set()

    def in_flight(self) -> int:
        """Return the number of jobs in progress."""
        return len(self._leased)

    async def keep_working(self) -> None:
        """Lease and start open jobs until the node stops."""
        while not self._stopping():
            self._woken = trio.Event()
            if self._refusal() is None:
                await self._begin()
            with trio.move_on_after(CHECK_S):
                await self._woken.wait()

    async def adopt(self) -> None:
        """Take over all jobs of an earlier process. Only for a store that one process owns."""
        if self._is_alone:
            await self._store.write(lambda tx: job_rows.orphan_jobs(tx, self._leases_at(tx)))

    async def _begin(self) -> None:
        try:
            ready = await self._store.read(self._find_ready)
            if chosen := self._leased.choose(ready, at_once=IN_FLIGHT_MAX, each_max=EACH_MAX):
                self._leased.start(await self._store.write(partial(self._lease, ready=chosen)))
        except StorageError as exc:
            self._log.event("warning", "jobs_wait", error=str(exc))

    def _find_ready(self, tx: Tx) -> list[Ready]:
        return job_rows.ready_jobs(tx, self._node, kinds=self._kinds, leases_at=self._leases_at(tx), limit=READY_MAX)

    def _lease(self, tx: Tx, ready: list[Ready]) -> list[JobRecord]:
        return job_rows.lease_jobs(tx, ready, self._node, now=self._now(), leases_at=self._leases_at(tx))

    async def _renew(self, job_ids: list[str]) -> None:
        renew = partial(job_rows.renew_leases, job_ids=job_ids, node=self._node)
        await self._store.write(lambda tx: renew(tx, leases_at=self._leases_at(tx)))


def _lease_of(job: JobRecord) -> WorkLease:
    return WorkLease(job.id, job.account_id, job.attempt)


@asynccontextmanager
async def open_workers(setting: WorkerSetting, *, works: bool = True) -> AsyncIterator[Workers]:
    """Run workers while the block runs. Jobs still in progress when the block ends are left to the next node.

    Raises:
        StorageError: the store is unavailable.
    """
    async with trio.open_nursery() as nursery:
        workers = Workers(setting, nursery)
        if works:
            await workers.adopt()
            nursery.start_soon(setting.keep, "job_leases", workers.keep_renewing)
            nursery.start_soon(setting.keep, "jobs", workers.keep_working)
        yield workers
        nursery.cancel_scope.cancel()
