"""The archive is written during misses in every second turn, and its lock is held in the others."""

from pathlib import Path

import trio

from bench.scenarios.archiving import Archiving, TurnFigures, figures_of, measure


async def test_turns_alternate_with_and_without_the_archive(tmp_path: Path) -> None:
    with trio.fail_after(180):
        found = await measure(Archiving(str(tmp_path), rows=4_000, accounts=4, per_s=20, seconds=0.5, turns=1))
    assert (len(found.without), len(found.archiving)) == (1, 1)
    assert found.without[0].rows == 0
    assert found.rows == found.archiving[0].rows > 0
    assert min(found.p50_times, found.p99_times) > 0


def test_each_turn_is_compared_with_the_previous_one() -> None:
    turns = [TurnFigures(1.0 * pace, 2.0 * pace, 100, 1_000, 0.1, 0.5, 0) for pace in (1, 10, 100)]
    slower = [TurnFigures(2.0 * pace, 6.0 * pace, 100, 1_000, 0.1, 0.5, 500) for pace in (1, 10, 100)]
    found = figures_of(turns, slower)
    assert (found.p50_times, found.p99_times, found.rows) == (2.0, 3.0, 1_500)
    assert not found.is_met
    assert figures_of(turns, turns).is_met
