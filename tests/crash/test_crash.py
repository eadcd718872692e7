"""A node that is killed repeatedly under mixed load: no double charge, no lost outcome, and a sound ledger.

A failure prints its seed. `python -m tests.crash --seed N --kills M` repeats the run, or a longer one.
"""

from __future__ import annotations

from pathlib import Path

import trio

from tests.crash.run import Report, crash_run
from tests.processes.commands import Commands

KILLS = 40
SEED = 20
OFTEN = 2
PATIENCE_S = 900.0
TO_HAPPEN = (
    "cached",
    "half refunded",
    "replayed",
    "taken over",
    "retried",
    "hung up",
    "plain 502",
    "plain 404",
)
"""The events that depend on a machine's timing. Kills continue until all of them have happened."""


def has_met_all(report: Report) -> bool:
    """Return whether the kills interrupted calls in progress, and clients have met every case."""
    return report.recovered > KILLS and all(report.counts[happened] >= OFTEN for happened in TO_HAPPEN)


async def test_many_kills_lose_no_outcome_and_charge_nothing_twice(tmp_path: Path, commands: Commands) -> None:
    with trio.fail_after(PATIENCE_S):
        report = await crash_run(tmp_path, commands, kills=KILLS, seed=SEED, is_enough=has_met_all)
    assert report.kills >= KILLS
    assert report.during_start > KILLS // 10
