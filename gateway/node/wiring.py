"""The composition root: creates all objects of a node and passes them to each other. It contains no business rules.

`open_node` opens the parts that must be closed again, and `_build` creates the other objects from them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import trio

from events.waking.notifier import Hub
from gateway.admin.operations import Nothing, Operation, Operations
from gateway.api.admission import KEY_HEADERS, Admission
from gateway.api.app import Parts
from gateway.api.cors import Cors
from gateway.api.overload import Overload, load_of
from gateway.api.responses import Replies
from gateway.api.routes.description import Description
from gateway.calls.execute import BilledCalls
from gateway.calls.idempotency import Claims
from gateway.config.ids import id_maker
from gateway.config.settings import Config
from gateway.feed.service import Feed, FeedSetting, open_feed
from gateway.http.compression import Compression
from gateway.http.edge_answers import edge_answer_of
from gateway.http.forwarded import TrustedProxies, read_networks
from gateway.node.admin import admin_of
from gateway.node.background.account_webhooks import AccountWebhookRuntime, open_account_webhooks
from gateway.node.background.jobs import Jobs, open_jobs
from gateway.node.background.monitors import Monitors, open_monitors
from gateway.node.background.payments import PaymentRuntime, open_payments
from gateway.node.background.sessions import open_sessions
from gateway.node.circuits import Circuits
from gateway.node.gauges import calls_charged, gather
from gateway.node.maintenance import maintenance_loops
from gateway.node.membership import Membership, open_membership
from gateway.node.node import Node, NodeSetting
from gateway.node.reload import Reload, reloadable_parts
from gateway.node.routes import RouteParts, account_routes, api_of, data_routes
from gateway.node.sites import ROUND_TRIP_S, make_rendering, open_sharing, open_sites
from gateway.node.state import open_gate
from gateway.node.stores import Stores, open_stores
from gateway.observability.metrics import Metrics
from gateway.runtime import Runtime
from gateway.server.unsent import Unsent
from limits.gate import Gate
from scheduler.sessions.service import SessionService
from storage.opening import is_shared
from storage.state import State
from storage.supervision import Keep, Supervision, Work
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import SharedCache
from upstreams.catalog import Catalog
from upstreams.fetching.site import Site
from upstreams.model.cursors import CursorSigner
from upstreams.web.browser.rendering import Rendering


@asynccontextmanager
async def open_node(setting: NodeSetting) -> AsyncIterator[Node]:
    """Open a node: the store first, then everything that uses it, up to the two apps.

    On an unshared store, charges that a crash left open are refunded first. On a shared store, the node that detects
    the crash refunds them.

    Raises:
        StoreUnusable: the store cannot be opened; the text says what to do.
    """
    supervision = setting.supervise(setting.log, setting.rng)
    runtime = _runtime(setting, supervision.keep)
    async with _open_parts(setting, runtime) as parts, trio.open_nursery() as nursery:
        node = _build(setting, parts, supervision, runtime)
        if node.state is not None:
            node.state.on_connect(node.stores.doubt)
        for name, work in _loops(setting, node).items():
            nursery.start_soon(supervision.keep, name, work)
        yield node
        nursery.cancel_scope.cancel()


def _loops(setting: NodeSetting, node: Node) -> dict[str, Work]:
    """Return the loops that the node itself runs, by name. Its parts start their own loops."""
    stores, runtime, shares = node.stores, node.runtime, node.calls.claims.shares
    loops = maintenance_loops(stores, setting.config, runtime=runtime, shares=shares, keeps_time=setting.keeps_time)
    loops |= {
        "status_hours": node.description.status.keep_checking,
        "disk": partial(stores.disk.keep_checking, runtime.log.event),
        "store_growth": partial(stores.growth.keep_measuring, runtime.log.event, partial(calls_charged, node)),
    }
    if is_shared(setting.config.store.url):
        loops["membership_beat"] = node.membership.keep_beating
        loops["membership_recovery"] = node.membership.keep_recovering
    if setting.keeps_time:
        loops["backlog"] = node.monitors.backlog.keep_checking
    return loops


def _runtime(setting: NodeSetting, keep: Keep) -> Runtime:
    return Runtime(
        clock=trio.lowlevel.current_clock().current_time,
        now=setting.now,
        make_id=id_maker(setting.now, setting.rng),
        rng=setting.rng,
        log=setting.log,
        keep=keep,
        stopping=trio.Event(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of a node that stay open as long as it runs."""

    state: State | None
    gate: Gate
    stores: Stores
    membership: Membership
    sites: list[Site]
    rendering: Rendering | None
    catalog: Catalog
    cache: Cache
    shared_cache: SharedCache | None
    feed: Feed
    monitors: Monitors
    jobs: Jobs
    sessions: SessionService
    account_webhooks: AccountWebhookRuntime
    payments: PaymentRuntime


