"""Finds the changes between two results, and separates them from noise.

Noise is estimated from the repeats of both results. A change counts if two conditions are met. First, Welch's t-test on
the logarithms, which compares ratios, would report it by chance less than once in a thousand comparisons. Second, it
exceeds a minimum share.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from types import MappingProxyType

from bench.core.results import Point, Results, Step

SMALLEST = 0.02
"""Differences below this share are not reported as changes, even if they are certain."""
SAME_WITHIN = 0.05
"""If the noise hides changes up to this share, an important change may be hidden."""
FLOOR_SHARE = 0.01
"""Figures below this share of the largest value are raised to it, because 0 has no logarithm."""
VERDICTS = ("better", "worse", "same", "unknown")
# Student's t, two-sided, one in a thousand: degrees of freedom, and the limit. Between two rows, the lower row applies.
_T_BOUNDS = (
    (1, 636.6),
    (2, 31.60),
    (3, 12.92),
    (4, 8.610),
    (5, 6.869),
    (6, 5.959),
    (7, 5.408),
    (8, 5.041),
    (9, 4.781),
    (10, 4.587),
    (12, 4.318),
    (15, 4.073),
    (20, 3.850),
    (30, 3.646),
    (60, 3.460),
)

Figure = Callable[[Step], float]
LOWER_IS_BETTER: Mapping[str, Figure] = MappingProxyType(
    {
        "us/req": lambda step: step.cpu_us,
        "p50 ms": lambda step: step.p50_ms,
        "p99 ms": lambda step: step.p99_ms,
        "p99.9 ms": lambda step: step.p999_ms,
        "own MB": lambda step: max(held.own_bytes for held in step.memory) / 1e6,
    }
)
# Relative to the offered requests: if a lower capacity was measured, fewer requests are offered and served, which is
# not worse.
HIGHER_IS_BETTER: Mapping[str, Figure] = MappingProxyType(
    {"served %": lambda step: 100 * step.served_per_s / step.rate}
)
EDGE = 3
"""The number of requests by which the start and the end of the counted time change a count by chance."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of one point in both results. `change` is B / A - 1."""

    scenario: str
    label: str
    figure: str
    before: float
    after: float
    change: float
    noise: float | None
    """The share that a change must exceed to count; None if there are too few repeats."""
    verdict: str
    """One of `VERDICTS`. It is `unknown` if there are too few repeats or too much noise."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The document that `--json` prints."""

    changes: Sequence[Change]
    notes: Sequence[str]
    counts: Mapping[str, int]


def compare(before: Results, after: Results) -> list[Change]:
    """Return the changes of all figures of the points that both results have, in the order of `before`."""
    later = {_name(point): point for point in after.points}
    return [
        change
        for point in before.points
        if (other := later.get(_name(point))) is not None and point.steps and other.steps
        for change in _changes(point, other)
    ]


def _name(point: Point) -> tuple[str, str, str]:
    return point.scenario, point.label, point.setting


def _changes(before: Point, after: Point) -> Iterator[Change]:
    label = " ".join(filter(None, (before.label, before.setting)))
    edge = EDGE / max(min(step.requests for point in (before, after) for step in point.steps), 1)
    for figures, better_when in ((LOWER_IS_BETTER, -1), (HIGHER_IS_BETTER, 1)):
        for name, figure in figures.items():
            old, new = ([figure(step) for step in point.steps] for point in (before, after))
            # Nothing served is the worst result, but a latency or CPU of 0 means that there was nothing to measure.
            if min(*old, *new) > 0 or (better_when > 0 and max(*old, *new) > 0):
                yield _change((before.scenario, label, name), old, new, better_when=better_when, edge=edge)


def _change(
    place: tuple[str, str, str], old: Sequence[float], new: Sequence[float], *, better_when: int, edge: float
) -> Change:
    floor = FLOOR_SHARE * max(*old, *new)
    old, new = ([max(value, floor) for value in values] for values in (old, new))
    change, noise = difference(old, new)
    if noise is not None and better_when > 0:
        noise = max(noise, edge)
    verdict = _verdict(change, noise, better_when)
    return Change(*place, _centre(old), _centre(new), change=change, noise=noise, verdict=verdict)


def compare_single(before: Results, after: Results) -> list[Change]:
    """Return the changes of figures that both results measured only once, without a verdict.

    These are costs, marks, figures, and the capacity that the closed loop found if rates are shares of it. Without
    repeats, noise is unknown.
    """
    old, new = dict(_single(before)), dict(_single(after))
    return [
        Change(*place, value, new[place], change=new[place] / value - 1, noise=None, verdict="unknown")
        for place, value in old.items()
        if place in new and value > 0
    ]


def _single(results: Results) -> Iterator[tuple[tuple[str, str, str], float]]:
    for cost in results.costs:
        if not cost.unexpected:
            at = f"at {cost.connections}"
            yield (cost.scenario, at, "us/req"), cost.cpu_us
            yield (cost.scenario, at, "req/s"), cost.per_second
    for point in results.points:
        if point.steps and point.label.endswith("%"):
            yield (
                (point.scenario, " ".join(filter(None, (point.label, point.setting))), "offered/s"),
                point.steps[0].rate,
            )
    for kind, rows in (("mark", results.marks), ("figure", results.figures)):
        for row in rows:
            if row.value is not None:
                yield (kind, row.unit, row.name), row.value


def _centre(values: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, values)))


def difference(before: Sequence[float], after: Sequence[float]) -> tuple[float, float | None]:
    """Return the change of the geometric mean as a share, and the share it must exceed to count.

    Values must be above 0.
    """
    old, new = ([math.log(value) for value in values] for values in (before, after))
    change = math.exp(fmean(new) - fmean(old)) - 1
    if min(len(old), len(new)) < 2:
        return change, None
    parts = [variance(values) / len(values) for values in (old, new)]
    bound = _t_bound(parts, [len(old) - 1, len(new) - 1]) * math.sqrt(sum(parts))
    return change, max(math.exp(min(bound, 10.0)) - 1, SMALLEST)


def _t_bound(parts: Sequence[float], freedoms: Sequence[int]) -> float:
    """Return the limit of Student's t for Welch's degrees of freedom."""
    spread = sum(part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True))
    freedom = sum(parts) ** 2 / spread if spread else min(freedoms)
    return [bound for known, bound in _T_BOUNDS if known <= max(freedom, 1)][-1]


def _verdict(change: float, noise: float | None, better_when: int) -> str:
    if noise is None:
        return "unknown"
    # A fall counts as much as a rise: on a logarithmic scale, -9.1 % equals +10 %.
    if abs(math.log1p(change)) <= math.log1p(noise):
        return "same" if noise <= SAME_WITHIN else "unknown"
    return "better" if change * better_when > 0 else "worse"
