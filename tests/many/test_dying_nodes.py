"""Nodes on one PostgreSQL that die or freeze with open charges: other nodes refund each of these charges once.

Lost requests are free. The nodes send frequent heartbeats here, and are declared dead after a short silence.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from tests.many.conftest import OpenCluster
from tests.many.harness import Answer, Cluster, Node, until
from tests.many.load import MISS, open_load
from tests.processes.serving import QUICK

CALLS = 6
LOAD_S = 1.0
CHECK_EVERY_S = 0.05
RECOVERED_WITHIN_S = 60.0


def recovered(*nodes: Node) -> int:
    """Return how many charges these nodes have refunded for others."""
    return sum(event["charges"] for node in nodes for event in node.process.events("recovered"))


async def nothing_is_held(cluster: Cluster) -> bool:
    return await cluster.open_charges() == 0


@asynccontextmanager
async def calls_of(cluster: Cluster, node: Node) -> AsyncIterator[list[Answer]]:
    """Make calls through one node, every second one with an idempotency key. Return the responses."""
    answers: list[Answer] = []

    async def call(number: int) -> None:
        headers = {"idempotency_key": f"key-{number}"} if number % 2 else {}
        answers.append(await cluster.ask(node, MISS.format(n=number), **headers))

    async def all_are_running() -> bool:
        return await cluster.open_charges() == CALLS

    async with trio.open_nursery() as nursery:
        for number in range(CALLS):
            nursery.start_soon(call, number)
        await until(all_are_running, within_s=30)
        yield answers


async def test_open_charges_of_a_killed_node_are_refunded_once(cluster_of: OpenCluster) -> None:
    """Goal: no overcharge; no credits are lost or reserved for over a minute, although two nodes race to recover."""
    async with cluster_of(pace=QUICK) as cluster:
        cluster.upstream.behaviour.latency_s = 0.3
        doomed, *others = cluster.nodes
        async with open_load(cluster) as answers:
            await trio.sleep(LOAD_S)
            cluster.kill(doomed)
            killed_at = trio.current_time()
            await trio.sleep(LOAD_S)  # the other nodes detect the death while they are under load
        assert len(answers) > CALLS
        costs = await cluster.assert_sound(settled_within_s=killed_at + RECOVERED_WITHIN_S - trio.current_time())
        entries = await cluster.entries()
        refunded = [entry.request_id for entry in entries if entry.description == "Refund after a crash"]
        assert len(set(refunded)) == len(refunded) > 0
        while recovered(*others) != len(refunded):  # noqa: ASYNC110 - a log sets no event
            await trio.sleep(CHECK_EVERY_S)
        # Answered requests have cost their stated price, or nothing if the kill came before the settlement.
        assert {id_ for id_ in (answer.json["request_id"] for answer in answers) if not costs[id_]} <= set(refunded)
        assert [node.process.events("declared_dead") for node in others] == [[], []]


async def test_paused_node_overcharges_nothing_and_rejoins_under_another_id(
    cluster_of: OpenCluster,
) -> None:
    """Method: SIGSTOP during calls until another node has refunded them; their responses arrive after the refund."""
    async with cluster_of(pace=QUICK, skews_s=(0.0, 0.0)) as cluster:
        paused, other = cluster.nodes
        cluster.upstream.behaviour.latency_s = 2.0
        async with calls_of(cluster, paused) as answers:
            paused.process.signal(signal.SIGSTOP)
            await until(lambda: nothing_is_held(cluster), within_s=RECOVERED_WITHIN_S)
            paused.process.signal(signal.SIGCONT)
        assert [answer.status for answer in answers] == [200] * CALLS
        late = {answer.json["request_id"] for answer in answers}
        cluster.unsettled |= late
        assert sum((await cluster.assert_sound()).values()) == 0
        while not paused.process.events("declared_dead"):  # noqa: ASYNC110 - a log sets no event
            await trio.sleep(CHECK_EVERY_S)
        first = await cluster.ask(paused, MISS.format(n="-first"))
        await trio.sleep(QUICK.dead_after_s + 2 * QUICK.beat_s)
        second = await cluster.ask(paused, MISS.format(n="-second"), idempotency_key="key-1")
        costs = await cluster.assert_sound()
        assert {id_: cost for id_, cost in costs.items() if cost} == {
            answer.json["request_id"]: 1 for answer in (first, second)
        }
        assert recovered(other) == CALLS
        assert recovered(paused) == len(other.process.events("declared_dead")) == 0
        assert await cluster.rows("SELECT COUNT(*) FROM nodes WHERE taken_at IS NULL") == [(2,)]


async def test_cleanly_stopped_nodes_leave_nothing_to_recover(cluster_of: OpenCluster) -> None:
    async with cluster_of(pace=QUICK, skews_s=(0.0, 0.0)) as cluster:
        cluster.upstream.behaviour.latency_s = 2.0
        stopping = cluster.nodes[0]
        before = await cluster.balance()
        async with calls_of(cluster, stopping) as answers:
            stopping.process.signal(signal.SIGTERM)
        assert await cluster.wait(stopping) == 0
        assert await cluster.open_charges() == 0
        assert await cluster.rows("SELECT COUNT(*) FROM nodes") == [(1,)]
        costs = await cluster.assert_sound()
        assert costs == {answer.json["request_id"]: answer.json["credits_used"] for answer in answers}
        assert before - await cluster.balance() == CALLS