@asynccontextmanager
async def _open_parts(setting: NodeSetting, runtime: Runtime) -> AsyncIterator[_Parts]:
    config, cache = setting.config, Cache(setting.config.cache.max_bytes, runtime.clock)
    async with (
        setting.open_state(config.state.url, keep=runtime.keep) as state,
        open_gate(state, config.limits, setting.spans, keep=runtime.keep) as gate,
        open_stores(
            config,
            setting.secrets,
            now=runtime.now,
            make_id=runtime.make_id,
            open_store=setting.open_store,
            shared=None if state is None else gate,
            base_url=setting.base_url,
            publish=(hub := Hub(state)).publish,
            probe_disk=setting.probe_disk,
        ) as stores,
        open_membership(
            stores,
            runtime=runtime,
            is_shared=is_shared(config.store.url),
            shares_state=state is not None,
            pace=setting.pace,
        ) as membership,
        _open_sites(setting, runtime, rendering := _rendering(config, runtime)) as sites,
        setting.open_state(config.state.url, round_trip_s=ROUND_TRIP_S, keep=runtime.keep) as cache_link,
        open_sharing(cache_link, cache, sites, stores.cipher, keep=runtime.keep) as shared_cache,
        _open_feed(setting, stores, hub, gate=gate, runtime=runtime) as feed,
        _open_monitors(setting, stores, catalog := Catalog(sites), runtime) as monitors,
        open_account_webhooks(setting, stores, monitors, hub=hub, runtime=runtime) as account_webhooks,
        open_jobs(config, stores, monitors, catalog, runtime=runtime, works=setting.keeps_time) as jobs,
        open_sessions(config, stores, catalog.sites, rendering, runtime=runtime) as sessions,
        open_payments(setting, stores, runtime) as payments,
    ):
        yield _Parts(
            state=state,
            gate=gate,
            stores=stores,
            membership=membership,
            sites=sites,
            rendering=rendering,
            catalog=catalog,
            cache=cache,
            shared_cache=shared_cache,
            feed=feed,
            monitors=monitors,
            jobs=jobs,
            sessions=sessions,
            account_webhooks=account_webhooks,
            payments=payments,
        )


def _rendering(config: Config, runtime: Runtime) -> Rendering | None:
    warn = partial(runtime.log.event, "warning", "browser_unusable", url=config.web.browser_url)
    return make_rendering(config, warn=lambda problem: warn(problem=problem))


def _open_sites(
    setting: NodeSetting, runtime: Runtime, rendering: Rendering | None
) -> AbstractAsyncContextManager[list[Site]]:
    return open_sites(
        setting.config,
        setting.platforms,
        environ=setting.environ,
        rng=runtime.rng,
        open_exchange=setting.open_exchange,
        resolve=setting.resolve,
        rendering=rendering,
        keep=runtime.keep,
    )


def _open_monitors(
    setting: NodeSetting, stores: Stores, catalog: Catalog, runtime: Runtime
) -> AbstractAsyncContextManager[Monitors]:
    ticks, resolve = setting.keeps_time, setting.resolve
    return open_monitors(setting.config, stores, catalog, runtime=runtime, ticks=ticks, resolve=resolve)


def _open_feed(
    setting: NodeSetting, stores: Stores, hub: Hub, *, gate: Gate, runtime: Runtime
) -> AbstractAsyncContextManager[Feed]:
    feed_setting = FeedSetting(
        stores.store,
        hub,
        gate,
        is_alone=not is_shared(setting.config.store.url),
        long_polls=setting.config.limits.long_polls,
        runtime=runtime,
    )
    return open_feed(feed_setting)


