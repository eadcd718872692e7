"""The verdict on a scenario's figures: each bound that does not hold, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.hostile.neighbours.neighbour import Kind, Record
from tests.hostile.neighbours.run import Figures
from tests.hostile.neighbours.scenarios import Scenario

FREE_CPU_S = 5.0
"""CPU seconds by refunded calls that are allowed in any case: an attack's first calls, before the node reacts."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """How far the neighbour's p95 may rise."""

    times: float
    """Times its p95 alone, or times the kind's floor, whichever is more."""
    at_least_s: float
    """A p95 up to this is never too much."""
    is_capped: bool
    """Whether the kind's absolute bound holds too."""

    def most_s(self, kind: Kind, alone: Record) -> float:
        """The most that the p95 of a kind may be, beside a p95 alone."""
        most_s = self.times * max(alone.p95_s, kind.floor_s)
        return min(most_s, kind.most_s) if self.is_capped else max(most_s, self.at_least_s)


FULL = Strictness(3.0, 0.0, is_capped=True)
SMALL = Strictness(5.0, 1.0, is_capped=False)
"""For short runs on a busy machine: only gross faults fail."""


def flaws(scenario: Scenario, figures: Figures, strictness: Strictness) -> list[str]:
    """Each bound that does not hold; an empty list is a pass."""
    return [*_waits(scenario, figures, strictness), *_memory(scenario, figures), *_unpaid(scenario, figures)]


def _waits(scenario: Scenario, figures: Figures, strictness: Strictness) -> Iterator[str]:
    for kind in scenario.kinds:
        alone, beside = figures.alone.records[kind.name], figures.beside.records[kind.name]
        most_s = strictness.most_s(kind, alone)
        if beside.p95_s > most_s:
            yield f"{kind.name}: p95 {beside.p95_s:.3f} s, at most {most_s:.3f} s is allowed"
        others = {status: number for status, number in beside.statuses.items() if status not in ("200", "unanswered")}
        if others:
            yield f"{kind.name}: answers other than 200: {others}"


def _memory(scenario: Scenario, figures: Figures) -> Iterator[str]:
    most_mb = {"node": scenario.node_mb, "workers": scenario.workers_mb, "browser": scenario.browser_mb}
    for part, mb in figures.beside.peaks_mb.items():
        if mb > most_mb[part]:
            yield f"memory of {part}: {mb:.0f} MB, at most {most_mb[part]:.0f} MB is allowed"


def _unpaid(scenario: Scenario, figures: Figures) -> Iterator[str]:
    if scenario.unpaid_s is None:
        return
    most_s = max(FREE_CPU_S, scenario.unpaid_s * figures.beside.seconds / 60)
    if figures.unpaid_s > most_s:
        yield f"refunded calls took {figures.unpaid_s:.0f} s of CPU, at most {most_s:.0f} s is allowed"
