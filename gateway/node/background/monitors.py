"""Opens monitors on a running node: their recipes, their scheduler, and the operator's operations on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import floor
from typing import Any

import msgspec
import trio

from events.instants import iso, no_instant, unix
from gateway.admin.operations import Operation, OperationRefused, Operations, Text
from gateway.api.monitor_records import run_record
from gateway.calls.recipes import CatalogRecipes
from gateway.config.settings import Config
from gateway.node.background.deliveries import WebhookRuntime
from gateway.node.stores import Stores
from gateway.runtime import Runtime
from scheduler.backlog import Watch
from scheduler.clock.alarm import Alarm
from scheduler.clock.instants import SlotSource
from scheduler.errors import MonitorUnknown
from scheduler.monitors.changes import MonitorSetting as ServiceSetting
from scheduler.monitors.history.projections import Projections
from scheduler.monitors.model.records import Run
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.clockwork import Clock, ClockSetting, open_clock
from scheduler.monitors.runs.payload import make_payload
from scheduler.monitors.runs.runs import Runs
from scheduler.monitors.runs.slots import Slots
from scheduler.monitors.service import MonitorService
from scheduler.monitors.webhooks import Webhooks
from scheduler.pressure import Pressure
from scheduler.webhooks.deliveries.service import Deliveries
from storage.opening import is_shared
from storage.store import Store, Tx
from upstreams.catalog import Catalog
from upstreams.guard.resolver import Resolve

RUN_WITHIN_S = 20.0
"""Seconds after which a requested run gets a response, finished or not. Less than a supervisor waits for a worker."""
_CHECK_S = 0.05


class MonitorRunArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `monitor.run`. `slot` is an ISO 8601 time to the second (default: the current slot)."""

    monitor: Text
    slot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitors:
    """The services that the monitor routes use, and the objects that run and deliver in the background."""

    store: Store
    recipes: CatalogRecipes
    slots: Slots
    clock: Clock
    runs: Runs
    deliveries: Deliveries | None
    """The service that sends deliveries; None if this process only queues them."""
    backlog: Watch
    service: MonitorService
    projections: Projections
    webhooks: Webhooks

    def add_to(self, operations: Operations) -> None:
        """Register the operator's operations."""
        operations.add("monitor.run", Operation(MonitorRunArguments, self._run))

    async def _run(self, args: MonitorRunArguments) -> Any:
        try:
            run, begun_now = await self.clock.run_slot(args.monitor, None if args.slot is None else _slot(args.slot))
        except MonitorUnknown as exc:
            raise OperationRefused(str(exc)) from exc
        read = partial(_read, run=run)
        found = await self.store.read(read)
        with trio.move_on_after(RUN_WITHIN_S):
            while found[0].finished_at is None:
                await trio.sleep(_CHECK_S)
                found = await self.store.read(read)
        return {**run_record(*found), "begun_now": begun_now}


@asynccontextmanager
async def open_monitors(
    config: Config,
    stores: Stores,
    recipes: CatalogRecipes,
    webhooks: WebhookRuntime,
    *,
    runtime: Runtime,
    pressure: Pressure,
    alarm: Alarm,
    others: Sequence[SlotSource],
    ticks: bool,
) -> AsyncIterator[Monitors]:
    """Open monitors, and run them and the slots of `others` on schedule. Their deliveries use `webhooks`.

    Without `ticks`, only an operator starts runs.

    Raises:
        StorageError: the store is unavailable.
    """
    now, instant = runtime.now, webhooks.instant
    slots = Slots(stores.feed, now=now, make_id=runtime.make_id)
    runs = Runs((stores.store, stores.billing.charges, stores.feed), recipes, make_payload, webhooks.outbox, now=now)
    setting = ClockSetting(
        store=stores.store,
        slots=slots,
        runs=runs,
        node=stores.billing.charges.node,
        log=runtime.log,
        keep=runtime.keep,
        now=now,
        is_alone=not is_shared(config.store.url),
        stopping=runtime.stopping.is_set,
        ticks=ticks,
        pressure=pressure,
        alarm=alarm,
        others=others,
    )
    async with open_clock(setting) as clock:
        yield Monitors(
            store=stores.store,
            recipes=recipes,
            slots=slots,
            clock=clock,
            runs=runs,
            deliveries=webhooks.deliveries,
            backlog=Watch(stores.store, now=now, instant=instant),
            service=_service(config, stores, recipes, slots, runtime=runtime, alarm=alarm, resolve=webhooks.resolve),
            projections=Projections(stores.store, stores.reads),
            webhooks=Webhooks(stores.store, stores.cipher, now=now, instant=instant, wake=webhooks.wake),
        )


def recipes_of(config: Config, catalog: Catalog, runtime: Runtime) -> CatalogRecipes:
    """Return recipes that use at most half of each platform's connections."""
    platforms = config.upstreams.platforms
    return CatalogRecipes(
        catalog,
        {slug: max(1, platforms[slug].max_connections // 2) for slug in catalog.sites},
        now=runtime.now,
        clock=runtime.clock,
        stopping=runtime.stopping.is_set,
    )


def _service(
    config: Config,
    stores: Stores,
    recipes: CatalogRecipes,
    slots: Slots,
    *,
    runtime: Runtime,
    alarm: Alarm,
    resolve: Resolve,
) -> MonitorService:
    """Return the owners' service for their monitors. `alarm` rings when a run may be needed earlier than planned."""
    return MonitorService(
        ServiceSetting(
            stores.store,
            recipes,
            stores.cipher,
            slots,
            resolve,
            now=runtime.now,
            make_id=runtime.make_id,
            wake=alarm.ring,
            allow_insecure=config.webhooks.allow_insecure_targets,
        )
    )


def _slot(text: str) -> float:
    """Parse a slot that an operator sent.

    Slots outside the years 1 to 9999 are refused, because records cannot represent them.
    """
    try:
        slot = float(floor(unix(text)))
        iso(slot)
    except (ValueError, OverflowError) as exc:
        raise OperationRefused(no_instant(text)) from exc
    return slot


def _read(tx: Tx, run: Run) -> tuple[Run, run_rows.Delivered | None]:
    """Return the current run and its delivery. If the run's monitor was deleted, return the last known run."""
    return run_rows.read_run(tx, run.id) or run, run_rows.delivery_of(tx, run.id)
