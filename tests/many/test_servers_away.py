"""A server that dies or freezes under load, and returns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import cycle
from statistics import median

import trio

from tests.many.harness import Answer, Cluster, Node, until
from tests.many.load import assert_served, open_load, p99_s
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

AWAY_S = 2.0
FROZEN_S = 4.0
AT_ONCE_S, SOON_S = 0.05, 1.0
"""The maximum extra time of the median and of the p99 of refusals, compared with requests that need no server."""
CHECK_EVERY_S = 0.02
BACK_S = 1.0
SETTLE_S = 0.5


async def without(
    cluster: Cluster, go: Callable[[], None], come_back: Callable[[], None], *, away_s: float = AWAY_S
) -> list[Answer]:
    """Send load while a server goes away and returns. Return the answers from the time without it.

    While the server is away, all requests must be refused immediately and for free. Within a second of its return, they
    must be served again.
    """
    async with open_load(cluster) as answers:
        await trio.sleep(SETTLE_S)
        go()
        began = trio.current_time()
        idle_s = [(await cluster.health(node)).took_s async for node in turns(cluster, until=began + away_s)]
        assert (await cluster.readiness(cluster.nodes[0]))[0] == 503
        ended = trio.current_time()
        await trio.to_thread.run_sync(come_back)
        back = trio.current_time()
        await trio.sleep(BACK_S + SETTLE_S + 0.5)
        await until(partial(_is_ready, cluster), within_s=30)
    away = [answer for answer in answers if began <= answer.sent_at and answer.there_at < ended]
    assert_refused(away)
    took_s = [answer.took_s for answer in away]
    assert median(took_s) <= AT_ONCE_S + p99_s(idle_s)
    assert p99_s(took_s) <= SOON_S + p99_s(idle_s)
    assert_back(answers, back)
    return away


async def _is_ready(cluster: Cluster) -> bool:
    return (await cluster.readiness(cluster.nodes[0]))[0] == 200


async def turns(cluster: Cluster, *, until: float) -> AsyncIterator[Node]:
    """Send requests to the nodes in turn until a given time."""
    for node in cycle(cluster.nodes):
        if trio.current_time() >= until:
            return
        yield node
        await trio.sleep(CHECK_EVERY_S)


def assert_refused(answers: Sequence[Answer]) -> None:
    """Check that each response had a Retry-After and cost nothing."""
    assert len(answers) > 100
    for answer in answers:
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "SERVICE_UNAVAILABLE", "1"), answer
        assert answer.json["credits_used"] == 0


def assert_back(answers: Sequence[Answer], at: float) -> None:
    """Check that requests are served a second after the server's return, except timeouts of a busy machine."""
    later = [answer for answer in answers if answer.sent_at > at + BACK_S]
    assert len(later) > 50
    assert_served(later)


async def test_nodes_without_redis_refuse_immediately_and_recover_within_a_second(
    cluster: Cluster, empty_redis: RedisServer
) -> None:
    await without(cluster, empty_redis.kill, empty_redis.start)


async def test_nodes_with_frozen_redis_refuse_immediately_and_recover_within_a_second(
    cluster: Cluster, empty_redis: RedisServer
) -> None:
    await without(cluster, empty_redis.freeze, empty_redis.thaw, away_s=FROZEN_S)


async def test_missing_postgresql_loses_nothing_and_charges_nothing_twice(
    cluster: Cluster, postgres: PostgresServer
) -> None:
    for answer in await without(cluster, postgres.kill, postgres.start):
        assert answer.json["credits_remaining"] is None
        assert "x-credits-remaining" not in answer.headers
