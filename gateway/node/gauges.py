"""Prometheus metrics of a node's parts. The values are read at each scrape, so they add no work to requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.api.admission import Admission
from gateway.api.overload import Overload
from gateway.calls.execute import BilledCalls
from gateway.feed.service import Feed
from gateway.node.background.monitors import Monitors
from gateway.node.membership import Membership
from gateway.node.parts import Background, Serving
from gateway.node.stores import Stores
from gateway.node.suppliers import Suppliers
from gateway.observability.log_writer import LogStatistics
from gateway.observability.logs import Log
from gateway.server.unsent import Unsent
from limits.breaker import BreakerStatistics
from storage.state import State
from storage.supervision import Supervision
from upstreams.cache.shared_cache import SharedCacheStatistics
from upstreams.catalog import Catalog
from upstreams.fetching.source import SourceStatistics
from upstreams.model.errors import PartnerReason

if TYPE_CHECKING:
    from upstreams.web.browser.rendering import Rendering

_CIRCUIT = {"closed": 0, "half_open": 1, "open": 2}


@dataclass(frozen=True, slots=True, eq=False)
class NodeCollector(Collector):
    """Collects the metrics of every part of a node except its requests."""

    serving: Serving
    background: Background
    supervision: Supervision
    log: Log

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all parts for one scrape."""
        serving, background = self.serving, self.background
        yield from _limits(serving.admission)
        yield from _overload(serving.overload)
        counts = serving.calls.claims.counts
        yield _labeled_counter("sluice_idempotency", "Requests with an idempotency key, by outcome.", "result", counts)
        yield from _cache(serving.calls)
        yield from _store(serving.stores)
        yield from _size(serving.stores)
        help_text = "Payment events by outcome; mismatch: not credited, because the amount differs from the pack's."
        yield _labeled_counter("sluice_payment_events", help_text, "outcome", serving.stores.billing.payments.counts)
        yield from _membership(serving.membership)
        yield from _feed(serving.feed)
        yield from _monitors(background.monitors)
        held = "Web sessions whose pages this node keeps open."
        yield GaugeMetricFamily("sluice_web_sessions_open", held, background.sessions.held())
        failed = "Failures of the node's background loops, by loop. A failed loop is restarted."
        yield _labeled_counter("sluice_loop_failures", failed, "loop", self.supervision.failures())
        yield from _log(self.log.statistics())
        yield from _unsent(serving.unsent)
        if serving.state is not None:
            yield from _state(serving.state)
        yield from _turns(serving.catalog, serving.rendering)
        yield from _sources(serving.catalog)
        yield from _suppliers(serving.suppliers.suppliers)


def _labeled_counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    """Return a counter with one label."""
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _limits(admission: Admission) -> Iterator[Metric]:
    yield _labeled_counter(
        "sluice_admissions", "Requests with a valid key, by the decision of the limits.", "result", admission.counts
    )
    now = admission.gate.statistics()
    if now.window_keys is not None:
        yield GaugeMetricFamily("sluice_window_keys", "Keys with requests in their window.", now.window_keys)
    yield GaugeMetricFamily("sluice_lease_keys", "Keys with running requests.", now.lease_keys)
    yield GaugeMetricFamily("sluice_leases", "Running requests.", now.leases)


def _overload(overload: Overload) -> Iterator[Metric]:
    now = overload.statistics()
    shed = "Requests rejected because the node was overloaded, by client."
    yield _labeled_counter("sluice_shed", shed, "key", now.refused)
    yield GaugeMetricFamily("sluice_shedding", "1 while the node may reject requests, else 0.", int(now.active))
    limit = "Concurrent requests allowed while the node may reject requests; 0 otherwise."
    yield GaugeMetricFamily("sluice_shed_limit", limit, now.limit)
    late = "Lag of the event loop: the worst of the last seconds, decaying."
    yield GaugeMetricFamily("sluice_loop_lag_seconds", late, overload.lag_s)


