"""Queries over a cohort whose nodes are killed repeatedly. `python -m tests.storm.cohorts` runs it at full size."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.processes.commands import Commands
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.storm.cohorts.run import Size, storm

PATIENCE_S = 400.0
SIZE = Size(members=260, kill_every_s=0.5, kills_max=3)


async def test_repeatedly_killed_node_loses_no_row_and_charges_none_twice(tmp_path: Path, commands: Commands) -> None:
    with trio.fail_after(PATIENCE_S):
        figures = await storm(tmp_path, SIZE, commands, store_url=f"sqlite:///{tmp_path / 'sluice.db'}")
    assert figures["kills"] >= 2


async def test_three_nodes_under_kills_lose_no_row_and_charge_none_twice(
    tmp_path: Path, commands: Commands, postgres: PostgresServer, empty_redis: RedisServer
) -> None:
    with trio.fail_after(PATIENCE_S):
        figures = await storm(tmp_path, SIZE, commands, store_url=postgres.fresh(), state_url=empty_redis.url)
    assert figures["kills"] >= 2
