"""Two nodes over a Redis Cluster, or over a primary that Sentinel watches, which is killed under load.

Redis replicates a write shortly after it has answered. Writes that a primary has not replicated before it dies are
lost. A window may then admit as many additional requests as writes were lost, but no more. Credits are not in Redis.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from storage.redis.call import slot_of
from tests.many.harness import Answer, Cluster, open_cluster, until
from tests.many.load import assert_served, open_load
from tests.processes.fleet import Fleet
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer, open_watched
from tests.servers.redis import open_cluster as open_redis_cluster

TWO = (0.0, 0.0)
LIMIT = 100
PER_S = 50.0
BEFORE_S = 1.0
FULL_S = 40.0
BACK_S = 60.0
NOT_PASSED_ON_S = 0.25


async def test_window_survives_a_sentinel_failover(fleet: Fleet, tmp_path: Path, postgres: PostgresServer) -> None:
    with open_watched(tmp_path / "redis") as watched:
        async with open_cluster(
            fleet,
            tmp_path,
            store_url=postgres.fresh(),
            state_url=watched.url,
            skews_s=TWO,
            limits__requests_per_minute=LIMIT,
        ) as nodes:
            _, key = await nodes.new_key(balance=1000)
            await _lose_primary(nodes, watched.servers[0], key)


async def test_window_survives_a_cluster_failover_without_affecting_other_keys(
    fleet: Fleet, tmp_path: Path, postgres: PostgresServer
) -> None:
    with open_redis_cluster(tmp_path / "redis", replicas=True) as servers:
        for server in servers:
            server.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
        url = f"redis+cluster://127.0.0.1:{servers[0].port},127.0.0.1:{servers[1].port}"
        async with open_cluster(
            fleet,
            tmp_path,
            store_url=postgres.fresh(),
            state_url=url,
            skews_s=TWO,
            limits__requests_per_minute=LIMIT,
        ) as nodes:
            victim, other = await _key_on(nodes, 0), await _key_on(nodes, 2)
            async with open_load(nodes, per_s=5, key=other) as unmoved:
                await _lose_primary(nodes, servers[0], victim)
            assert_served(unmoved)


async def _key_on(nodes: Cluster, third: int) -> str:
    """Return a key of an account whose Redis slot is in that third of the slots."""
    while True:
        account, key = await nodes.new_key(balance=1000)
        if slot_of(b"{%b}" % account.encode()) * 3 // 16384 == third:
            return key


async def _lose_primary(nodes: Cluster, primary: RedisServer, key: str) -> None:
    async with open_load(nodes, per_s=PER_S, key=key) as answers:
        await trio.sleep(BEFORE_S)
        primary.kill()
        killed_at = trio.current_time()

        async def is_back() -> bool:
            await trio.lowlevel.checkpoint()
            statuses = [answer.status for answer in answers if answer.sent_at > killed_at]
            return 503 in statuses and 503 not in statuses[-5:]

        await until(is_back, within_s=BACK_S)

        async def is_full() -> bool:
            await trio.lowlevel.checkpoint()
            return [answer.status for answer in answers[-5:]] == [429] * 5

        await until(is_full, within_s=FULL_S)
    _assert_counted(answers, killed_at)


def _assert_counted(answers: Sequence[Answer], killed_at: float) -> None:
    served = [answer for answer in answers if answer.status == 200]
    perhaps_lost = [one for one in served if abs(one.there_at - killed_at) < NOT_PASSED_ON_S]
    assert LIMIT <= len(served) <= LIMIT + len(perhaps_lost)
    assert answers[-1].status == 429
    for answer in answers:
        if answer.status == 503:
            assert (answer.headers["retry-after"], answer.json["credits_used"]) == ("1", 0)
