"""Overload: one key sends far more requests than a node can serve, while another key sends few."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from statistics import median

from bench.control.control_protocol import open_control
from bench.core.results import Figure, Mark, Point, Step
from bench.core.scenarios import TRANSPARENT, Stage
from bench.core.tasks import run_side_by_side
from bench.load.closed_load import ClosedLoad
from bench.load.driving import Tempo, Watched, drive, run_open_load, split_load, step_of, watch
from bench.load.open_load import OpenLoad, OpenLoadCounts
from bench.load.request_spec import RequestSpec
from bench.peers.servers import ServerTarget, open_stage
from bench.scenarios.feed_marks import Found

FLOOD, QUIET, AFTER = "flood", "quiet key", "after the flood"
TIMES = (1.0, 2.5, 5.0)
"""The offered rates, as multiples of the node's capacity. The first rate is for comparison."""
LEAST_SERVED = {2.5: 0.60, 5.0: 0.25}
CONNECTIONS = 4_000
QUIET_PER_S = 20.0
QUIET_CONNECTIONS = 100
AFTER_S = 3.0
AFTER_SHARE = 0.5
RECOVERY_S = 1.0
"""The seconds from the last request of the flood to the first request that must be served as usual."""
CAPACITY_S = 3.0
DRIFT_MAX = 0.2
"""The maximum difference, as a share, at which a flood is valid, because the machine's speed must be stable.

It applies to the capacities before and after the flood, and to the offered and the nominal rate.
"""
REPEATS_MAX = 2
"""The maximum number of floods per run that are repeated because they were not valid."""
KEYS_APART = 10_000_000
STAGE = Stage("feed", {**TRANSPARENT, "server.shed": True, "log.level": "warning"})
PROFILE = "/v1/github/profile?handle=user{n}"


@dataclass(frozen=True, slots=True)
class Flooded:
    """The measurements at one rate: the requests of the flood, of the quiet key during it, and of the time after it."""

    times: float
    flood: Step
    quiet: Step
    after: Step
    capacities: tuple[float, float]
    """The node's capacity in requests per second, immediately before and immediately after."""

    @property
    def label(self) -> str:
        """The rate, for display."""
        return f"{self.times:.0%}"

    @property
    def capacity(self) -> float:
        """The node's average capacity in requests per second."""
        return sum(self.capacities) / 2

    @property
    def true_times(self) -> float:
        """The offered rate as a multiple of that capacity."""
        return self.flood.rate / self.capacity

    @property
    def drift(self) -> float:
        """The share by which the machine's changing speed changed the flood."""
        before, after = self.capacities
        return max(abs(before - after) / self.capacity, abs(self.true_times / self.times - 1))

    @property
    def is_comparable(self) -> bool:
        """Whether the machine's speed was stable enough to judge the marks."""
        return self.drift <= DRIFT_MAX


