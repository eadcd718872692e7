"""A server that dies, or stands still, and comes back under load."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from tests.many.harness import Answer, Cluster, open_load, p99_s
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

AWAY_S = 3.0
FROZEN_S = 10.0
P99_S = 0.05
BACK_S = 1.0
SETTLE_S = 0.5


def assert_refused(answers: Sequence[Answer], began: float, ended: float) -> None:
    """Who came while the server was away was told so at once, and nobody paid."""
    away = [answer for answer in answers if began <= answer.sent_at and answer.there_at < ended]
    assert len(away) > 100
    for answer in away:
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "SERVICE_UNAVAILABLE", "1"), answer
        assert answer.json["credits_used"] == 0
    assert p99_s(answer.took_s for answer in away) <= P99_S


def assert_back(cluster: Cluster, answers: Sequence[Answer], at: float) -> None:
    """A second after the server's return everyone is served."""
    later = [answer for answer in answers if answer.sent_at > at + BACK_S]
    assert len(later) > 50
    assert {answer.status for answer in later} == {200}


async def test_while_redis_is_gone_everyone_is_refused_at_once_and_served_within_a_second_of_its_return(
    cluster: Cluster, empty_redis: RedisServer
) -> None:
    async with open_load(cluster) as answers:
        await trio.sleep(SETTLE_S)
        empty_redis.kill()
        began = trio.current_time()
        await trio.sleep(AWAY_S)
        assert (await cluster.readiness(cluster.nodes[0]))[0] == 503
        ended = trio.current_time()
        await trio.to_thread.run_sync(empty_redis.start)
        back = trio.current_time()
        await trio.sleep(BACK_S + SETTLE_S + 0.5)
        assert (await cluster.readiness(cluster.nodes[0]))[0] == 200
    assert_refused(answers, began, ended)
    assert_back(cluster, answers, back)


async def test_while_redis_stands_still_everyone_is_refused_at_once_and_served_within_a_second_when_it_goes_on(
    cluster: Cluster, empty_redis: RedisServer
) -> None:
    async with open_load(cluster) as answers:
        await trio.sleep(SETTLE_S)
        empty_redis.freeze()
        began = trio.current_time()
        await trio.sleep(FROZEN_S)
        ended = trio.current_time()
        empty_redis.thaw()
        await trio.sleep(BACK_S + SETTLE_S + 0.5)
    assert_refused(answers, began, ended)
    assert_back(cluster, answers, ended)


async def test_while_postgresql_is_gone_nobody_knows_a_balance_and_nothing_is_lost_or_charged_twice(
    cluster: Cluster, postgres: PostgresServer
) -> None:
    async with open_load(cluster) as answers:
        await trio.sleep(SETTLE_S)
        postgres.kill()
        began = trio.current_time()
        await trio.sleep(AWAY_S)
        assert (await cluster.readiness(cluster.nodes[0]))[0] == 503
        ended = trio.current_time()
        await trio.to_thread.run_sync(postgres.start)
        back = trio.current_time()
        await trio.sleep(BACK_S + SETTLE_S + 0.5)
    assert_refused(answers, began, ended)
    assert_back(cluster, answers, back)
    for answer in answers:
        if began <= answer.sent_at and answer.there_at < ended:
            assert answer.json["credits_remaining"] is None
            assert "x-credits-remaining" not in answer.headers