def _cache(calls: BilledCalls) -> Iterator[Metric]:
    now = calls.cache.statistics()
    followed = "Cache misses served by an identical call in progress."
    yield CounterMetricFamily("sluice_cache_coalesced", followed, calls.flights.followed_total)
    yield GaugeMetricFamily(
        "sluice_calls_leading", "Billed calls in progress that identical calls may join.", len(calls.flights)
    )
    yield GaugeMetricFamily("sluice_cache_bytes", "Bytes of the cached responses.", now.bytes)
    yield GaugeMetricFamily("sluice_cache_entries", "Cached responses.", now.entries)
    lookups = CounterMetricFamily("sluice_cache_lookups", "Cache lookups.", labels=["result"])
    lookups.add_metric(["hit"], now.hits_total)
    lookups.add_metric(["miss"], now.misses_total)
    yield lookups
    yield CounterMetricFamily("sluice_cache_evicted", "Responses evicted from the cache.", now.evicted_total)
    yield from _shared(SharedCacheStatistics(0, 0, 0) if calls.shared is None else calls.shared.statistics())


def _shared(now: SharedCacheStatistics) -> Iterator[Metric]:
    found = "Cache misses served by another node's response."
    yield CounterMetricFamily("sluice_cache_shared_found", found, now.found_total)
    yield CounterMetricFamily(
        "sluice_cache_shared_waits", "Calls that waited for another node's call.", now.waited_total
    )
    alone = "Cache misses that went upstream without checking other nodes, because the state was unavailable."
    yield CounterMetricFamily("sluice_cache_shared_alone", alone, now.alone_total)


def _store(stores: Stores) -> Iterator[Metric]:
    now = stores.store.statistics()
    yield CounterMetricFamily("sluice_store_commits", "Commits of the writer.", now.commits)
    yield CounterMetricFamily("sluice_store_calls", "Writes; divided by the commits, the group size.", now.calls)
    yield CounterMetricFamily("sluice_store_failed_commits", "Commits that failed.", now.failed_commits)
    yield GaugeMetricFamily("sluice_store_waiting", "Writes waiting for the writer.", now.waiting)
    moved = "Credits of committed ledger entries, by kind; deductions neither settled nor refunded are held."
    yield _labeled_counter("sluice_ledger_credits", moved, "kind", stores.billing.charges.credits_moved())
    yield GaugeMetricFamily(
        "sluice_charges_unfinished", "Charges whose close is being retried.", stores.billing.charges.unfinished()
    )
    lost = "Open charges whose rows had disappeared from the store before they were closed."
    yield CounterMetricFamily("sluice_charges_lost", lost, stores.billing.charges.lost_total)


def _size(stores: Stores) -> Iterator[Metric]:
    if (size := stores.growth.size) is not None:
        held = "Bytes of a table in the store, indexes included, at the last check."
        tables = GaugeMetricFamily("sluice_store_table_bytes", held, labels=["table"])
        for table in size.tables:
            tables.add_metric([table.name], table.bytes + table.index_bytes)
        yield tables
        yield GaugeMetricFamily("sluice_store_bytes", "Bytes that the store uses, at the last check.", size.bytes)
    if (growth := stores.growth.growth) is not None:
        grown = "Growth of the store in bytes per day, measured over the last day."
        yield GaugeMetricFamily("sluice_store_growth_bytes_a_day", grown, growth.bytes_a_day)
    if (days := stores.growth.days_left()) is not None:
        yield GaugeMetricFamily(
            "sluice_disk_days_left", "Days until the disk reaches its floor at the current growth.", days
        )
    if (space := stores.disk.space) is not None:
        yield GaugeMetricFamily("sluice_disk_free_bytes", "Bytes free on the store's disk.", space.free_bytes)
        floor = "Free bytes on the store's disk below which nothing new is charged."
        yield GaugeMetricFamily("sluice_disk_floor_bytes", floor, stores.disk.floor_bytes)


def _membership(membership: Membership) -> Iterator[Metric]:
    living = "Live nodes on this store, including this one."
    yield GaugeMetricFamily("sluice_nodes_living", living, membership.living)
    refunded = "Charges that this node has refunded because their nodes died."
    yield CounterMetricFamily("sluice_recovered_charges", refunded, membership.recovered_charges)


