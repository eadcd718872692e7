"""The composition root: builds a node's every object, passes it down, and holds no rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import trio
from prometheus_client import CollectorRegistry, generate_latest

from billing.prices import credits_for
from events.waking.notifier import Hub
from gateway.admin.app import Admin, OwnOperations, Readiness, doorkeeper_of
from gateway.admin.circuits import Circuits
from gateway.admin.operations import Nothing, Operation, Operations
from gateway.api.admission import Admission
from gateway.api.app import Api, Parts
from gateway.api.overload import Overload
from gateway.api.responses import Replies
from gateway.api.routes.consumers import ConsumerRoutes
from gateway.api.routes.credits import Credits
from gateway.api.routes.data import DataEndpoint
from gateway.api.routes.deliveries import DeliveryRoutes
from gateway.api.routes.discovery import Discovery
from gateway.api.routes.events import Events
from gateway.api.routes.monitor_past import MonitorPastRoutes
from gateway.api.routes.monitors import MonitorRoutes
from gateway.api.routes.status import Status
from gateway.calls.execute import BilledCalls
from gateway.calls.idempotency import Claims
from gateway.config.ids import id_maker
from gateway.docs.guide import Guides
from gateway.feed.service import Feed, FeedSetting, open_feed
from gateway.http.edge_answers import edge_answer_of
from gateway.http.routing import Route, Routes
from gateway.node.gauges import gather, load_of
from gateway.node.maintenance import (
    finish_charges,
    forget_old_claims,
    seal_webhook_urls,
    sweep_events,
    sweep_monitors,
    trim_shares,
)
from gateway.node.membership import Membership, open_presence
from gateway.node.monitors import Monitors, open_monitors
from gateway.node.node import Node, NodeSetting
from gateway.node.readiness import unready
from gateway.node.reload import Reload, reloadable
from gateway.node.sites import ROUND_TRIP_S, open_sharing, open_sites
from gateway.node.state import open_gate
from gateway.node.stores import Stores, open_books
from gateway.observability.logs import Log
from gateway.observability.metrics import Metrics
from gateway.server.unsent import Unsent
from limits.gate import Gate
from scheduler.clock.instants import instant_of
from scheduler.retention import Retention
from storage.opening import is_shared
from storage.state import State
from storage.store import Store
from storage.sweep_clock import SweepClock
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import SharedCache
from upstreams.catalog import Catalog
from upstreams.fetching.site import Site
from upstreams.model.cursors import CursorSigner


@asynccontextmanager
async def open_node(setting: NodeSetting) -> AsyncIterator[Node]:
    """Everything behind the two addresses, from the store up.

    Charges that a crash left open are refunded first, or on a shared store by whichever node finds this one dead.

    Raises:
        StoreUnusable: the store cannot be opened; the text says what to do.
    """
    config, now, rng = setting.config, setting.now, setting.rng
    make_id, draining = id_maker(now, rng), trio.Event()
    cache = Cache(config.cache.max_bytes, trio.lowlevel.current_clock().current_time)
    async with (
        setting.open_state(config.state.url) as state,
        open_gate(state, config.limits) as gate,
        open_books(
            config,
            setting.secrets,
            now=now,
            make_id=make_id,
            open_store=setting.open_store,
            shared=None if state is None else gate,
            base_url=setting.base_url,
            tell=(hub := Hub(state)).tell,
        ) as books,
        open_presence(
            books,
            is_shared=is_shared(config.store.url),
            shares_state=state is not None,
            make_id=make_id,
            now=now,
            log=setting.log,
            pace=setting.pace,
        ) as presence,
        open_sites(
            config, setting.platforms, environ=setting.environ, rng=rng, open_exchange=setting.open_exchange
        ) as sites,
        setting.open_state(config.state.url, round_trip_s=ROUND_TRIP_S) as sharing,
        open_sharing(sharing, cache, sites) as shared,
        open_feed(_feed_setting(setting, books.store, hub, gate), draining) as feed,
        _monitors(setting, books, catalog := Catalog(sites), draining=draining, make_id=make_id) as monitors,
        trio.open_nursery() as nursery,
    ):
        opened = _Opened(state, gate, books, presence, sites, catalog, cache, shared, feed, monitors, draining, make_id)
        node = _build(setting, opened)
        _start_upkeep(nursery, setting, opened, node.calls.claims)
        yield node
        nursery.cancel_scope.cancel()


def _start_upkeep(nursery: trio.Nursery, setting: NodeSetting, opened: _Opened, claims: Claims) -> None:
    """What the node does by itself, in the nursery that `open_node` ends."""
    books, presence, config, log = opened.books, opened.presence, setting.config, setting.log
    instant = instant_of(setting.now, is_alone=not is_shared(config.store.url))
    sweep_at = SweepClock(books.store, instant, event=log.event).look
    sweep = partial(sweep_events, sweep_at=sweep_at, rng=setting.rng)
    if opened.state is not None:
        opened.state.on_connect(books.doubt)
    if is_shared(config.store.url):
        nursery.start_soon(presence.keep_beating)
        nursery.start_soon(presence.keep_recovering)
    nursery.start_soon(finish_charges, books, log)
    nursery.start_soon(forget_old_claims, books.store, log, sweep_at)
    nursery.start_soon(trim_shares, books.store, claims.shares, log)
    nursery.start_soon(sweep, books.store, config.events.retention_days, log)
    if setting.keeps_time:
        retention = Retention(config.monitors.runs_retention_days, config.monitors.results_retention_days)
        nursery.start_soon(partial(sweep_monitors, sweep_at=sweep_at, rng=setting.rng), books.store, retention, log)
        nursery.start_soon(opened.monitors.backlog.keep_looking)
        nursery.start_soon(seal_webhook_urls, books, log)


def _feed_setting(setting: NodeSetting, store: Store, hub: Hub, gate: Gate) -> FeedSetting:
    config = setting.config
    return FeedSetting(
        store,
        hub,
        gate,
        is_alone=not is_shared(config.store.url),
        long_polls=config.limits.long_polls,
        now=setting.now,
        rng=setting.rng,
    )


def _monitors(
    setting: NodeSetting, books: Stores, catalog: Catalog, *, draining: trio.Event, make_id: Callable[[str], str]
) -> AbstractAsyncContextManager[Monitors]:
    return open_monitors(
        setting.config,
        books,
        catalog,
        now=setting.now,
        make_id=make_id,
        log=setting.log,
        rng=setting.rng,
        stopping=draining.is_set,
        ticks=setting.keeps_time,
        resolve=setting.resolve,
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """All that a node has opened, from the bottom up."""

    state: State | None
    gate: Gate
    books: Stores
    presence: Membership
    sites: list[Site]
    catalog: Catalog
    cache: Cache
    shared: SharedCache | None
    feed: Feed
    monitors: Monitors
    draining: trio.Event
    make_id: Callable[[str], str]


def _build(setting: NodeSetting, opened: _Opened) -> Node:
    config, log, books, gate = setting.config, setting.log, opened.books, opened.gate
    signer = CursorSigner(setting.secrets.cursors)
    clock = trio.lowlevel.current_clock().current_time  # found once: `trio.current_time` costs three times as much
    admission = Admission(books.keys, gate, books.balances, key_prefix=config.keys.prefix)
    calls = _calls(setting, opened, signer, clock=clock)
    unsent = Unsent(owner_header=b"x-api-key")
    load = load_of(books, gate, opened.feed.hub, calls, sites=opened.sites, unsent=unsent, clock=clock)
    overload = Overload(load, make_id=opened.make_id, base_url=setting.base_url, log=log, rng=setting.rng)
    opened.monitors.clock.is_yielding = overload.is_active
    metrics = _metrics(opened, admission, calls, overload=overload, unsent=unsent, log=log)
    replies = Replies(books.balances, setting.base_url)
    status = Status(opened.catalog, now=setting.now)
    routes = _routes(setting, opened, calls=calls, admission=admission, signer=signer, replies=replies, status=status)
    reload = Reload(
        config,
        setting.read_config,
        reloadable(gate=gate, cache=opened.cache, calls=calls, sites=opened.sites, log=log, polls=opened.feed.polls),
    )
    operations = books.operations
    operations.add("reload", Operation(Nothing, reload.operation))
    Circuits(opened.catalog).add_to(operations)
    opened.monitors.add_to(operations)
    return Node(
        api=Api(Parts(admission, routes, status, replies, metrics, log, opened.make_id, clock)),
        admin=_admin(setting, operations, metrics, readiness=partial(unready, books, opened.state, opened.draining)),
        books=books,
        catalog=opened.catalog,
        admission=admission,
        calls=calls,
        operations=operations,
        reload=reload,
        feed=opened.feed,
        edge_answer=edge_answer_of(opened.make_id, setting.base_url),
        draining=opened.draining,
        monitors=opened.monitors,
        unsent=unsent,
        overload=overload,
    )


def _metrics(
    opened: _Opened, admission: Admission, calls: BilledCalls, *, overload: Overload, unsent: Unsent, log: Log
) -> Metrics:
    metrics = Metrics()
    metrics.gather = lambda: gather(
        opened.catalog,
        admission=admission,
        calls=calls,
        books=opened.books,
        state=opened.state,
        presence=opened.presence,
        feed=opened.feed,
        monitors=opened.monitors,
        overload=overload,
        unsent=unsent,
        log=log.statistics(),
    )
    return metrics


def _routes(
    setting: NodeSetting,
    opened: _Opened,
    *,
    calls: BilledCalls,
    admission: Admission,
    signer: CursorSigner,
    replies: Replies,
    status: Status,
) -> Routes:
    catalog, feed, monitors = opened.catalog, opened.feed, opened.monitors
    guides = Guides(catalog, base_url=setting.base_url, signer=signer)
    return Routes(
        (
            *_data_routes(catalog, calls, replies),
            *Discovery(catalog, guides=guides, replies=replies).routes,
            *Credits(opened.books.ledger, signer=signer, replies=replies).routes,
            *Events(feed.readers, feed.polls, admission=admission, signer=signer, replies=replies).routes,
            *ConsumerRoutes(feed.readers, signer=signer, replies=replies).routes,
            *MonitorRoutes(monitors.service, signer=signer, replies=replies).routes,
            *DeliveryRoutes(monitors.webhooks, signer=signer, replies=replies).routes,
            *MonitorPastRoutes(monitors.service, monitors.projections, replies=replies).routes,
            status.route,
        )
    )


def _calls(setting: NodeSetting, opened: _Opened, signer: CursorSigner, *, clock: Callable[[], float]) -> BilledCalls:
    books = opened.books
    return BilledCalls(
        books.charges,
        books.balances,
        Claims(books.store, books.charges, now=setting.now),
        cache=opened.cache,
        signer=signer,
        now=setting.now,
        timeout_s=setting.config.server.request_timeout_s,
        base_url=setting.base_url,
        stopping=opened.draining.is_set,
        clock=clock,
        shared=opened.shared,
    )


def _data_routes(catalog: Catalog, calls: BilledCalls, replies: Replies) -> list[Route]:
    return [
        DataEndpoint(listing, cost_credits=credits_for(listing.endpoint.tier), calls=calls, replies=replies).route
        for listing in catalog.all()
    ]


def _admin(setting: NodeSetting, operations: Operations, metrics: Metrics, *, readiness: Readiness) -> Admin:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)

    async def scrape() -> bytes:
        await trio.lowlevel.checkpoint()
        return generate_latest(registry)

    doorkeeper = doorkeeper_of(setting.config, setting.secrets.admin_token)
    own = OwnOperations(operations, log=setting.log)
    return Admin(doorkeeper, readiness=readiness, scrape=scrape, operate=own.operate)
