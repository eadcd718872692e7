"""The composition root: creates all objects of a node and passes them to each other. It contains no business rules.

`open_node` opens the parts on the path of a request, then the services that work on after a response, and `_node`
creates the two apps from them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from events.waking.notifier import Hub
from gateway.admin.operations import Nothing, Operation, Operations
from gateway.api.admission import KEY_HEADERS, Admission
from gateway.api.app import ApiSetting
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
from gateway.node.background.account_webhooks import open_account_webhooks
from gateway.node.background.deliveries import open_webhooks
from gateway.node.background.jobs import open_jobs
from gateway.node.background.monitors import open_monitors, recipes_of
from gateway.node.background.payments import open_payments
from gateway.node.background.sessions import open_sessions
from gateway.node.background.suppliers import SupplierRecords, SupplierStates, open_supplier_records
from gateway.node.circuits import Circuits
from gateway.node.maintenance import maintenance_loops
from gateway.node.membership import open_membership
from gateway.node.node import Node, NodeSetting
from gateway.node.parts import Background, Serving
from gateway.node.reload import Reload, reloadable_parts
from gateway.node.routes import account_routes, api_of, data_routes
from gateway.node.sites import ROUND_TRIP_S, make_rendering, open_sharing, open_sites, shared_session, spending_over
from gateway.node.state import open_gate
from gateway.node.stores import Stores, open_stores
from gateway.node.suppliers import Suppliers
from gateway.observability.metrics import Metrics
from gateway.runtime import Runtime
from gateway.server.unsent import Unsent
from limits.gate import Gate
from scheduler.clock.alarm import Alarm
from scheduler.pressure import Pressure
from storage.opening import is_shared
from storage.state import State
from storage.supervision import Keep, Supervision, Work
from upstreams.cache.response_cache import Cache
from upstreams.catalog import Catalog
from upstreams.fetching.site import Site
from upstreams.model.cursors import CursorSigner

if TYPE_CHECKING:
    from gateway.node.gauges import NodeCollector
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
    async with (
        _open_serving(setting, runtime) as serving,
        _open_background(setting, serving, runtime) as background,
        trio.open_nursery() as nursery,
    ):
        node = _node(setting, serving, background, supervision=supervision, runtime=runtime)
        if node.state is not None:
            node.state.on_connect(node.stores.doubt)
        for name, work in _loops(setting, node, serving.suppliers).items():
            nursery.start_soon(supervision.keep, name, work)
        yield node
        nursery.cancel_scope.cancel()


def _loops(setting: NodeSetting, node: Node, suppliers: SupplierRecords) -> dict[str, Work]:
    """Return the loops that the node itself runs, by name. Its parts start their own loops."""
    stores, runtime, shares = node.stores, node.runtime, node.calls.claims.shares
    loops = maintenance_loops(stores, setting.config, runtime=runtime, shares=shares, keeps_time=setting.keeps_time)
    loops |= {
        "status_hours": node.description.status.keep_checking,
        "disk": partial(stores.disk.keep_checking, runtime.log.event),
        "store_growth": partial(stores.growth.keep_measuring, runtime.log.event, node.calls_charged),
    }
    if is_shared(setting.config.store.url):
        loops["membership_beat"] = node.membership.keep_beating
        loops["membership_recovery"] = node.membership.keep_recovering
    if suppliers.suppliers.by_name:
        loops["supplier_records"] = suppliers.keep_storing
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


@asynccontextmanager
async def _open_serving(setting: NodeSetting, runtime: Runtime) -> AsyncIterator[Serving]:
    """Open the parts on the path of a request."""
    config, keep, cache = setting.config, runtime.keep, Cache(setting.config.cache.max_bytes, runtime.clock)
    async with (
        setting.open_state(config.state.url, keep=keep) as state,
        open_gate(state, config.limits, setting.spans, keep=keep) as gate,
        _open_stores(setting, gate, hub := Hub(state), runtime=runtime) as stores,
        open_membership(
            stores,
            runtime=runtime,
            is_shared=is_shared(config.store.url),
            shares_state=state is not None,
            pace=setting.pace,
        ) as membership,
        setting.open_state(config.state.url, round_trip_s=ROUND_TRIP_S, keep=keep) as link,
        open_supplier_records(
            config, setting.environ, stores.store, runtime, open_exchange=setting.open_exchange
        ) as suppliers,
        _open_sites(
            setting,
            runtime,
            rendering := _rendering(config, runtime),
            stores=stores,
            link=link,
            suppliers=suppliers.suppliers,
        ) as sites,
        open_sharing(link, cache, sites, keep=keep) as shared_cache,
        _open_feed(setting, stores, hub, gate=gate, runtime=runtime) as feed,
    ):
        signer, unsent = CursorSigner(setting.secrets.cursors), Unsent(owner_headers=KEY_HEADERS)
        calls = BilledCalls(
            stores.billing.charges,
            stores.billing.balances,
            Claims(stores.store, stores.billing.charges, now=runtime.now),
            cache=cache,
            signer=signer,
            runtime=runtime,
            timeout_s=config.server.request_timeout_s,
            base_url=setting.base_url,
            disk=stores.disk,
            shared=shared_cache,
        )
        load = load_of(stores.store, stores.billing.keys, gate, calls, hub=hub, sites=sites, unsent=unsent)
        yield Serving(
            state=state,
            gate=gate,
            stores=stores,
            membership=membership,
            suppliers=suppliers,
            sites=sites,
            rendering=rendering,
            catalog=Catalog(sites),
            cache=cache,
            feed=feed,
            signer=signer,
            admission=Admission(stores.billing.keys, gate, stores.billing.balances, key_prefix=config.keys.prefix),
            calls=calls,
            metrics=Metrics(),
            unsent=unsent,
            overload=Overload(load, runtime=runtime, base_url=setting.base_url),
        )


def _open_stores(
    setting: NodeSetting, gate: Gate, hub: Hub, *, runtime: Runtime
) -> AbstractAsyncContextManager[Stores]:
    return open_stores(
        setting.config,
        setting.secrets,
        now=runtime.now,
        make_id=runtime.make_id,
        open_store=setting.open_store,
        shared=gate if hub.is_shared else None,
        base_url=setting.base_url,
        publish=hub.publish,
        probe_disk=setting.probe_disk,
    )


def _rendering(config: Config, runtime: Runtime) -> Rendering | None:
    warn = partial(runtime.log.event, "warning", "browser_unusable", url=config.web.browser_url)
    return make_rendering(config, warn=lambda problem: warn(problem=problem))


def _open_sites(
    setting: NodeSetting,
    runtime: Runtime,
    rendering: Rendering | None,
    *,
    stores: Stores,
    link: State | None,
    suppliers: Suppliers,
) -> AbstractAsyncContextManager[list[Site]]:
    return open_sites(
        setting.config,
        setting.platforms,
        environ=setting.environ,
        rng=runtime.rng,
        open_exchange=setting.open_exchange,
        resolve=setting.resolve,
        rendering=rendering,
        share_session=partial(shared_session, link, stores.cipher),
        chain_of=suppliers.chain,
        open_spending=partial(spending_over, link, runtime.now),
        report_proxy=lambda slug, problem: runtime.log.event("warning", "proxy_failed", platform=slug, problem=problem),
        keep=runtime.keep,
    )


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


@asynccontextmanager
async def _open_background(setting: NodeSetting, serving: Serving, runtime: Runtime) -> AsyncIterator[Background]:
    """Open the services whose work goes on after the response to a request."""
    config, stores, catalog, keeps_time = setting.config, serving.stores, serving.catalog, setting.keeps_time
    recipes, alarm = recipes_of(config, catalog, runtime), Alarm()
    pressure = Pressure(
        refusal=lambda: stores.disk.refusal,
        is_yielding=serving.overload.is_active,
        answered=serving.metrics.answered_total,
    )
    async with (
        open_webhooks(config, stores, runtime=runtime, resolve=setting.resolve, sends=keeps_time) as webhooks,
        open_jobs(
            config,
            stores,
            recipes,
            webhooks,
            catalog,
            runtime=runtime,
            pressure=pressure,
            alarm=alarm,
            works=keeps_time,
        ) as jobs,
        open_monitors(
            config,
            stores,
            recipes,
            webhooks,
            runtime=runtime,
            pressure=pressure,
            alarm=alarm,
            others=(jobs.slots,),
            ticks=keeps_time,
        ) as monitors,
        open_account_webhooks(setting, stores, webhooks, hub=serving.feed.hub, runtime=runtime) as account_webhooks,
        open_sessions(config, stores, catalog.sites, serving.rendering, runtime=runtime) as sessions,
        open_payments(setting, stores, runtime) as payments,
    ):
        yield Background(
            jobs=jobs,
            monitors=monitors,
            account_webhooks=account_webhooks,
            sessions=sessions,
            payments=payments,
        )


def _node(
    setting: NodeSetting, serving: Serving, background: Background, *, supervision: Supervision, runtime: Runtime
) -> Node:
    """Return the node: its two apps over its parts."""
    stores, operations, has_dashboard = serving.stores, serving.stores.operations, setting.config.dashboard.enabled
    reload = _reload(setting, serving, runtime)
    _add_operations(operations, serving, background, reload)
    entry = _api_parts(setting, serving, background, runtime)

    def collectors() -> tuple[Metrics, NodeCollector]:
        from gateway.node.gauges import NodeCollector  # noqa: PLC0415 - imported with the first scrape

        return serving.metrics, NodeCollector(serving, background, supervision, runtime.log)

    return Node(
        runtime=runtime,
        api=api_of(entry, serving, background, operations, has_dashboard=has_dashboard),
        admin=admin_of(setting, operations, stores, serving.state, supervision, collectors=collectors, runtime=runtime),
        stores=stores,
        state=serving.state,
        membership=serving.membership,
        suppliers=serving.suppliers,
        catalog=serving.catalog,
        admission=serving.admission,
        calls=serving.calls,
        operations=operations,
        reload=reload,
        feed=serving.feed,
        edge_answer=edge_answer_of(runtime.make_id, setting.base_url),
        monitors=background.monitors,
        unsent=serving.unsent,
        overload=serving.overload,
        metrics=serving.metrics,
        description=entry.description,
        supervision=supervision,
    )


def _api_parts(setting: NodeSetting, serving: Serving, background: Background, runtime: Runtime) -> ApiSetting:
    """Return the parts of the API, with its routing table."""
    server, stores, calls, signer = setting.config.server, serving.stores, serving.calls, serving.signer
    proxies = TrustedProxies(read_networks(server.trusted_proxies))
    replies = Replies(
        stores.billing.balances, setting.base_url, None if server.base_url or not server.trusted_proxies else proxies
    )
    has_dashboard = setting.config.dashboard.enabled
    description = Description(serving.catalog, replies, signer=signer, now=runtime.now, has_dashboard=has_dashboard)
    own = account_routes(serving, background, replies=replies, stopping=runtime.stopping.is_set)
    return ApiSetting(
        admission=serving.admission,
        routes=description.table(data_routes(serving.catalog, calls, replies, stores.billing.usage), own),
        description=description,
        replies=replies,
        metrics=serving.metrics,
        usage=stores.billing.usage,
        settle=stores.billing.charges.settle_nowait,
        runtime=runtime,
        proxies=proxies,
        compression=Compression(),
        cors=Cors(server.cors_origins) if server.cors_origins else None,
    )


def _reload(setting: NodeSetting, serving: Serving, runtime: Runtime) -> Reload:
    parts = reloadable_parts(
        serving.gate,
        serving.cache,
        serving.calls,
        serving.sites,
        log=runtime.log,
        polls=serving.feed.polls,
        suppliers=serving.suppliers.suppliers,
    )
    return Reload(setting.config, setting.read_config, parts)


def _add_operations(operations: Operations, serving: Serving, background: Background, reload: Reload) -> None:
    """Register the operations that only a running node can perform."""
    operations.add("reload", Operation(Nothing, reload.operation))
    Circuits(serving.catalog, serving.metrics.waits_for).add_to(operations)
    SupplierStates(serving.suppliers.suppliers).add_to(operations)
    background.monitors.add_to(operations)