def _feed(feed: Feed) -> Iterator[Metric]:
    yield GaugeMetricFamily("sluice_events_waiting", "Open long-polls and streams.", feed.hub.parked())
    reads = "Pages of the events feed waiting to be read from the store."
    yield GaugeMetricFamily("sluice_events_reads_waiting", reads, len(feed.readers.pages))
    yield _labeled_counter(
        "sluice_events_appended", "Events that this node has written, by type.", "type", feed.hub.appended
    )


def _monitors(monitors: Monitors) -> Iterator[Metric]:
    clock = monitors.clock
    yield GaugeMetricFamily("sluice_monitor_runs_in_flight", "Monitor runs in progress.", clock.in_flight())
    begun = "Attempts of monitor runs that this node has started."
    yield CounterMetricFamily("sluice_monitor_runs_begun", begun, clock.begun_total)
    ended = {**monitors.runs.ended, "skipped": monitors.runs.ended["skipped"] + clock.skipped_total}
    yield _labeled_counter(
        "sluice_monitor_runs_ended", "Monitor runs that this node has ended, by status.", "status", ended
    )
    seen = monitors.backlog.seen
    yield GaugeMetricFamily("sluice_monitor_runs_waiting", "Monitor runs waiting to start.", seen.runs)
    late = "Delay of the slot or run that has waited longest to start; 0 if none is late."
    yield GaugeMetricFamily("sluice_monitor_late_seconds", late, seen.runs_late_s)
    yield GaugeMetricFamily("sluice_webhook_deliveries_queued", "Deliveries waiting for an attempt.", seen.deliveries)
    late = "Delay of the delivery that has waited longest for its attempt; 0 if none is late."
    yield GaugeMetricFamily("sluice_webhook_late_seconds", late, seen.deliveries_late_s)
    if (sending := monitors.deliveries) is not None:
        under_way = "Delivery attempts in progress."
        yield GaugeMetricFamily("sluice_webhook_attempts_in_flight", under_way, sending.in_flight())
        made = "Attempts that this node has made, by the outcome for their delivery; queued: it is retried."
        yield _labeled_counter("sluice_webhook_attempts", made, "result", sending.ended)


def _log(now: LogStatistics) -> Iterator[Metric]:
    yield GaugeMetricFamily("sluice_log_lines_waiting", "Log lines that stderr has not yet accepted.", now.waiting)
    dropped = "Log lines dropped because stderr accepted none."
    yield CounterMetricFamily("sluice_log_lines_dropped", dropped, now.dropped_total)


def _unsent(unsent: Unsent) -> Iterator[Metric]:
    held = "Memory of responses waiting for their clients to read."
    yield GaugeMetricFamily("sluice_unsent_bytes", held, unsent.held_bytes)
    yield GaugeMetricFamily("sluice_unsent_answers", "Responses waiting for their clients to read.", unsent.readers)
    ended = "Connections closed because their clients read too slowly or stopped reading."
    yield _labeled_counter("sluice_slow_readers_ended", ended, "reason", unsent.ended)


def _state(state: State) -> Iterator[Metric]:
    now = state.statistics()
    yield GaugeMetricFamily("sluice_state_up", "1 while the shared state is available, else 0.", int(not state.fault))
    yield GaugeMetricFamily("sluice_state_waiting", "Calls of the shared state without a reply yet.", now.waiting)
    yield CounterMetricFamily("sluice_state_calls", "Calls sent to the shared state.", now.calls)
    yield CounterMetricFamily("sluice_state_round_trips", "Round trips; several calls share one.", now.round_trips)
    yield CounterMetricFamily("sluice_state_lost", "Calls that failed with their connection.", now.lost)
    yield CounterMetricFamily("sluice_state_connects", "Connections opened.", now.connects)


def _turns(catalog: Catalog, rendering: Rendering | None) -> Iterator[Metric]:
    """Yield metrics of the resources that accounts share fairly, which are the same for all sites of a node."""
    site = next(iter(catalog.sites.values()), None)
    shared = {} if site is None else {"reading": site.aside.statistics(), "workers": site.workers.statistics()}
    if rendering is not None:
        shared["browser"] = rendering.statistics()
    in_use = GaugeMetricFamily("sluice_turns_in_use", "Slots of a shared resource in use.", labels=["resource"])
    waiting = GaugeMetricFamily("sluice_turns_waiting", "Tasks waiting for a slot.", labels=["resource"])
    for resource, now in shared.items():
        in_use.add_metric([resource], now.in_use)
        waiting.add_metric([resource], now.waiting)
    yield from (in_use, waiting)


