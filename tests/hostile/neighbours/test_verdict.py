"""The verdict: each bound fails exactly when it is exceeded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.hostile.neighbours.measuring import percentile
from tests.hostile.neighbours.neighbour import BALANCE, WEB, Record
from tests.hostile.neighbours.run import Figures, Money, Phase
from tests.hostile.neighbours.scenarios import SCENARIOS, Scenario
from tests.hostile.neighbours.verdict import FULL, SMALL, flaws

SCENARIO: Scenario = replace(SCENARIOS["control"], kinds=(WEB, BALANCE))
MINUTE = 60.0


def record(wait_s: float, *statuses: str) -> Record:
    made = Record()
    for status in statuses or ("200",) * 20:
        made.add(status, wait_s)
    return made


def phase(web_s: float = 0.1, balance_s: float = 0.002, cpu_s: float = 0.0, **mb: float) -> Phase:
    return Phase({"web read": record(web_s), "balance": record(balance_s)}, MINUTE, cpu_s, mb)


def figures(beside: Phase, **in_flight_s: float) -> Figures:
    return Figures(phase(), beside, {"in_flight_s": in_flight_s}, Money(0, 0, 0))


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.95, 0.0), ([3.0], 0.5, 3.0), ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0), ([*map(float, range(1, 101))], 0.95, 95.0)],
)
def test_percentile_is_the_smallest_value_of_that_rank(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


def test_waits_within_three_times_the_baseline_pass() -> None:
    assert flaws(SCENARIO, figures(phase(0.29, 0.029)), FULL) == []


@pytest.mark.parametrize(
    ("beside", "name"),
    [
        (phase(web_s=0.31), "web read"),
        (phase(balance_s=0.051), "balance"),
        (phase(node=351.0), "memory of node"),
        (phase(workers=1_501.0), "memory of workers"),
    ],
)
def test_exceeded_bound_is_named(beside: Phase, name: str) -> None:
    (flaw,) = flaws(SCENARIO, figures(beside), FULL)
    assert flaw.startswith(name)


def test_absolute_bound_applies_to_a_slow_baseline() -> None:
    slow = replace(figures(phase(web_s=2.1)), alone=phase(web_s=1.0))
    assert len(flaws(SCENARIO, slow, FULL)) == 1


def test_refusal_of_the_neighbor_fails_at_any_speed() -> None:
    beside = phase()
    beside.records["web read"].add("503", 0.001)
    (flaw,) = flaws(SCENARIO, figures(beside), SMALL)
    assert "503" in flaw


def test_cpu_time_of_refunded_calls_is_bounded() -> None:
    """Goal: no endless refunds. Method: 40 s of CPU, with refunded calls three quarters of the time in flight."""
    (flaw,) = flaws(SCENARIO, figures(phase(cpu_s=40.0), refunded=75.0, charged=25.0), FULL)
    assert flaw.startswith("refunded calls took 30 s of CPU")
    assert flaws(SCENARIO, figures(phase(cpu_s=40.0), refunded=25.0, charged=75.0), FULL) == []


def test_small_run_fails_only_for_gross_faults() -> None:
    assert flaws(SCENARIO, figures(phase(web_s=2.9, balance_s=0.9)), SMALL) == []
    assert len(flaws(SCENARIO, figures(phase(web_s=4.0, balance_s=1.1)), SMALL)) == 2
