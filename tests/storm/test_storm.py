"""The feed while nodes are killed about every second: no event is lost, repeated or reordered, and polls become free.

`python -m tests.storm` runs the same with a million events.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from tests.processes.commands import Commands
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.storm.run import Size, storm

PATIENCE_S = 600.0
EVENTS, KILLS = 5_000, 4
SIZE = Size(EVENTS, KILLS, accounts=3, consumers=4, kill_every_s=0.8)


def assert_covered(figures: dict[str, Any]) -> None:
    """Check that all events that the test must cover have happened."""
    assert figures["kills"] >= KILLS
    assert figures["events"] >= EVENTS
    for happened in ("walked", "consumed", "lost_connections", "long_polls", "rereads", "restarts", "acknowledged"):
        assert figures[happened], (happened, figures)


async def test_repeatedly_killed_node_keeps_every_feed_complete(tmp_path: Path, commands: Commands) -> None:
    with trio.fail_after(PATIENCE_S):
        assert_covered(await storm(tmp_path, SIZE, commands, store_url=f"sqlite:///{tmp_path / 'sluice.db'}"))


async def test_three_nodes_under_kills_keep_every_feed_complete(
    tmp_path: Path, commands: Commands, postgres: PostgresServer, empty_redis: RedisServer
) -> None:
    """One poll per key must be free again; the other polls of a dead node may count for another half minute."""
    size = Size(EVENTS, KILLS, accounts=3, consumers=4, kill_every_s=0.8, polls_free=1)
    with trio.fail_after(PATIENCE_S):
        assert_covered(await storm(tmp_path, size, commands, store_url=postgres.fresh(), state_url=empty_redis.url))
