"""Monitors while nodes are killed about every second: each slot ends once, and is charged at most once.

`python -m tests.storm.slots` runs the same with a hundred thousand slots.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from tests.processes.commands import Commands
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.storm.slots.run import Size, storm

PATIENCE_S = 600.0
SLOTS, KILLS, RESUMED = 600, 3, 5
SIZE = Size(SLOTS, KILLS, RESUMED, accounts=6, monitors=120, kill_every_s=1.0)


def assert_covered(figures: dict[str, Any]) -> None:
    """Check that all events that the test must cover have happened."""
    assert figures["kills"] >= KILLS
    assert figures["slots"] >= SLOTS
    assert figures["resumed"] >= RESUMED
    assert figures["statuses"].keys() == {"ok", "failed", "skipped"}


async def test_every_slot_ends_once_on_a_repeatedly_killed_node(tmp_path: Path, commands: Commands) -> None:
    with trio.fail_after(PATIENCE_S):
        assert_covered(await storm(tmp_path, SIZE, commands, store_url=f"sqlite:///{tmp_path / 'sluice.db'}"))


async def test_every_slot_ends_once_on_three_nodes_under_kills(
    tmp_path: Path, commands: Commands, postgres: PostgresServer, empty_redis: RedisServer
) -> None:
    with trio.fail_after(PATIENCE_S):
        assert_covered(await storm(tmp_path, SIZE, commands, store_url=postgres.fresh(), state_url=empty_redis.url))