async def measure_flood(
    seconds: float,
    *,
    times: Sequence[float] = TIMES,
    stage: Stage = STAGE,
    capacity_s: float = CAPACITY_S,
    after_s: float = AFTER_S,
) -> Found:
    """Flood a node with multiples of its capacity.

    A closed loop measures the capacity before and after each flood. The offered rate is a multiple of the median of all
    capacities so far. A flood is repeated if the speed of the machine was not stable, but only a few times in total.

    Raises:
        ChildFailed: A server or a load generator did not run.
    """
    repeats, first_keys = REPEATS_MAX, count(KEYS_APART, KEYS_APART)
    async with open_stage(stage) as target:
        specs = tuple(_request_spec(target, key) for key in _keys(target))
        found = [await _capacity(specs[0], next(first_keys), capacity_s)]
        seen: list[Flooded] = []
        for each in times:
            while True:
                pace, first_key = Tempo(median(found) * each, seconds), next(first_keys)
                parts = await _flood(target, specs, pace, times=each, first_key=first_key, after_s=after_s)
                found.append(await _capacity(specs[0], first_key + KEYS_APART // 10 * 9, capacity_s))
                flooded = Flooded(each, *parts, capacities=(found[-2], found[-1]))
                if flooded.is_comparable or not repeats:
                    break
                repeats -= 1
            seen.append(flooded)
    return flood_found(seen)


async def _capacity(spec: RequestSpec, first_key: int, seconds: float) -> float:
    """Return the current capacity of the node in requests per second."""
    measured = await drive(ClosedLoad(spec, warmup_s=min(1.0, seconds), seconds=seconds, first_key=first_key))
    return max(measured.requests / measured.seconds, 1.0)


def _keys(target: ServerTarget) -> tuple[str, str]:
    with open_control(target.control) as control:
        flood, quiet = (person.keys[0].key for person in control.people(2, 1))
    return flood, quiet


def _request_spec(target: ServerTarget, key: str) -> RequestSpec:
    return RequestSpec(target.url, PROFILE, "new", (("x-api-key", key),), tolerated=(503,))


async def _flood(
    target: ServerTarget, specs: tuple[RequestSpec, ...], pace: Tempo, *, times: float, first_key: int, after_s: float
) -> tuple[Step, Step, Step]:
    """Return the steps of the flood, of the quiet key and of the time after it."""
    flood = split_load(specs[0], pace, connections=CONNECTIONS, first_key=first_key)
    begin_ns, end_ns = flood[0].first_ns, flood[0].first_ns + round((pace.warmup_s + pace.seconds) * 1e9)
    quiet = _steady(specs[1], begin_ns, Tempo(QUIET_PER_S, pace.seconds, pace.warmup_s), first_key + KEYS_APART // 2)
    after_pace = Tempo(pace.rate / times * AFTER_SHARE, after_s, 0.0)
    after = _steady(specs[0], end_ns + round(RECOVERY_S * 1e9), after_pace, first_key + KEYS_APART // 4 * 3)
    watching = partial(watch, target.pid, begin_ns / 1e9 + pace.warmup_s, end_ns / 1e9)
    works = [partial(run_open_load, load) for load in (quiet, after, *flood)]
    watched, *counts = await run_side_by_side(watching, *works)
    assert isinstance(watched, Watched)
    parts = [each for each in counts if isinstance(each, OpenLoadCounts)]
    unwatched = replace(watched, cpu_s=0.0)
    return (
        step_of(pace, watched, parts[2:]),
        step_of(Tempo(QUIET_PER_S, pace.seconds), unwatched, parts[:1]),
        step_of(after_pace, unwatched, parts[1:2]),
    )


def _steady(spec: RequestSpec, first_ns: int, pace: Tempo, first_key: int) -> OpenLoad:
    """Return a load for one process."""
    return OpenLoad(
        spec,
        first_ns=first_ns,
        interval_ns=round(1e9 / pace.rate),
        count=max(1, round(pace.rate * (pace.warmup_s + pace.seconds))),
        counted_from_ns=first_ns + round(pace.warmup_s * 1e9),
        connections=QUIET_CONNECTIONS,
        first_key=first_key,
    )


def flood_found(seen: Sequence[Flooded]) -> Found:
    """Return the marks of the measurements. Rates that are not an overload have figures instead.

    If the machine's speed was not stable, the marks have no value.
    """
    found = Found([], [])
    for each in seen:
        found.points.append(Point(FLOOD, each.label, "", [each.flood]))
        found.points.append(Point(QUIET, each.label, "", [each.quiet]))
        found.points.append(Point(AFTER, each.label, "", [each.after]))
        name = f"flood of {each.label}"
        served = each.flood.served_per_s / each.capacity
        for moment, capacity in zip(("before", "after"), each.capacities, strict=True):
            found.figures.append(Figure(f"{name}, capacity {moment}", capacity, "requests/s"))
        found.figures.append(Figure(f"{name}, offered share of capacity", 100 * each.true_times, "%"))
        found.figures.append(Figure(f"{name}, served share of capacity", 100 * served, "%"))
        own = [held.own_bytes for held in each.flood.memory]
        found.figures.append(Figure(f"{name}, peak own memory", max(own) / 1e6, "MB"))
        if each.times in LEAST_SERVED:
            lost = 100 * (1 - served)
            marks = [
                Mark(f"{name}, unserved share of capacity", lost, _lost_max(each.times), "%"),
                *_wait_marks(name, each),
            ]
            if not each.is_comparable:
                found.figures.append(
                    Figure(f"{name} is not comparable: the machine's speed changed", 100 * each.drift, "%")
                )
                marks = [replace(mark, value=None) for mark in marks]
            found.marks.extend(marks)
    return found


def _lost_max(times: float) -> float:
    return round(100 * (1 - LEAST_SERVED[times]))


def _wait_marks(name: str, seen: Flooded) -> list[Mark]:
    return [
        Mark(f"{name}, p99 of served requests", _or_none(seen.flood.p99_ms), 250, "ms"),
        Mark(f"{name}, p99 of refusals", seen.flood.refused_p99_ms, 100, "ms"),
        Mark(f"{name}, requests of the quiet key not served", 100 * _not_served(seen.quiet), 1, "%"),
        Mark(f"{name}, p99 of the quiet key", _or_none(seen.quiet.p99_ms), 250, "ms"),
        Mark(f"{name}, not served one second later", 100 * _not_served(seen.after), 0, "%"),
        Mark(f"{name}, p99 one second later", _or_none(seen.after.p99_ms), 50, "ms"),
    ]


def _not_served(step: Step) -> float:
    refused = step.refused_per_s * step.seconds + step.unanswered
    return refused / step.requests if step.requests else math.nan


def _or_none(value: float) -> float | None:
    """Return None for 0, because there is no latency if nothing was served."""
    return value or None
