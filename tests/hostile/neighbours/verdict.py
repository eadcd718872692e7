"""The verdict on a scenario's figures: a message for each exceeded bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.hostile.neighbours.measuring import percentile
from tests.hostile.neighbours.neighbour import Kind, Record
from tests.hostile.neighbours.run import Figures
from tests.hostile.neighbours.scenarios import Scenario

TIMES = 3.0
"""The neighbor's calls may take this many times as long as without the attack, or as the kind's floor."""
FREE_CPU_S = 5.0
"""CPU seconds of refunded calls that are always allowed: an attack's first calls, before the node reacts."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """The percentile of the neighbor's waits that is checked, and the maximum that it may reach."""

    share: float
    """The percentile: 0.95, or the median for runs with few calls."""
    is_small: bool = False
    """Whether only gross faults fail, because a busy machine causes small ones."""

    def wait_s(self, record: Record) -> float:
        """Return the neighbor's wait at the percentile."""
        return percentile(record.waits_s, self.share)

    def most_s(self, kind: Kind, alone: Record) -> float:
        """Return the maximum of that wait during the attack."""
        most_s = TIMES * max(self.wait_s(alone), kind.floor_s)
        return max(most_s, kind.small_s) if self.is_small else min(most_s, kind.most_s)


FULL = Strictness(0.95)
SMALL = Strictness(0.5, is_small=True)


def flaws(scenario: Scenario, figures: Figures, strictness: Strictness) -> list[str]:
    """Return a message for each exceeded bound; an empty list is a pass."""
    return [*_waits(scenario, figures, strictness), *_memory(scenario, figures), *_unpaid(scenario, figures)]


def _waits(scenario: Scenario, figures: Figures, strictness: Strictness) -> Iterator[str]:
    for kind in scenario.kinds:
        alone, beside = figures.alone.records[kind.name], figures.beside.records[kind.name]
        wait_s, most_s = strictness.wait_s(beside), strictness.most_s(kind, alone)
        if wait_s > most_s:
            percent = f"p{strictness.share * 100:.0f}"
            yield f"{kind.name}: {percent} {wait_s:.3f} s, at most {most_s:.3f} s is allowed"
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
