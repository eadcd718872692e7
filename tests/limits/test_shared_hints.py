"""Hints of open circuits between nodes, against a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from limits.breaker import Breaker, BreakerRules
from limits.shared_hints import CircuitHints
from storage.redis.state import open_redis
from tests.servers.redis import RedisServer
from tests.servers.waiting import until

RULES = BreakerRules(failures=2, open_s=0.5)
WAIT_S = 60


@asynccontextmanager
async def open_node(server: RedisServer) -> AsyncIterator[dict[str, Breaker]]:
    breakers = {name: Breaker(RULES, trio.current_time) for name in ("a/primary", "b/primary")}
    async with open_redis(server.url, round_trip_s=5) as state, trio.open_nursery() as nursery:
        nursery.start_soon(CircuitHints(state, breakers).listen)
        await until(lambda: server.ask("PUBSUB", "NUMSUB", "sluice:circuits") != [b"sluice:circuits", 0])
        yield breakers
        nursery.cancel_scope.cancel()


def fail_twice(breaker: Breaker) -> None:
    permits = [breaker.take_nowait(), breaker.take_nowait()]
    for permit in permits:
        permit.fail()


async def test_circuit_opens_on_other_nodes_until_the_same_time(empty_redis: RedisServer):
    with trio.fail_after(WAIT_S):
        async with open_node(empty_redis) as one, open_node(empty_redis) as two:
            fail_twice(one["a/primary"])
            await until(lambda: two["a/primary"].state == "open")
            assert two["b/primary"].state == "closed"
            await until(lambda: one["a/primary"].state == "half_open")
            assert await until(lambda: two["a/primary"].state == "half_open") < 0.1
            two["a/primary"].take_nowait().succeed()
            assert two["a/primary"].state == "closed"
            assert one["a/primary"].state == "half_open"


async def test_node_that_starts_later_sees_open_circuits(empty_redis: RedisServer):
    with trio.fail_after(WAIT_S):
        async with open_node(empty_redis) as one:
            fail_twice(one["a/primary"])
            async with open_node(empty_redis) as two:
                await until(lambda: two["a/primary"].state == "open")


async def test_hint_ends_no_isolation_and_is_not_published_again(empty_redis: RedisServer):
    breaker = Breaker(RULES, trio.current_time)
    told: list[float] = []
    breaker.on_open = told.append
    breaker.isolate()
    breaker.apply_hint(0.001)
    await trio.sleep(0.01)
    assert breaker.state == "open"
    breaker.reset()
    breaker.apply_hint(0.2)
    assert breaker.state == "open"
    assert told == []
    fail_twice_after = Breaker(RULES, trio.current_time)
    fail_twice_after.on_open = told.append
    fail_twice(fail_twice_after)
    assert told == [0.5]
