"""A node's metrics: counts and durations of requests, and the state of all components.

Durations are appended to lists, and added to the histograms for a few hundred requests at a time. All other values are
read at each scrape from the `statistics()` of the components. Metrics therefore add almost nothing to the cost of a
request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.http.request import Reply

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily, Metric

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
WAIT_S_MAX: Final = _BUCKETS_S[-1]
_bucket_of = partial(bisect_left, _BUCKETS_S)
_SEEN_MAX = 256
"""Number of requests that are counted together. Counting them one by one costs 1 us more per billed call."""


class LatencyHistogram:
    """A histogram of durations with fixed buckets."""

    def __init__(self) -> None:
        self._counts = Counter[int]()
        self._sum_s = 0.0
        self._seen: list[float] = []
        self.observe = self._seen.append
        """Record one duration in seconds. `add_up` adds it to the histogram later."""

    def add_up(self) -> None:
        """Add the durations recorded since the last call to the histogram."""
        self._counts.update(map(_bucket_of, self._seen))
        self._sum_s += sum(self._seen)
        self._seen.clear()

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        """Return the histogram as a metric."""
        from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415 - imported with the first scrape

        family = HistogramMetricFamily(name, text)
        family.add_metric([], *self.cumulative())
        return family

    def within_s(self, part: float) -> float | None:
        """Return the lowest bucket bound that covers this share of the durations; None if no bound does."""
        buckets, _ = self.cumulative()
        total = buckets[-1][1]
        bounds = (
            bound for bound, (_, count) in zip(_BUCKETS_S, buckets, strict=False) if total and count >= part * total
        )
        return next(bounds, None)

    def cumulative(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative buckets and the sum of all durations, in Prometheus form."""
        self.add_up()
        total = 0
        buckets: list[tuple[str, float]] = []
        for bucket, bound in enumerate((*map(str, _BUCKETS_S), "+Inf")):
            total += self._counts[bucket]
            buckets.append((bound, total))
        return buckets, self._sum_s


class Waits(NamedTuple):
    """How many requests waited for a platform, and the bucket bound that covers 95 % of the waits.

    `p95_s` is None if the 95th percentile is above the last bound, `WAIT_S_MAX`, or if there were no waits.
    """

    requests: int
    p95_s: float | None


class Metrics:
    """The counters of a node's requests. It is a collector of `prometheus_client`, which is imported for a scrape."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, str]] = []
        self._requests = Counter[tuple[str, str]]()
        self._credits_used = 0
        self._overhead = LatencyHistogram()
        self._waited: list[tuple[str, float]] = []
        self._upstream = defaultdict[str, LatencyHistogram](LatencyHistogram)
        self._phases = {"charge": LatencyHistogram(), "close": LatencyHistogram(), "own": LatencyHistogram()}

    def count(self, route: str, reply: Reply, overhead_s: float) -> None:
        """Count one request. `overhead_s` is its duration without the time spent upstream."""
        self._seen.append((route, reply.code))
        self._credits_used += reply.credits_used
        self._overhead.observe(overhead_s)
        if reply.upstream_s:
            self._waited.append((route, reply.upstream_s))
        if charge_s := reply.charge_s:
            self._phases["charge"].observe(charge_s)
            own_s = overhead_s - charge_s - reply.close_s
            self._phases["own"].observe(own_s if own_s > 0 else 0.0)
            if reply.close_s:
                self._phases["close"].observe(reply.close_s)
        if len(self._seen) >= _SEEN_MAX:
            self._add_up()

    def waits_for(self, platform: str) -> Waits:
        """Return how long requests have waited for this platform since the node started."""
        self._add_up()
        if (histogram := self._upstream.get(platform)) is None:
            return Waits(0, None)
        return Waits(int(histogram.cumulative()[0][-1][1]), histogram.within_s(0.95))

    def answered_total(self) -> int:
        """Return how many requests have been answered since the node started."""
        return len(self._seen) + self._requests.total()

    def charged_total(self) -> int:
        """Return how many answered requests were charged."""
        return int(self._phases["charge"].cumulative()[0][-1][1])

    def _add_up(self) -> None:
        self._requests.update(self._seen)
        self._seen.clear()
        for route, upstream_s in self._waited:
            self._upstream[route.split("/", 3)[2]].observe(upstream_s)  # a route is /v1/{platform}/{resource}
        self._waited.clear()
        for histogram in (self._overhead, *self._upstream.values(), *self._phases.values()):
            histogram.add_up()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the requests for one scrape."""
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415 - imported with the first scrape

        self._add_up()
        requests = CounterMetricFamily(
            "sluice_requests", "Requests answered, by route and status.", labels=["route", "code"]
        )
        for label, count in self._requests.items():
            requests.add_metric(label, count)
        yield requests
        yield CounterMetricFamily("sluice_credits_used", "Credits used, as reported in responses.", self._credits_used)
        yield self._overhead.family("sluice_overhead_seconds", "Request time not spent upstream.")
        text = "Request time spent upstream, by platform."
        yield _family("sluice_upstream_seconds", text, "platform", self._upstream)
        text = "Overhead of a charged request by phase: commits of charge and settlement, and the gateway's work."
        yield _family("sluice_overhead_phase_seconds", text, "phase", self._phases)


def _family(name: str, text: str, label: str, histograms: Mapping[str, LatencyHistogram]) -> HistogramMetricFamily:
    from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415 - imported with the first scrape

    family = HistogramMetricFamily(name, text, labels=[label])
    for value, histogram in histograms.items():
        family.add_metric([value], *histogram.cumulative())
    return family
