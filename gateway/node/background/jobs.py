"""The jobs of a node while it runs: their kinds, the workers that run them, and the service of their owners."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.config.settings import Config
from gateway.node.stores import Stores
from gateway.runtime import Runtime
from scheduler.jobs.crawl.pages import PageSteps
from scheduler.jobs.crawl.spec import BATCH, CRAWL
from scheduler.jobs.job_runs import JobRuns
from scheduler.jobs.service import JobService
from scheduler.jobs.turns import Turns
from scheduler.jobs.workers import Workers, WorkerSetting, open_workers
from scheduler.recipes import Recipes
from storage.opening import is_shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The services behind the routes of jobs."""

    recipes: Recipes
    service: JobService
    workers: Workers
    turns: Turns


@asynccontextmanager
async def open_jobs(
    config: Config, stores: Stores, recipes: Recipes, *, runtime: Runtime, works: bool
) -> AsyncIterator[Jobs]:
    """Jobs that run as they are ready; without `works` they wait for a node.

    Raises:
        StorageError: the store is away.
    """
    pages, turns = PageSteps(recipes), Turns()
    runs = JobRuns(stores.store, stores.charges, {CRAWL: pages, BATCH: pages}, turns, now=runtime.now)
    setting = WorkerSetting(
        store=stores.store,
        runs=runs,
        node=stores.charges.node,
        log=runtime.log,
        now=runtime.now,
        is_alone=not is_shared(config.store.url),
        stopping=runtime.stopping.is_set,
    )
    async with open_workers(setting, works=works) as workers:
        service = JobService(
            stores.store,
            stores.charges,
            now=runtime.now,
            make_id=runtime.make_id,
            wake=workers.wake,
            kinds=(CRAWL, BATCH),
        )
        yield Jobs(recipes=recipes, service=service, workers=workers, turns=turns)
