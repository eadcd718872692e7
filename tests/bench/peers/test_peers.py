"""The peers serve the requests of the scenarios."""

import os
import shutil
from pathlib import Path

import pytest
import trio

from bench.core.scenarios import SCENARIOS
from bench.cost import COSTED, measure_cost, staged
from bench.load.closed_load import ClosedLoad
from bench.load.driving import drive
from bench.load.keys import NEW_FROM
from bench.load.request_spec import RequestSpec
from bench.peers.servers import Bed, can_run, open_hello, open_nginx, open_plain, open_stage
from bench.peers.shared_servers import missing_servers
from tests.bench.scripted_server import open_scripted

FORWARDED = "/api.github.com/users/user{n}?page=2"


def asked_for(first: int, last: int) -> set[bytes]:
    return {b"/api.github.com/users/user%d?page=2" % (NEW_FROM + n) for n in range(first, last + 1)}


async def test_hello_answers_every_request(tmp_path: Path) -> None:
    with trio.fail_after(90):
        async with open_hello(Bed(folder=tmp_path)) as target:
            load = ClosedLoad(RequestSpec(target.url, "/"), connections=4, warmup_s=0, requests_max=100, pid=target.pid)
            result = await drive(load)
    assert result.requests == 100
    assert result.unexpected == {}
    assert result.server_rss_bytes > 0


async def test_plain_forwards_path_and_query_to_its_upstream(tmp_path: Path) -> None:
    with trio.fail_after(90):
        async with open_scripted() as asked, open_plain(Bed(tmp_path, asked.url)) as target:
            spec = RequestSpec(target.url, FORWARDED, keys="new")
            result = await drive(ClosedLoad(spec, connections=2, warmup_s=0, requests_max=20))
    assert result.requests == 20
    assert result.unexpected == {}
    assert set(asked.targets) >= asked_for(1, 20)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
async def test_nginx_checks_the_key_and_forwards(tmp_path: Path) -> None:
    with trio.fail_after(90):
        async with open_scripted() as asked, open_nginx(Bed(tmp_path, asked.url)) as target:
            spec = RequestSpec(target.url, FORWARDED, keys="new", headers=target.key_headers)
            served = await drive(ClosedLoad(spec, connections=2, warmup_s=0, requests_max=20))
            stranger = await drive(ClosedLoad(RequestSpec(target.url, "/"), connections=1, warmup_s=0, requests_max=1))
    assert (served.requests, served.unexpected) == (20, {})
    assert stranger.unexpected == {"401": 3}
    assert set(asked.targets) >= asked_for(1, 20)


async def test_node_with_postgres_and_redis_serves_billed_misses() -> None:
    if missing_servers():
        assert not os.environ.get("SLUICE_REQUIRE_SERVERS")
        pytest.skip("PostgreSQL and Redis are not installed")
    row = SCENARIOS["shared"]
    with trio.fail_after(90):
        async with open_stage(row.stage) as target:
            cost = await measure_cost(row, target, connections=4, seconds=0.3, warmup_s=0.1)
    assert cost.requests > 0
    assert cost.unexpected == {}


def test_runnable_scenarios_of_one_stage_share_a_server() -> None:
    groups = list(staged(COSTED))
    names = [row.name for rows in groups for row in rows]
    left_out = {"nginx": not shutil.which("nginx"), "shared": bool(missing_servers())}
    assert names == [name for name in COSTED if not left_out.get(name)]
    assert ["miss", "hit", "replay", "unauthorized"] in [[row.name for row in rows] for rows in groups]
    assert all(can_run(row.stage) and row.stage == rows[0].stage for rows in groups for row in rows)
