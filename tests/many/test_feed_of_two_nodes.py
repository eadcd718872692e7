"""The events feed of two nodes: polls on one node receive events of the other, even if Redis loses messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import time

import pytest
import trio

from events.log.kinds import KeyRevoked
from events.log.log import EventLog, Fact, Subject
from events.waking.notifier import CHECK_EVERY_S
from gateway.feed.polling import EARLY
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from tests.many.conftest import OpenCluster
from tests.many.harness import Answer, Cluster, Node, until
from tests.many.load import ask_all
from tests.servers.redis import RedisServer

TWO = (0.0, 0.0)
FEED = "/v1/events"
WAIT_S = 12
HELD_S = 3
WOKEN_S = CHECK_EVERY_S / 2
MADE_UP_S = CHECK_EVERY_S + 5.0


def subjects(answer: Answer) -> list[str]:
    return [item["subject"]["id"] for item in answer.json["data"]["items"]]


async def end(cluster: Cluster) -> str:
    body = (await cluster.ask(cluster.nodes[0], f"{FEED}?cursor=now")).json
    return str(body["pagination"]["next_cursor"])


async def parked(cluster: Cluster, node: Node) -> int:
    """Return how many polls wait on a node, by its metrics."""
    lines = (await cluster.metrics(node)).splitlines()
    return int(float(next(line for line in lines if line.startswith("sluice_events_waiting ")).split()[1]))


@asynccontextmanager
async def polling(cluster: Cluster, node: Node, cursor: str) -> AsyncIterator[Callable[[], Awaitable[Answer]]]:
    """A poll that is parked on `node` when the block begins. Call the result to wait for its response."""
    answers: list[Answer] = []
    done = trio.Event()

    async def poll() -> None:
        answers.append(await cluster.ask(node, f"{FEED}?cursor={cursor}&wait_s={WAIT_S}"))
        done.set()

    async def answer() -> Answer:
        await done.wait()
        return answers[0]

    async def is_parked() -> bool:
        return await parked(cluster, node) > 0

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll)
        await until(is_parked, within_s=10)
        yield answer


async def revoke(cluster: Cluster, node: Node) -> tuple[str, float]:
    """Revoke a key on `node`, which writes an event. Return its id and the latest time at which it was written."""
    made = await cluster.operate(cluster.nodes[0], "key.create", account=cluster.account)
    await cluster.operate(node, "key.revoke", key=made["id"])
    return made["id"], trio.current_time()


async def write_silently(cluster: Cluster) -> float:
    """Write an event, but send no message about it. Return the time at which it was written."""
    log = EventLog(
        now=time, make_id=lambda prefix: f"{prefix}silent", base_url="https://a.example", publish=lambda _moved: None
    )
    fact = Fact(cluster.account, "key.revoked", Subject("key", "key_silent"), KeyRevoked(key_id="key_1", last4="abcd"))
    async with open_store(cluster.store_url, MIGRATIONS) as store:
        await store.write(lambda tx: log.append(tx, [fact]))
    return trio.current_time()


async def test_event_of_one_node_wakes_a_poll_on_the_other(cluster_of: OpenCluster) -> None:
    async with cluster_of(skews_s=TWO) as cluster:
        cursor = await end(cluster)
        for number in range(4):
            here, there = cluster.nodes[number % 2], cluster.nodes[1 - number % 2]
            async with polling(cluster, there, cursor) as answer:
                key_id, written_at = await revoke(cluster, here)
                answered = await answer()
            assert subjects(answered) == [key_id]
            assert answered.there_at - written_at < WOKEN_S
            cursor = answered.json["pagination"]["next_cursor"]


async def test_key_has_at_most_five_polls_across_both_nodes(cluster_of: OpenCluster) -> None:
    async with cluster_of(skews_s=TWO) as cluster:
        target = f"{FEED}?cursor={await end(cluster)}&wait_s={HELD_S}"
        for _ in range(2):
            answers = await ask_all(cluster, [target] * 12)
            assert {answer.status for answer in answers} == {200}
            turned_away = [answer for answer in answers if "x-poll-interval" in answer.headers]
            assert len(turned_away) == 7
            held = [answer for answer in answers if "x-poll-interval" not in answer.headers]
            assert min(answer.took_s for answer in held) >= HELD_S * (1 - EARLY)
            assert max(answer.took_s for answer in turned_away) < HELD_S * (1 - EARLY)
            await trio.sleep(0.3)  # the polls are freed after the responses


async def test_poll_finds_an_event_whose_redis_message_was_lost(
    cluster_of: OpenCluster, empty_redis: RedisServer
) -> None:
    async with cluster_of(skews_s=TWO) as cluster:
        async with polling(cluster, cluster.nodes[1], await end(cluster)) as answer:
            empty_redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
            key_id, written_at = await revoke(cluster, cluster.nodes[0])
            answered = await answer()
        assert subjects(answered) == [key_id]
        assert answered.there_at - written_at < MADE_UP_S


@pytest.mark.parametrize("redis_dies", [False, True], ids=["no message", "redis is dead"])
async def test_event_without_a_message_is_found_by_polling(
    redis_dies: bool, cluster_of: OpenCluster, empty_redis: RedisServer
) -> None:
    async with cluster_of(skews_s=TWO) as cluster:
        async with polling(cluster, cluster.nodes[0], await end(cluster)) as answer:
            if redis_dies:
                await trio.to_thread.run_sync(empty_redis.kill)
            written_at = await write_silently(cluster)
            answered = await answer()
        assert (answered.status, subjects(answered)) == (200, ["key_silent"])
        assert answered.there_at - written_at < MADE_UP_S
        if redis_dies:
            await trio.to_thread.run_sync(empty_redis.start)
            await until(lambda: _is_ready(cluster), within_s=30)


async def _is_ready(cluster: Cluster) -> bool:
    return all([(await cluster.readiness(node))[0] == 200 for node in cluster.nodes])
