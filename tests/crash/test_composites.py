"""Composites and batches under SIGKILL. `python -m tests.crash --of composites --seed N` repeats a failed run."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.crash.composites import crash_run
from tests.processes.commands import Commands

KILLS, SEED = 8, 7


async def test_credits_of_killed_composites_are_used_or_refunded(tmp_path: Path, commands: Commands) -> None:
    """Goal: used + refunded = reserved, despite legs that fail or hang, clients that disconnect, and SIGKILL."""
    with trio.fail_after(300):
        report = await crash_run(tmp_path, commands, kills=KILLS, seed=SEED)
    assert report.recovered >= KILLS, "kills must interrupt calls in progress"
    assert report.proved >= KILLS
    assert min(report.counts[name] for name in ("ok", "partly", "hung up")) > 0, report.counts
