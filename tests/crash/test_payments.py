"""Payments under SIGKILL on both engines. `python -m tests.crash --of payments --seed N` repeats a failed run."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.crash.payments import crash_run
from tests.processes.commands import Commands

KILLS, SEED = 5, 3


async def test_payment_events_during_kills_count_once_without_loss(
    tmp_path: Path, commands: Commands, store_url: str
) -> None:
    """Goal: purchases, refunds and disputes match Stripe's events, despite SIGKILL and disconnects."""
    with trio.fail_after(300):
        report = await crash_run(tmp_path, commands, kills=KILLS, seed=SEED, store_url=store_url)
    assert report.kills == KILLS
    assert min(report.paid, report.told) > KILLS
    assert min(report.counts[name] for name in ("hung up", "call 200", "purchase 201", "event 200")) > 0, report.counts
