"""What the parts of a node tell at a scrape, as Prometheus metrics; nothing here runs on the request path."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.billed import BilledCalls
from gateway.books import Books
from limits.concurrency import Leases
from limits.window import Window
from upstreams.catalog import Catalog

_CIRCUIT = {"closed": 0, "half_open": 1, "open": 2}


def gather(catalog: Catalog, *, calls: BilledCalls, window: Window, leases: Leases, books: Books) -> Iterator[Metric]:
    """Every part's metrics."""
    yield GaugeMetricFamily("sluice_window_keys", "Keys with requests in their window.", len(window))
    yield GaugeMetricFamily("sluice_lease_keys", "Keys with running requests.", len(leases))
    yield from _cache(calls)
    yield from _store(books)
    yield from _sources(catalog)


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


def _store(books: Books) -> Iterator[Metric]:
    now = books.store.statistics()
    yield CounterMetricFamily("sluice_store_commits", "Commits of the writer.", now.commits)
    yield CounterMetricFamily("sluice_store_calls", "Writes; calls per commit is the group's size.", now.calls)
    yield CounterMetricFamily("sluice_store_failed_commits", "Commits that failed.", now.failed_commits)
    yield GaugeMetricFamily("sluice_store_waiting", "Writes that wait for the writer.", now.waiting)
    yield GaugeMetricFamily(
        "sluice_charges_unfinished", "Charges whose close is tried again.", books.charges.unfinished()
    )


def _sources(catalog: Catalog) -> Iterator[Metric]:
    names = ["platform", "source"]
    circuit = GaugeMetricFamily("sluice_breaker_state", "0 closed, 1 half open, 2 open.", labels=names)
    opened = CounterMetricFamily("sluice_breaker_opened", "Times that the circuit opened.", labels=names)
    refused = CounterMetricFamily("sluice_breaker_refused", "Calls that the circuit refused.", labels=names)
    calls = CounterMetricFamily("sluice_upstream_calls", "Calls, retries not counted.", labels=names)
    retries = CounterMetricFamily("sluice_upstream_retries", "Retries.", labels=names)
    for slug, site in catalog.sites.items():
        for name, source in site.sources.items():
            breaker = source.breaker.statistics()
            circuit.add_metric([slug, name], _CIRCUIT[breaker.state])
            opened.add_metric([slug, name], breaker.opened_total)
            refused.add_metric([slug, name], breaker.refused_total)
            calls.add_metric([slug, name], source.calls_total)
            retries.add_metric([slug, name], source.retries_total)
    yield from (circuit, opened, refused, calls, retries)