def _sources(catalog: Catalog) -> Iterator[Metric]:
    labels = ["platform", "source"]
    gauges = [GaugeMetricFamily(name, text, labels=labels) for name, text, _ in _SOURCE_GAUGES]
    counters = [CounterMetricFamily(name, text, labels=labels) for name, text, _ in _SOURCE_COUNTERS]
    for slug, site in catalog.sites.items():
        for name, source in site.sources.items():
            breaker, calls = source.breaker.statistics(), source.statistics()
            for gauge, (_, _, value) in zip(gauges, _SOURCE_GAUGES, strict=True):
                gauge.add_metric([slug, name], value(breaker, calls))
            for counter, (_, _, value) in zip(counters, _SOURCE_COUNTERS, strict=True):
                counter.add_metric([slug, name], value(breaker, calls))
    yield from (*gauges, *counters)


def _suppliers(suppliers: Suppliers) -> Iterator[Metric]:
    by_platform = ["supplier", "platform"]
    calls = CounterMetricFamily("sluice_supplier_calls", "Calls of suppliers.", labels=[*by_platform, "result"])
    units = CounterMetricFamily("sluice_supplier_units", "Units that suppliers charged.", labels=by_platform)
    balance = GaugeMetricFamily("sluice_supplier_balance", "Units left at a supplier.", labels=["supplier"])
    left = GaugeMetricFamily("sluice_supplier_budget_left", "Units left in today's budget.", labels=["supplier"])
    text = "1 while a supplier refuses all calls for this reason, else 0."
    unusable = GaugeMetricFamily("sluice_supplier_unusable", text, labels=["supplier", "reason"])
    state = GaugeMetricFamily("sluice_supplier_breaker_state", "0 closed, 1 half open, 2 open.", labels=["supplier"])
    for name, supplier in suppliers.by_name.items():
        for platform, cost in supplier.costs.total.items():
            calls.add_metric([name, platform, "ok"], cost.calls - cost.failed)
            calls.add_metric([name, platform, "failed"], cost.failed)
            units.add_metric([name, platform], cost.units)
        if supplier.balance is not None:
            balance.add_metric([name], supplier.balance)
        if (units_left := supplier.costs.left_today) is not None:
            left.add_metric([name], units_left)
        for reason in get_args(PartnerReason):
            unusable.add_metric([name, reason], int(supplier.unusable == reason))
        state.add_metric([name], _CIRCUIT[supplier.source.breaker.state])
    yield from (calls, units, balance, left, unusable, state)


_Value = Callable[[BreakerStatistics, SourceStatistics], int]
_SOURCE_GAUGES: tuple[tuple[str, str, _Value], ...] = (
    ("sluice_breaker_state", "0 closed, 1 half open, 2 open.", lambda breaker, _: _CIRCUIT[breaker.state]),
    ("sluice_upstream_in_flight", "Attempts waiting for a response.", lambda _, calls: calls.in_flight),
    ("sluice_governor_queued", "Calls waiting out a requested pause.", lambda _, calls: calls.queued),
)
_SOURCE_COUNTERS: tuple[tuple[str, str, _Value], ...] = (
    ("sluice_breaker_opened", "Times that the circuit opened.", lambda breaker, _: breaker.opened_total),
    ("sluice_breaker_refused", "Calls rejected by the circuit.", lambda breaker, _: breaker.refused_total),
    ("sluice_upstream_calls", "Calls, not counting retries.", lambda _, calls: calls.calls_total),
    ("sluice_upstream_retries", "Retries.", lambda _, calls: calls.retries_total),
    ("sluice_retry_refused", "Retries that exceeded the budget.", lambda _, calls: calls.retries_refused_total),
    ("sluice_governor_holds", "Times that the upstream requested a pause.", lambda _, calls: calls.held_total),
    (
        "sluice_governor_waits",
        "Calls that waited out a requested pause.",
        lambda _, calls: calls.queued_total,
    ),
    ("sluice_governor_refused", "Calls rejected because of a requested pause.", lambda _, calls: calls.throttled_total),
)
