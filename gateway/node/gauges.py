"""Prometheus metrics of a node's parts, read at a scrape: they cost the request path nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.api.admission import Admission
from gateway.api.overload import Overload
from gateway.calls.execute import BilledCalls
from gateway.feed.service import Feed
from gateway.node.background.monitors import Monitors
from gateway.node.membership import Membership
from gateway.node.node import Node
from gateway.node.stores import Stores
from gateway.observability.log_writer import LogStatistics
from gateway.server.unsent import Unsent
from limits.breaker import BreakerStatistics
from scheduler.sessions.service import SessionService
from storage.state import State
from upstreams.cache.shared_cache import SharedCacheStatistics
from upstreams.catalog import Catalog
from upstreams.fetching.source import SourceStatistics

_CIRCUIT = {"closed": 0, "half_open": 1, "open": 2}


def calls_charged(node: Node) -> int:
    """The number of calls that this node has charged since its start: of requests, and of monitors' runs."""
    ended = node.monitors.runs.ended
    return node.metrics.charged_total() + ended["ok"] + ended["partial"]


def gather(node: Node, sessions: SessionService) -> Iterator[Metric]:
    """The metrics of every part of the node, and of the sessions that it holds."""
    yield from _limits(node.admission)
    yield from _overload(node.overload)
    counts = node.calls.claims.counts
    yield _by("sluice_idempotency", "Requests with an idempotency key, by how they went.", "result", counts)
    yield from _cache(node.calls)
    yield from _store(node.stores)
    yield from _size(node.stores)
    told = "Events of payments by outcome; mismatch: not credited, since the amount differs from the pack's."
    yield _by("sluice_payment_events", told, "outcome", node.stores.payments.counts)
    yield from _membership(node.membership)
    yield from _feed(node.feed)
    yield from _monitors(node.monitors)
    held = "Sessions of the web whose pages this node holds open."
    yield GaugeMetricFamily("sluice_web_sessions_open", held, sessions.held())
    failed = "Failures of the node's background loops, each of which was started again, by loop."
    yield _by("sluice_loop_failures", failed, "loop", node.supervision.failures())
    yield from _log(node.runtime.log.statistics())
    yield from _unsent(node.unsent)
    if node.state is not None:
        yield from _state(node.state)
    yield from _turns(node.catalog)
    yield from _sources(node.catalog)


