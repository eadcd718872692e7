"""A node that is killed two hundred times under mixed load: no double charge, no lost outcome, sound books throughout.

A failure prints its seed; `python -m tests.crash --seed N --kills M` runs it again, or for longer.
"""

from __future__ import annotations

from pathlib import Path

import trio

from tests.crash.run import ordeal

KILLS = 200
SEED = 20
PATIENCE_S = 400.0


async def test_two_hundred_kills_lose_no_finished_outcome_and_charge_nobody_twice(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE_S):
        report = await ordeal(tmp_path, kills=KILLS, seed=SEED)
    assert report.kills == KILLS
    assert report.during_start > KILLS // 10
    assert report.recovered > KILLS, "kills found calls under way"
    for happened in (
        "cached",
        "half refunded",
        "replayed",
        "taken over",
        "retried",
        "hung up",
        "plain 502",
        "plain 404",
    ):
        assert report.counts[happened] > 10, happened
