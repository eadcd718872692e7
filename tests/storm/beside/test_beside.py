"""Misses with and without jobs. `python -m tests.storm.beside` runs it at full size and judges the times."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from bench.core.results import MemorySample, Step
from tests.processes.commands import Commands
from tests.storm.beside.compare import BackgroundJobs, Compared, Pace, compare
from tests.storm.beside.crawls import crawls
from tests.storm.beside.discovering import discover_runs


@pytest.mark.parametrize("make", [crawls, discover_runs])
async def test_misses_run_with_paused_and_running_jobs_in_turn(
    make: Callable[[int], BackgroundJobs], tmp_path: Path, commands: Commands
) -> None:
    with trio.fail_after(120):
        compared = await compare(tmp_path, make(3), Pace(per_s=20, seconds=1, turns=1), commands)
    assert [(one.requests, one.unanswered, one.unexpected) for one in (*compared.without, *compared.beside)] == [
        (20, 0, {})
    ] * 2
    assert compared.pages > 0
    assert compared.highest_mb >= compared.alone_mb > 0


def turn(p99_ms: float) -> Step:
    memory = (MemorySample(0.0, 100_000_000, 0),)
    return Step(20, 20, 0, 0, 0, 0, 1, 1, p99_ms, p99_ms, p99_ms, 0, 20, 0, 1, {}, memory)


def test_each_turn_is_compared_with_the_previous_one() -> None:
    """A machine that becomes four times as slow in between must not look like an effect of the jobs."""
    compared = Compared([turn(10), turn(40), turn(10)], [turn(14), turn(56), turn(90)], pages=1)
    assert (compared.p99_times, compared.flaws()) == (1.4, [])


def test_comparison_reports_every_problem() -> None:
    refused = replace(turn(16), unexpected={"503": 2}, unanswered=1)
    compared = Compared([turn(10)], [refused], alone_mb=100, highest_mb=200)
    assert compared.flaws() == [
        "the p99 is 1.60 times as long",
        "misses failed: {'503': 2, 'unanswered': 1}",
        "no page was read beside them",
        "the node grew by 100 MB",
    ]
