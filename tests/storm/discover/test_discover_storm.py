"""Discover runs whose nodes are killed repeatedly. `python -m tests.storm.discover` runs it at full size."""

from pathlib import Path

import trio

from tests.processes.commands import Commands
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.storm.discover.run import Report, Size, storm

SIZE = Size(legs=64, keywords=8, runs=2, kill_every_s=0.5, kills_max=3, page_s=0.02)


def assert_covered(report: Report) -> None:
    assert report.kills >= 2
    assert report.pages_read >= report.pages > 2 * 64


async def test_run_loses_no_row_and_is_charged_for_no_page_twice_under_kills(
    tmp_path: Path, commands: Commands
) -> None:
    with trio.fail_after(300):
        assert_covered(await storm(tmp_path, SIZE, commands))


async def test_run_continues_on_another_of_three_nodes(
    tmp_path: Path, commands: Commands, postgres: PostgresServer, empty_redis: RedisServer
) -> None:
    with trio.fail_after(300):
        report = await storm(tmp_path, SIZE, commands, store_url=postgres.fresh(), state_url=empty_redis.url)
    assert_covered(report)
