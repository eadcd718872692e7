"""The job workers, and accounts that own jobs of any kind, on a desk's store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.jobs.job_runs import JobRuns
from scheduler.jobs.service import JobOwner
from scheduler.jobs.workers import Workers, WorkerSetting, open_workers
from storage.supervision import unsupervised
from tests.scheduler.desk import Desk


class WorkingDesk:
    """Runs jobs while it is open. The desk of a job kind sets `runs`."""

    runs: JobRuns

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.workers: Workers | None = None
        self.stopping = False

    def wake(self) -> None:
        if self.workers is not None:
            self.workers.wake()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Workers]:
        setting = WorkerSetting(
            store=self.desk.store,
            runs=self.runs,
            node=self.desk.node,
            log=self.desk.log,
            keep=unsupervised,
            now=self.desk.now,
            is_alone=self.desk.is_alone,
            stopping=lambda: self.stopping,
        )
        async with open_workers(setting) as workers:
            self.workers = workers
            yield workers
            self.workers = None

    async def owner(self, credits: int = 10_000) -> JobOwner:  # noqa: A002 - the specification's name
        account = await self.desk.account(credits)
        key = await self.desk.keys.create(account)
        return JobOwner(account, key.id, self.desk.make_id("req_"))
