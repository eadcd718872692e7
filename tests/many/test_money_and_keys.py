"""Balances, idempotency keys and API keys through three nodes concurrently."""

from __future__ import annotations

import trio

from tests.many.conftest import OpenCluster
from tests.many.harness import Answer, Cluster
from tests.many.load import FREE, MISS, ask_all


async def test_last_credit_pays_for_one_of_a_thousand_calls(cluster_of: OpenCluster) -> None:
    async with cluster_of(balance=1) as cluster:
        answers = await ask_all(cluster, [MISS.format(n=number) for number in range(1000)])
        refused = {answer.code for answer in answers if answer.status != 200}
        assert len([answer for answer in answers if answer.status == 200]) == 1
        assert refused <= {"INSUFFICIENT_CREDITS", "CONCURRENCY_LIMIT"}, "429 while the single call holds the credit"
        assert await cluster.balance() == 0
        assert len(cluster.upstream.requests) == 1


async def test_idempotency_key_on_three_nodes_causes_one_charge_and_one_call(cluster: Cluster) -> None:
    cluster.upstream.behaviour.latency_s = 0.2
    before = await cluster.balance()
    answers = await ask_all(cluster, [MISS.format(n=1)] * 30, idempotency_key="once")
    assert {answer.status for answer in answers} == {200, 409}
    assert {one.code for one in answers if one.status == 409} == {"IDEMPOTENCY_IN_PROGRESS"}
    answers += await ask_all(cluster, [MISS.format(n=1)] * 30, idempotency_key="once")
    served = [answer.json for answer in answers if answer.status == 200]
    assert sum(not envelope.get("idempotent_replay") for envelope in served) == 1
    assert len(served) > 30
    assert len({envelope["request_id"] for envelope in served}) == 1
    assert len(cluster.upstream.requests) == 1
    assert before - await cluster.balance() == sum(envelope["credits_used"] for envelope in served) == 1


async def test_same_miss_on_three_nodes_causes_one_upstream_call_and_one_charge(cluster: Cluster) -> None:
    cluster.upstream.behaviour.latency_s = 0.2
    answers = await ask_all(cluster, [MISS.format(n=1)] * 30)
    assert {answer.status for answer in answers} == {200}
    assert sorted(answer.json["credits_used"] for answer in answers) == [0] * 29 + [1]
    assert len(cluster.upstream.requests) == 1


async def test_revoked_key_is_refused_by_the_next_request_on_other_nodes(cluster: Cluster) -> None:
    first, *others = cluster.nodes
    for _ in range(20):
        made = await cluster.operate(first, "key.create", account=cluster.account)
        for node in cluster.nodes * 2:
            assert (await cluster.told(node, FREE, made["key"])).status == 200
        await cluster.operate(first, "key.revoke", key=made["id"])
        for node in [*others, first]:
            assert (await cluster.told(node, FREE, made["key"])).status == 401


async def test_key_is_refused_by_every_request_after_its_revocation(cluster: Cluster) -> None:
    made = await cluster.operate(cluster.nodes[0], "key.create", account=cluster.account)
    answers: list[Answer] = []

    async def ask_repeatedly(number: int) -> None:
        while not answers or answers[-1].status == 200:
            answers.append(await cluster.told(cluster.nodes[number % 3], FREE, made["key"]))

    async with trio.open_nursery() as nursery:
        for number in range(9):
            nursery.start_soon(ask_repeatedly, number)
        while len(answers) < 18:  # noqa: ASYNC110 - other tasks fill it
            await trio.sleep(0.02)
        await cluster.operate(cluster.nodes[1], "key.revoke", key=made["id"])
        revoked_at = trio.current_time()
        nursery.cancel_scope.deadline = revoked_at + 2
    late = [answer.status for answer in answers if answer.sent_at > revoked_at]
    assert late == [401] * len(late)
    assert sum(answer.status == 200 for answer in answers) > 9
