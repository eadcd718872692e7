"""The invariants of three nodes also hold across the workers of one node, and when any worker fails."""

from __future__ import annotations

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.many.conftest import OpenCluster
from tests.many.harness import SETTLED_S, Cluster, Node, open_cluster, until
from tests.many.load import FREE, MISS, ask_all, assert_filled, assert_served, open_load
from tests.processes.fleet import Fleet
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

WORKERS = 2
BOTH = set(range(WORKERS))
LIMIT = 200
REPLACED_S = 60.0
REFUND_S = 60.0
ANSWERED = re.compile(r'^sluice_requests_total\{.*worker="(\d+)".*\} ([1-9].*)$', re.MULTILINE)


def workers_of(node: Node) -> dict[int, int]:
    """Return the newest process of each worker."""
    return {event["worker"]: event["pid"] for event in node.process.events("worker_ready")}


async def answered_by(cluster: Cluster, node: Node) -> set[int]:
    """Return the workers that have answered requests."""
    return {int(number) for number, _ in ANSWERED.findall(await cluster.metrics(node))}


@pytest.fixture
def workers_of_one(fleet: Fleet, tmp_path: Path, postgres: PostgresServer, empty_redis: RedisServer) -> OpenCluster:
    """Opens one node with its workers on fresh servers."""
    return partial(
        open_cluster,
        fleet,
        tmp_path,
        store_url=postgres.fresh(),
        state_url=empty_redis.url,
        skews_s=(0.0,),
        server__workers=WORKERS,
        program="tests.many.quick_workers",
    )


async def test_workers_share_last_credit_idempotency_key_and_window(workers_of_one: OpenCluster) -> None:
    """One node for three tests, because each start loads the program three times."""
    async with workers_of_one(limits__requests_per_minute=LIMIT) as cluster:
        _, poor = await cluster.new_key(balance=1)
        answers = await ask_all(cluster, [MISS.format(n=number) for number in range(LIMIT)], key=poor)
        assert len([answer for answer in answers if answer.status == 200]) == 1
        refused = {answer.code for answer in answers if answer.status != 200}
        assert refused <= {"INSUFFICIENT_CREDITS", "CONCURRENCY_LIMIT"}, "429 while the single call holds the credit"
        assert len(cluster.upstream.requests) == 1
        assert await answered_by(cluster, cluster.nodes[0]) == BOTH

        cluster.upstream.behaviour.latency_s = 0.2
        account, key = await cluster.new_key(balance=10)
        once = [MISS.format(n="-once")] * (LIMIT // 2)
        answers = await ask_all(cluster, once, key=key, idempotency_key="once")
        assert {answer.status for answer in answers} == {200, 409}
        answers += await ask_all(cluster, once, key=key, idempotency_key="once")
        served = [answer.json for answer in answers if answer.status == 200]
        assert len({envelope["request_id"] for envelope in served}) == 1
        assert len(cluster.upstream.requests) == 2
        assert await cluster.balance(account) == 9

        answers = await ask_all(cluster, [FREE] * 3 * LIMIT)
        assert_filled(cluster, answers, LIMIT)
        assert {answer.status for answer in answers} == {200, 429}


async def test_killed_worker_is_replaced_and_its_charges_are_refunded(
    workers_of_one: OpenCluster,
) -> None:
    async with workers_of_one() as cluster:
        [node] = cluster.nodes
        cluster.upstream.behaviour.latency_s = 0.1
        before = workers_of(node)
        async with open_load(cluster) as answers:
            await trio.sleep(1)
            os.kill(before[0], signal.SIGKILL)
            killed_at = trio.current_time()

            async def is_replaced() -> bool:
                await trio.lowlevel.checkpoint()
                return workers_of(node)[0] != before[0]

            await until(is_replaced, within_s=REPLACED_S)
            await trio.sleep(0.5)
        cluster.unsettled |= {
            answer.json["request_id"] for answer in answers if abs(answer.there_at - killed_at) < SETTLED_S
        }
        assert_served(answers)
        assert workers_of(node)[1] == before[1]

        async def is_settled() -> bool:
            return await cluster.open_charges() == 0

        await until(is_settled, within_s=REFUND_S)
        assert (await cluster.readiness(node))[0] == 200
