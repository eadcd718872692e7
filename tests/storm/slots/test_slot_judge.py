"""The judge of the storm of slots finds the faults that it checks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from scheduler.monitors.runs.runs import GIVEN_UP
from tests.storm.slots.judge import Event, Found, Money, MonitorRow, RunRow, judge

SLOTS = (300.0, 600.0, 900.0, 1200.0)
MONITOR = MonitorRow("mon_1", "acc_1", "{}", 0.0, 3, 4)
RUNS = (
    RunRow("run_1", "mon_1", "acc_1", 300.0, "ok", 1, 2, None),
    RunRow("run_2", "mon_1", "acc_1", 600.0, "partial", 2, 2, None),
    RunRow("run_3", "mon_1", "acc_1", 900.0, "failed", 1, 0, "it answered 404"),
    RunRow("run_4", "mon_1", "acc_1", 1200.0, "skipped", 0, 0, "missed"),
)
SPENT = {"run_1": (1, 2), "run_2": (0, 0), "run_2.2": (1, 2), "run_3": (0, 0)}
EVENTS = (
    Event("monitor.run_completed", "run_1", "mon_1"),
    Event("monitor.run_completed", "run_2", "mon_1"),
    Event("monitor.run_failed", "run_3", "mon_1"),
    Event("monitor.run_skipped", "run_4", "mon_1"),
)
SOUND = Found((MONITOR,), RUNS, SPENT, EVENTS, (Money("acc_1", 96, 0, 100),))


def verdicts(found: Found, *, calls: int = 4) -> list[str]:
    return list(judge(found, slots_of=lambda _monitor: SLOTS, calls={"mon_1": calls}))


def with_run(number: int, **changes: object) -> Found:
    runs = list(RUNS)
    runs[number] = runs[number]._replace(**changes)  # type: ignore[arg-type]
    return replace(SOUND, runs=runs)


def test_sound_store_passes_with_or_without_an_interrupted_call() -> None:
    assert verdicts(SOUND) == verdicts(SOUND, calls=3) == []


def test_abandoned_run_may_have_no_call() -> None:
    assert verdicts(with_run(2, skip_reason=GIVEN_UP), calls=2) == []


Spoil = Callable[[], Found]


@pytest.mark.parametrize(
    ("spoil", "verdict"),
    [
        (lambda: replace(SOUND, runs=RUNS[:3]), "mon_1: the slot 1200 was lost"),
        (lambda: with_run(3, scheduled_for=900.0), "mon_1: the slot 900 was run 2 times"),
        (lambda: with_run(3, scheduled_for=901.0), "mon_1: the slot 901 is none"),
        (lambda: with_run(0, status="running"), "run_1 is running at the end"),
        (lambda: with_run(3, skip_reason=None), "run_4 is skipped for no reason"),
        (lambda: replace(SOUND, monitors=[MONITOR._replace(runs_total=4)]), "mon_1 tells (4, 4) of runs and credits"),
        (lambda: replace(SOUND, spent={**SPENT, "run_2": (1, 2)}), "run_2 used 2 credits and was settled 2 times"),
        (lambda: replace(SOUND, spent={**SPENT, "run_1": (1, 3)}), "run_1 used 2 credits and was charged 3"),
        (lambda: replace(SOUND, spent={**SPENT, "run_9": (1, 2)}), "run_9 was charged and is no run"),
        (lambda: replace(SOUND, events=EVENTS[1:]), "run_1 is ok and its events are []"),
        (lambda: replace(SOUND, events=[*EVENTS, EVENTS[0]]), "run_1 is ok and its events are ['monitor.run_comp"),
        (lambda: with_run(2, status="skipped"), "run_3 is skipped and its events are ['monitor.run_failed']"),
        (
            lambda: replace(SOUND, events=[*EVENTS, Event("", "run_9", None)]),
            "an event tells of run_9, which is no run",
        ),
        (lambda: replace(SOUND, money=[Money("acc_1", 96, 2, 100)]), "acc_1 holds 2 credits at the end"),
        (lambda: replace(SOUND, money=[Money("acc_1", 95, 0, 100)]), "acc_1 has 95 of 100 credits, its runs used 4"),
    ],
)
def test_judge_finds_each_fault_of_a_store(spoil: Spoil, verdict: str) -> None:
    assert any(told.startswith(verdict) for told in verdicts(spoil()))


@pytest.mark.parametrize("calls", [2, 5])
def test_missing_and_unexplained_calls_are_found(calls: int) -> None:
    found: Sequence[str] = verdicts(SOUND, calls=calls)
    assert found == [f"mon_1 has asked {calls} times, its runs tell of 3 to 4"]
