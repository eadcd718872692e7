"""Opens jobs on a running node: the kinds of jobs, the workers that run them, and the service for their owners."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial

from gateway.calls.recipes import CatalogRecipes
from gateway.config.settings import Config
from gateway.node.background.deliveries import WebhookRuntime
from gateway.node.stores import Stores
from gateway.runtime import Runtime
from scheduler.clock.alarm import Alarm
from scheduler.jobs.cohorts import query_rows
from scheduler.jobs.cohorts.platforms import post_routes
from scheduler.jobs.cohorts.queries import CohortQueries
from scheduler.jobs.cohorts.service import CohortService
from scheduler.jobs.cohorts.setting import CohortSetting, PageRecipes
from scheduler.jobs.cohorts.shards import CohortShards
from scheduler.jobs.crawl.pages import PageSteps
from scheduler.jobs.crawl.spec import KINDS, PLATFORM
from scheduler.jobs.crawl.webhooks import JobWebhooks, check_job
from scheduler.jobs.discover.schedules.service import ScheduleService
from scheduler.jobs.discover.schedules.slots import ScheduleSlots
from scheduler.jobs.discover.searches import searches_of
from scheduler.jobs.discover.service import DiscoverService
from scheduler.jobs.discover.spec import KIND as DISCOVER
from scheduler.jobs.discover.steps import DiscoverSteps
from scheduler.jobs.job_runs import JobRuns
from scheduler.jobs.records import JobKind
from scheduler.jobs.service import JobService
from scheduler.jobs.turns import Turns
from scheduler.jobs.workers import Workers, WorkerSetting, open_workers
from scheduler.monitors.webhooks import WebhookOwner, Webhooks
from scheduler.pressure import Pressure
from scheduler.recipes import Recipes
from storage.opening import is_shared
from upstreams.catalog import Catalog
from upstreams.workers.pool import ProcessPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The services that the job routes use."""

    recipes: Recipes
    service: JobService
    """The service for jobs on web pages."""
    hooks: JobWebhooks
    webhooks: Webhooks
    cohorts: CohortService
    cohort_queries: CohortQueries
    discover: DiscoverService
    schedules: ScheduleService
    slots: ScheduleSlots
    workers: Workers


@asynccontextmanager
async def open_jobs(
    config: Config,
    stores: Stores,
    recipes: CatalogRecipes,
    webhooks: WebhookRuntime,
    catalog: Catalog,
    *,
    runtime: Runtime,
    pressure: Pressure,
    alarm: Alarm,
    works: bool,
) -> AsyncIterator[Jobs]:
    """Open the job services and run ready jobs. Without `works`, jobs are left to other nodes.

    The jobs use the recipes of monitors. The clock of monitors, which `alarm` wakes, also opens the slots of schedules.

    Raises:
        StorageError: the store is unavailable.
    """
    insecure, base_url = config.webhooks.allow_insecure_targets, stores.people.base_url
    hooks = JobWebhooks(stores.cipher, webhooks.outbox, webhooks.resolve, base_url, allow_insecure=insecure)
    web = catalog.sites.get(PLATFORM)
    pages = PageSteps(recipes, ProcessPool() if web is None else web.workers, hooks.ended)
    steps = DiscoverSteps(stores.store, recipes, stores.feed)
    cohort_setting = _cohort_setting(stores, recipes, catalog, runtime)
    kinds: dict[str, JobKind] = {
        **dict.fromkeys(KINDS, pages),
        DISCOVER: steps,
        query_rows.KIND: CohortShards(cohort_setting),
    }
    runs = JobRuns(stores.store, stores.billing.charges, kinds, Turns(pressure), now=runtime.now)
    async with open_workers(_worker_setting(config, stores, runs, pressure, runtime=runtime), works=works) as workers:
        now, make_id, charges = runtime.now, runtime.make_id, stores.billing.charges
        make = partial(JobService, stores.store, charges, now=now, make_id=make_id, wake=workers.wake)
        cohorts = CohortService(cohort_setting)
        runs_of, searches = make(kinds=(DISCOVER,)), cache(partial(searches_of, catalog.all(), recipes))
        slots = ScheduleSlots(runs_of, stores.feed, searches, now=now, make_id=make_id, wake=workers.wake)
        yield Jobs(
            recipes=recipes,
            service=make(kinds=KINDS, ended=hooks.ended),
            hooks=hooks,
            webhooks=_webhooks(stores, webhooks, runtime),
            discover=DiscoverService(
                stores.store, stores.billing.charges, runs_of, steps, searches, now=now, wake=workers.wake
            ),
            schedules=ScheduleService(stores.store, searches, now=now, make_id=make_id, wake=alarm.ring),
            cohorts=cohorts,
            cohort_queries=CohortQueries(cohort_setting, cohorts, make(kinds=query_rows.KINDS)),
            slots=slots,
            workers=workers,
        )


def _worker_setting(
    config: Config, stores: Stores, runs: JobRuns, pressure: Pressure, *, runtime: Runtime
) -> WorkerSetting:
    return WorkerSetting(
        store=stores.store,
        runs=runs,
        node=stores.billing.charges.node,
        log=runtime.log,
        keep=runtime.keep,
        now=runtime.now,
        is_alone=not is_shared(config.store.url),
        stopping=runtime.stopping.is_set,
        pressure=pressure,
    )


def _webhooks(stores: Stores, sending: WebhookRuntime, runtime: Runtime) -> Webhooks:
    """Return the webhook deliveries of jobs, which use the common queue of deliveries."""
    owner = WebhookOwner(check_job, "job")
    return Webhooks(
        stores.store, stores.cipher, now=runtime.now, instant=sending.instant, wake=sending.wake, owner=owner
    )


def _cohort_setting(stores: Stores, recipes: PageRecipes, catalog: Catalog, runtime: Runtime) -> CohortSetting:
    return CohortSetting(
        store=stores.store,
        charges=stores.billing.charges,
        cipher=stores.cipher,
        recipes=recipes,
        routes=post_routes(catalog),
        now=runtime.now,
        make_id=runtime.make_id,
        reads=stores.reads,
    )