def _by(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    """A counter with one label."""
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _limits(admission: Admission) -> Iterator[Metric]:
    yield _by("sluice_admissions", "Requests with a good key, by what the limits said.", "result", admission.counts)
    now = admission.gate.statistics()
    if now.window_keys is not None:
        yield GaugeMetricFamily("sluice_window_keys", "Keys with requests in their window.", now.window_keys)
    yield GaugeMetricFamily("sluice_lease_keys", "Keys with running requests.", now.lease_keys)
    yield GaugeMetricFamily("sluice_leases", "Running requests.", now.leases)


def _overload(overload: Overload) -> Iterator[Metric]:
    now = overload.statistics()
    shed = "Requests that were refused since there were more than the node could serve, by who sent them."
    yield _by("sluice_shed", shed, "key", now.refused)
    yield GaugeMetricFamily("sluice_shedding", "1 while requests may be shed, else 0.", int(now.active))
    limit = "Requests that are worked on at once while requests may be shed; 0 while not."
    yield GaugeMetricFamily("sluice_shed_limit", limit, now.limit)
    late = "How late the loop ran what was ready: the worst of the last seconds, older ones fading."
    yield GaugeMetricFamily("sluice_loop_lag_seconds", late, overload.lag_s)


def _cache(calls: BilledCalls) -> Iterator[Metric]:
    now = calls.cache.statistics()
    followed = "Misses that were answered by an identical call under way."
    yield CounterMetricFamily("sluice_cache_coalesced", followed, calls.flights.followed_total)
    yield GaugeMetricFamily(
        "sluice_calls_leading", "Billed calls under way that others may follow.", len(calls.flights)
    )
    yield GaugeMetricFamily("sluice_cache_bytes", "Bytes that cached answers hold.", now.bytes)
    yield GaugeMetricFamily("sluice_cache_entries", "Cached answers.", now.entries)
    lookups = CounterMetricFamily("sluice_cache_lookups", "Look-ups in the cache.", labels=["result"])
    lookups.add_metric(["hit"], now.hits_total)
    lookups.add_metric(["miss"], now.misses_total)
    yield lookups
    yield CounterMetricFamily("sluice_cache_evicted", "Answers that made room for others.", now.evicted_total)
    yield from _shared(SharedCacheStatistics(0, 0, 0) if calls.shared is None else calls.shared.statistics())


def _shared(now: SharedCacheStatistics) -> Iterator[Metric]:
    found = "Misses of this node that another node's answer served."
    yield CounterMetricFamily("sluice_cache_shared_found", found, now.found_total)
    yield CounterMetricFamily("sluice_cache_shared_waits", "Calls that waited for another node's.", now.waited_total)
    alone = "Misses that were called for without asking the other nodes, since the state was away."
    yield CounterMetricFamily("sluice_cache_shared_alone", alone, now.alone_total)


def _store(stores: Stores) -> Iterator[Metric]:
    now = stores.store.statistics()
    yield CounterMetricFamily("sluice_store_commits", "Commits of the writer.", now.commits)
    yield CounterMetricFamily("sluice_store_calls", "Writes; calls per commit is the group's size.", now.calls)
    yield CounterMetricFamily("sluice_store_failed_commits", "Commits that failed.", now.failed_commits)
    yield GaugeMetricFamily("sluice_store_waiting", "Writes that wait for the writer.", now.waiting)
    moved = "Credits of committed ledger entries, by kind; what was deducted and neither settled nor refunded is held."
    yield _by("sluice_ledger_credits", moved, "kind", stores.charges.credits_moved())
    yield GaugeMetricFamily(
        "sluice_charges_unfinished", "Charges whose close is tried again.", stores.charges.unfinished()
    )
    lost = "Open charges whose rows were gone from the store when they were to be closed."
    yield CounterMetricFamily("sluice_charges_lost", lost, stores.charges.lost_total)


def _size(stores: Stores) -> Iterator[Metric]:
    if (size := stores.growth.size) is not None:
        held = "Bytes that a table takes in the store, its indexes included, as of the last look."
        tables = GaugeMetricFamily("sluice_store_table_bytes", held, labels=["table"])
        for table in size.tables:
            tables.add_metric([table.name], table.bytes + table.index_bytes)
        yield tables
        yield GaugeMetricFamily("sluice_store_bytes", "Bytes that the store uses, as of the last look.", size.bytes)
    if (growth := stores.growth.growth) is not None:
        grown = "Bytes by which the store grows a day, by its last day."
        yield GaugeMetricFamily("sluice_store_growth_bytes_a_day", grown, growth.bytes_a_day)
    if (days := stores.growth.days_left()) is not None:
        yield GaugeMetricFamily("sluice_disk_days_left", "Days until the disk is at its floor, by that growth.", days)
    if (space := stores.disk.space) is not None:
        yield GaugeMetricFamily("sluice_disk_free_bytes", "Bytes free on the store's disk.", space.free_bytes)
        floor = "Bytes of the store's disk below which nothing new is charged."
        yield GaugeMetricFamily("sluice_disk_floor_bytes", floor, stores.disk.floor_bytes)


def _membership(membership: Membership) -> Iterator[Metric]:
    living = "Nodes that live on this store, this one included."
    yield GaugeMetricFamily("sluice_nodes_living", living, membership.living)
    refunded = "Charges that this node has refunded since nodes died with them open."
    yield CounterMetricFamily("sluice_recovered_charges", refunded, membership.recovered_charges)


def _feed(feed: Feed) -> Iterator[Metric]:
    yield GaugeMetricFamily("sluice_events_waiting", "Long-polls and streams that are held open.", feed.hub.parked())
    reads = "Pages of the events feed that wait to be read from the store."
    yield GaugeMetricFamily("sluice_events_reads_waiting", reads, len(feed.readers.pages))
    yield _by("sluice_events_appended", "Events that this node has written, by type.", "type", feed.hub.appended)


def _monitors(monitors: Monitors) -> Iterator[Metric]:
    clock = monitors.clock
    yield GaugeMetricFamily("sluice_monitor_runs_in_flight", "Monitors' runs that are under way.", clock.in_flight())
    begun = "Attempts of monitors' runs that this node has begun."
    yield CounterMetricFamily("sluice_monitor_runs_begun", begun, clock.begun_total)
    ended = {**monitors.runs.ended, "skipped": monitors.runs.ended["skipped"] + clock.skipped_total}
    yield _by("sluice_monitor_runs_ended", "Monitors' runs that this node has ended, by status.", "status", ended)
    seen = monitors.backlog.seen
    yield GaugeMetricFamily("sluice_monitor_runs_waiting", "Monitors' runs that wait to be begun.", seen.runs)
    late = "How long ago the slot or run was due that has waited longest to be begun; 0 where none is late."
    yield GaugeMetricFamily("sluice_monitor_late_seconds", late, seen.runs_late_s)
    yield GaugeMetricFamily("sluice_webhook_deliveries_queued", "Deliveries that wait.", seen.deliveries)
    late = "How long ago the delivery was due that has waited longest for its attempt; 0 where none is late."
    yield GaugeMetricFamily("sluice_webhook_late_seconds", late, seen.deliveries_late_s)
    if (sending := monitors.deliveries) is not None:
        under_way = "Attempts of deliveries that are under way."
        yield GaugeMetricFamily("sluice_webhook_attempts_in_flight", under_way, sending.in_flight())
        made = "Attempts that this node has made, by what became of their delivery; queued: it is tried again."
        yield _by("sluice_webhook_attempts", made, "result", sending.ended)


def _log(now: LogStatistics) -> Iterator[Metric]:
    yield GaugeMetricFamily("sluice_log_lines_waiting", "Log lines that stderr has not yet taken.", now.waiting)
    dropped = "Log lines that were dropped since stderr took none."
    yield CounterMetricFamily("sluice_log_lines_dropped", dropped, now.dropped_total)


def _unsent(unsent: Unsent) -> Iterator[Metric]:
    held = "Memory held by answers that wait for their clients to read."
    yield GaugeMetricFamily("sluice_unsent_bytes", held, unsent.held_bytes)
    yield GaugeMetricFamily("sluice_unsent_answers", "Answers that wait for their clients to read.", unsent.readers)
    ended = "Connections that were ended since their clients read too slowly or not at all."
    yield _by("sluice_slow_readers_ended", ended, "reason", unsent.ended)


def _state(state: State) -> Iterator[Metric]:
    now = state.statistics()
    yield GaugeMetricFamily("sluice_state_up", "1 while the shared state takes calls, else 0.", int(not state.fault))
    yield GaugeMetricFamily("sluice_state_waiting", "Calls of the shared state without an answer yet.", now.waiting)
    yield CounterMetricFamily("sluice_state_calls", "Calls of the shared state that were sent.", now.calls)
    yield CounterMetricFamily("sluice_state_round_trips", "Round trips, which calls share.", now.round_trips)
    yield CounterMetricFamily("sluice_state_lost", "Calls that ended with their connection.", now.lost)
    yield CounterMetricFamily("sluice_state_connects", "Connections that were made.", now.connects)


def _turns(catalog: Catalog) -> Iterator[Metric]:
    """The resources that accounts share by fair turns; all sites of a node have the same ones."""
    site = next(iter(catalog.sites.values()), None)
    shared = {} if site is None else {"reading": site.aside.statistics(), "workers": site.workers.statistics()}
    in_use = GaugeMetricFamily(
        "sluice_turns_in_use", "Places of a shared resource that are in use.", labels=["resource"]
    )
    waiting = GaugeMetricFamily("sluice_turns_waiting", "Tasks that wait for a place.", labels=["resource"])
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


_Value = Callable[[BreakerStatistics, SourceStatistics], int]
_SOURCE_GAUGES: tuple[tuple[str, str, _Value], ...] = (
    ("sluice_breaker_state", "0 closed, 1 half open, 2 open.", lambda breaker, _: _CIRCUIT[breaker.state]),
    ("sluice_upstream_in_flight", "Attempts that wait for their answer.", lambda _, calls: calls.in_flight),
    ("sluice_governor_queued", "Calls that wait for the end of a hold.", lambda _, calls: calls.queued),
)
_SOURCE_COUNTERS: tuple[tuple[str, str, _Value], ...] = (
    ("sluice_breaker_opened", "Times that the circuit opened.", lambda breaker, _: breaker.opened_total),
    ("sluice_breaker_refused", "Calls that the circuit refused.", lambda breaker, _: breaker.refused_total),
    ("sluice_upstream_calls", "Calls, retries not counted.", lambda _, calls: calls.calls_total),
    ("sluice_upstream_retries", "Retries.", lambda _, calls: calls.retries_total),
    ("sluice_retry_refused", "Retries that the budget had no room for.", lambda _, calls: calls.retries_refused_total),
    ("sluice_governor_holds", "Times that the upstream asked to be left alone.", lambda _, calls: calls.held_total),
    ("sluice_governor_waits", "Calls that waited for the end of a hold.", lambda _, calls: calls.queued_total),
    ("sluice_governor_refused", "Calls that a hold refused.", lambda _, calls: calls.throttled_total),
)