def _build(setting: NodeSetting, parts: _Parts, supervision: Supervision, runtime: Runtime) -> Node:
    stores, operations = parts.stores, parts.stores.operations
    parts.monitors.clock.refusal = parts.jobs.workers.refusal = lambda: stores.disk.refusal
    signer, metrics, unsent = CursorSigner(setting.secrets.cursors), Metrics(), Unsent(owner_headers=KEY_HEADERS)
    admission = Admission(stores.keys, parts.gate, stores.balances, key_prefix=setting.config.keys.prefix)
    calls = _calls(setting, parts, signer, runtime=runtime)
    stores.disk.on_change = calls.refuse_new
    server, routed = setting.config.server, _routed(parts, runtime)
    proxies = TrustedProxies(read_networks(server.trusted_proxies))
    named = None if server.base_url or not server.trusted_proxies else proxies
    replies = Replies(stores.balances, setting.base_url, named)
    description = Description(parts.catalog, replies, signer=signer, now=runtime.now)
    own = account_routes(calls, routed, admission=admission, signer=signer, replies=replies)
    entry = Parts(
        admission=admission,
        routes=description.table(data_routes(parts.catalog, calls, replies, stores.usage), own),
        description=description,
        replies=replies,
        metrics=metrics,
        usage=stores.usage,
        settle=stores.charges.settle_nowait,
        runtime=runtime,
        proxies=proxies,
        compression=Compression(),
        cors=Cors(server.cors_origins) if server.cors_origins else None,
    )
    _add_operations(operations, parts, reload := _reload(setting, parts, calls, runtime), metrics)
    node = Node(
        runtime=runtime,
        api=api_of(entry, routed, operations, has_dashboard=setting.config.dashboard.enabled),
        admin=admin_of(setting, operations, stores, parts.state, supervision, metrics=metrics, runtime=runtime),
        stores=stores,
        state=parts.state,
        membership=parts.membership,
        catalog=parts.catalog,
        admission=admission,
        calls=calls,
        operations=operations,
        reload=reload,
        feed=parts.feed,
        edge_answer=edge_answer_of(runtime.make_id, setting.base_url),
        monitors=parts.monitors,
        unsent=unsent,
        overload=_overload(setting, parts, calls, unsent=unsent, runtime=runtime),
        metrics=metrics,
        description=description,
        supervision=supervision,
    )
    metrics.gather = partial(gather, node, parts.sessions, parts.rendering)
    parts.jobs.turns.answered = metrics.answered_total
    return node


def _routed(parts: _Parts, runtime: Runtime) -> RouteParts:
    monitors, webhooks, sessions, payments = parts.monitors, parts.account_webhooks, parts.sessions, parts.payments
    stores, feed, jobs, catalog = parts.stores, parts.feed, parts.jobs, parts.catalog
    return RouteParts(stores, feed, monitors, jobs, sessions, webhooks, payments, catalog, runtime.stopping.is_set)


def _calls(setting: NodeSetting, parts: _Parts, signer: CursorSigner, *, runtime: Runtime) -> BilledCalls:
    stores = parts.stores
    return BilledCalls(
        stores.charges,
        stores.balances,
        Claims(stores.store, stores.charges, now=runtime.now),
        cache=parts.cache,
        signer=signer,
        runtime=runtime,
        timeout_s=setting.config.server.request_timeout_s,
        base_url=setting.base_url,
        shared=parts.shared_cache,
    )


def _reload(setting: NodeSetting, parts: _Parts, calls: BilledCalls, runtime: Runtime) -> Reload:
    reloadable = reloadable_parts(parts.gate, parts.cache, calls, parts.sites, log=runtime.log, polls=parts.feed.polls)
    return Reload(setting.config, setting.read_config, reloadable)


def _overload(setting: NodeSetting, parts: _Parts, calls: BilledCalls, *, unsent: Unsent, runtime: Runtime) -> Overload:
    stores, hub = parts.stores, parts.feed.hub
    load = load_of(stores.store, stores.keys, parts.gate, calls, hub=hub, sites=parts.sites, unsent=unsent)
    overload = Overload(load, runtime=runtime, base_url=setting.base_url)
    parts.monitors.clock.is_yielding = parts.jobs.turns.is_yielding = overload.is_active
    return overload


def _add_operations(operations: Operations, parts: _Parts, reload: Reload, metrics: Metrics) -> None:
    """Register the operator operations that need a running node."""
    operations.add("reload", Operation(Nothing, reload.operation))
    Circuits(parts.catalog, metrics.waits_for).add_to(operations)
    parts.monitors.add_to(operations)
