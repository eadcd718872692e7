"""Converts the results of the feed, monitors and deliveries into marks and figures."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.core.results import Figure, Mark, Point
from bench.load.histogram import Histogram
from bench.scenarios.deliveries import DeliveryFigures, DeliveryTurn
from bench.scenarios.depth import DepthFigures
from bench.scenarios.due import DueFigures
from bench.scenarios.feed_reads import ACK_LIMIT, CATCH_UP_LIMIT, ReadFigures
from bench.scenarios.growth import GrowthFigures
from bench.scenarios.parked import Parked
from gateway.feed.queries import LIMIT_DEFAULT

GOAL = 50_000
"""The number of polls that a node must park. If file descriptors do not allow it, their cost is extrapolated."""


@dataclass(frozen=True, slots=True)
class Found:
    """The marks, figures and points of one scenario. Only the function that created it appends to its lists."""

    marks: list[Mark]
    figures: list[Figure]
    points: list[Point] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        """Add the marks and figures of another scenario."""
        self.marks.extend(other.marks)
        self.figures.extend(other.figures)


def parked_marks(seen: Parked) -> list[Mark]:
    """Return the marks for parked polls. The mark at shutdown has no value unless all responses were 200."""
    polls, one = f"{seen.count} parked polls", Histogram(seen.to_a_key)
    return [
        Mark(f"{polls}, resident", seen.bytes_each / 1024, 15, "KiB each"),
        Mark(f"{polls}, CPU while idle", _percent(seen.idle_cpu_share), 1, "%"),
        Mark(f"{polls}, commit to a key's polls, p50", one.percentile_ms(0.5), 2, "ms"),
        Mark(f"{polls}, commit to a key's polls, p99", one.percentile_ms(0.99), 10, "ms"),
        Mark(f"{polls}, all woken", seen.all_woken_s, 1, "s"),
        Mark(f"{polls}, all answered 200 at shutdown", None if seen.lost else seen.drained_s, 3, "s"),
    ]


def parked_figures(name: str, seen: Parked) -> list[Figure]:
    """Return the figures of parked polls."""
    key, account = Histogram(seen.to_a_key), Histogram(seen.to_an_account)
    return [
        Figure(f"{name}, resident", seen.bytes_each / 1024, "KiB each"),
        Figure(f"{name}, CPU of parking", seen.park_cpu_us, "us each"),
        Figure(f"{name}, CPU while idle", _percent(seen.idle_cpu_share), "%"),
        Figure(f"{name}, commit to a key's polls, p50", key.percentile_ms(0.5), "ms"),
        Figure(f"{name}, commit to a key's polls, p99", key.percentile_ms(0.99), "ms"),
        Figure(f"{name}, commit to an account's polls, p50", account.percentile_ms(0.5), "ms"),
        Figure(f"{name}, commit to an account's polls, p99", account.percentile_ms(0.99), "ms"),
        Figure(f"{name}, all woken", seen.all_woken_s, "s"),
        Figure(f"{name}, CPU of waking", seen.wake_cpu_us, "us each"),
        Figure(f"{name}, all answered at shutdown", seen.drained_s, "s"),
        Figure(f"{name}, process ended at shutdown", seen.ended_s, "s"),
        Figure(f"{name}, not answered 200 at shutdown", seen.lost, "polls"),
    ]


def extrapolated(seen: Parked) -> list[Figure]:
    """Return the cost of `GOAL` polls, extrapolated in proportion from the measured ones."""
    times, name = GOAL / seen.count, f"{GOAL} polls, extrapolated from {seen.count}"
    idle = _percent(seen.idle_cpu_share)
    return [
        Figure(f"{name}, resident", seen.bytes_each * GOAL / 2**20, "MiB"),
        Figure(f"{name}, CPU while idle", None if idle is None else idle * times, "%"),
        Figure(f"{name}, all woken", seen.all_woken_s * times, "s"),
        Figure(f"{name}, all answered at shutdown", seen.drained_s * times, "s"),
    ]


def reads_found(seen: ReadFigures) -> Found:
    """Return the figures of reading and acknowledging, which have no marks."""
    caught_up = f"catching up on {seen.events} events, {CATCH_UP_LIMIT} a page"
    acked = f"reading and acknowledging, {ACK_LIMIT} a page"
    return Found(
        [],
        [
            Figure(caught_up, seen.events_per_s, "events/s"),
            Figure(f"{caught_up}, CPU", seen.event_cpu_us, "us/event"),
            Figure(acked, seen.acks_per_s, "acks/s"),
            Figure(f"{acked}, CPU", seen.ack_cpu_us, "us/ack"),
        ],
    )


def depth_found(seen: DepthFigures) -> Found:
    """Return the marks and figures of reads in a long log."""
    page, unchanged = Histogram(seen.page), Histogram(seen.unchanged)
    of_page, of_tag = f"a page of {LIMIT_DEFAULT} of {seen.events} events", f"a 304 at {seen.events} events"
    return Found(
        [
            Mark(f"{of_page}, p99", page.percentile_ms(0.99), 5, "ms"),
            Mark(f"{of_tag}, p99", unchanged.percentile_ms(0.99), 1, "ms"),
        ],
        [
            Figure(f"{of_page}, p50", page.percentile_ms(0.5), "ms"),
            Figure(f"{of_tag}, p50", unchanged.percentile_ms(0.5), "ms"),
            Figure(f"appending {seen.events} events", seen.events / seen.fill_s, "events/s"),
        ],
    )


def growth_found(engine: str, seen: GrowthFigures, *, bytes_most: int) -> Found:
    """Return the marks and figures of settled misses: their bytes in the store, and the writer's CPU."""
    name = f"{seen.charges} settled misses on {engine}"
    return Found(
        [
            Mark(f"{name}, table and indexes", seen.bytes_each, bytes_most, "bytes each"),
            Mark(f"{name}, peak size of the log", seen.log_bytes / 2**20, 64, "MiB"),
        ],
        [
            Figure(f"{name}, the writer's CPU", seen.writer_us, "us each"),
            Figure(f"{name}, verified", seen.verified_per_s, "rows/s"),
        ],
    )


def monitors_found(seen: DueFigures) -> Found:
    """Return the marks and figures of runs that share a slot: the delay of their start, and their cost."""
    lags, name = Histogram(seen.lags), f"{seen.count} monitors in one slot among {seen.stored} others"
    return Found(
        [Mark(f"{name}, delay of the start, p99", lags.percentile_ms(0.99) / 1e3, 2, "s")],
        [
            Figure(f"{name}, delay of the start, p50", lags.percentile_ms(0.5), "ms"),
            Figure(f"{name}, delay of the last start", lags.percentile_ms(1.0), "ms"),
            Figure(f"{name}, from the slot to the end of the last run", seen.took_s, "s"),
            Figure(f"{name}, runs", seen.count / seen.took_s, "runs/s"),
            Figure(f"{name}, CPU", seen.cpu_s * 1e6 / seen.count, "us/run"),
        ],
    )


def deliveries_found(seen: DeliveryFigures) -> Found:
    """Return the marks and figures of deliveries.

    They are the delay of a delivery, the effect of a host that never responds on the others, and the cost.
    """
    settled, begun = Histogram(seen.settled), f"settlement to first byte, {seen.runs} runs"
    hole = f"a black hole with {seen.held} queued"
    before, after = _median_ms(seen.alone, 0.99), _median_ms(seen.beside, 0.99)
    more = 100 * (after / before - 1) if before else None
    found = Found(
        [
            Mark(f"{begun}, p99", settled.percentile_ms(0.99) / 1e3, 1, "s"),
            Mark(f"{hole}, p99 of the first byte at other hosts", more, 10, "% more"),
        ],
        [Figure(f"{begun}, p50", settled.percentile_ms(0.5), "ms")],
    )
    for name, pace in (
        ("deliveries without TLS", seen.plain),
        ("deliveries with TLS, connections kept open", seen.kept),
        ("deliveries with TLS, a new connection each", seen.closed),
    ):
        found.figures.append(Figure(name, pace.per_s, "deliveries/s"))
        found.figures.append(Figure(f"{name}, CPU", pace.cpu_us, "us/delivery"))
    for name, turns in ((f"without {hole}", seen.alone), (f"with {hole}", seen.beside)):
        found.figures.append(Figure(f"{name}, first byte at other hosts, p50", _median_ms(turns, 0.5), "ms"))
        found.figures.append(Figure(f"{name}, first byte at other hosts, p99", _median_ms(turns, 0.99), "ms"))
        cpu_us = median(turn.cpu_us for turn in turns)
        found.figures.append(Figure(f"{name}, CPU, including the command", cpu_us, "us/delivery"))
    return found


def _median_ms(turns: Sequence[DeliveryTurn], share: float) -> float:
    """Return the median of a percentile over all turns, because other work on the machine affects only some turns."""
    return median(Histogram(turn.lags).percentile_ms(share) for turn in turns)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
