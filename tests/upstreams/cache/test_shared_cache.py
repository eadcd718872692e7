"""The cache that nodes share through a real Redis: all nodes together make one call, even if its leader fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from storage.redis.state import open_redis as open_state
from tests.fakes.cancelling import cancel_everywhere
from tests.servers.cutter import open_cutter
from tests.servers.redis import RedisServer
from tests.servers.waiting import until
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import BODY_BYTES_MAX, LOCK_S, POLL_S, RENEW_S, SharedCache, open_shared_cache

WAIT_S = 60
KEY = b"/v1/a/b?c=d"


@asynccontextmanager
async def open_node(server: RedisServer) -> AsyncIterator[SharedCache]:
    async with (
        open_state(server.url, round_trip_s=5) as state,
        open_shared_cache(Cache(1_000_000, trio.current_time), state) as cache,
    ):
        yield cache


@pytest.fixture
async def nodes(empty_redis: RedisServer) -> AsyncIterator[list[SharedCache]]:
    with trio.fail_after(WAIT_S):
        async with open_node(empty_redis) as one, open_node(empty_redis) as two, open_node(empty_redis) as three:
            yield [one, two, three]


class Upstream:
    """Counts its calls, each of which takes a short time."""

    def __init__(self, *, takes_s: float = 0.05, fails: int = 0) -> None:
        self.calls = 0
        self.running = 0
        self._takes_s = takes_s
        self._fails = fails

    async def call(self) -> bytes:
        self.calls += 1
        number = self.calls
        self.running += 1
        assert self.running == 1
        try:
            await trio.sleep(self._takes_s)
        finally:
            self.running -= 1
        if number <= self._fails:
            raise ValueError("the upstream failed")
        return b"answer %d" % number


async def get(
    node: SharedCache, upstream: Upstream, *, key: bytes = KEY, within_s: float = 10.0, ttl_s: float = 60.0
) -> bytes:
    async with node.turn(key, trio.current_time() + within_s) as turn:
        if turn.found is not None:
            return turn.found
        body = await upstream.call()
        turn.keep(body, ttl_s)
        return body


async def test_stored_answer_is_found_by_all_nodes(nodes: list[SharedCache]):
    upstream = Upstream(takes_s=0)
    assert not await nodes[1].holds(KEY)
    assert await get(nodes[0], upstream) == b"answer 1"
    await until(lambda: nodes[0]._state.statistics().waiting == 0)
    assert await nodes[1].holds(KEY)
    assert nodes[1].local.get(KEY) is None
    assert await get(nodes[1], upstream) == b"answer 1"
    assert nodes[0].local.get(KEY) == nodes[1].local.get(KEY) == b"answer 1"
    assert upstream.calls == 1


async def test_found_answer_keeps_its_remaining_ttl(nodes: list[SharedCache]):
    upstream = Upstream(takes_s=0)
    await get(nodes[0], upstream, ttl_s=1.5)
    await trio.sleep(0.75)
    await get(nodes[1], upstream)
    await trio.sleep(0.76)
    assert nodes[1].local.get(KEY) is None
    assert await get(nodes[1], upstream) == b"answer 2"


async def test_concurrent_identical_calls_on_all_nodes_run_once(nodes: list[SharedCache]):
    async def all_take_s(key: bytes) -> float:
        upstream, answers = Upstream(), []

        async def caller(node: SharedCache) -> None:
            answers.append(await get(node, upstream, key=key))

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(caller, nodes[number % 3])
        assert (upstream.calls, answers) == (1, [b"answer 1"] * 30)
        return trio.current_time() - began

    # At least one waiter, even on a busy machine, is woken by the message and not by polling.
    assert min([await all_take_s(b"%d" % turn) for turn in range(3)]) < 0.4


async def test_long_wait_is_counted_once(nodes: list[SharedCache]):
    upstream = Upstream(takes_s=2.5 * POLL_S)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(get, nodes[0], upstream)
        await until(lambda: upstream.running)
        assert await get(nodes[1], upstream) == b"answer 1"
    assert [node.statistics().waited_total for node in nodes] == [0, 1, 0]


async def test_failed_leader_is_replaced_by_a_waiter(nodes: list[SharedCache]):
    upstream, answers, failures = Upstream(fails=2), [], []

    async def caller(node: SharedCache) -> None:
        try:
            answers.append(await get(node, upstream))
        except ValueError:
            failures.append(node)

    async with trio.open_nursery() as nursery:
        for number in range(9):
            nursery.start_soon(caller, nodes[number % 3])
    assert (upstream.calls, len(failures), answers) == (3, 2, [b"answer 3"] * 7)


async def test_cancelled_leader_leaves_no_lock(nodes: list[SharedCache], empty_redis: RedisServer):
    upstream = Upstream(takes_s=0.001)

    async def nothing_is_locked(_got_through: bool) -> None:
        await until(lambda: empty_redis.ask("KEYS", "*lock*") == [])
        assert nodes[0]._waiters == {}
        empty_redis.ask("FLUSHALL")

    assert await cancel_everywhere(lambda: get(nodes[0], upstream), nothing_is_locked) >= 2


async def test_leader_loses_its_lock_at_its_deadline(nodes: list[SharedCache]):
    upstream, late = Upstream(takes_s=0), Upstream(takes_s=0)
    async with nodes[0].turn(KEY, trio.current_time() + 0.3) as stuck:
        assert stuck.found is None
        began = trio.current_time()
        assert await get(nodes[1], upstream) == b"answer 1"
        assert 0.05 < trio.current_time() - began < LOCK_S - 0.2
        stuck.keep(b"from a leader that lost its lock", 60)
    nodes[1].local.forget(KEY)
    assert await get(nodes[1], late) == b"answer 1"


async def test_lock_ttl_is_bounded_by_the_deadline(nodes: list[SharedCache], empty_redis: RedisServer):
    for left_s, lock_s in ((7, 2.0), (1, 1.0)):
        async with nodes[0].turn(KEY, trio.current_time() + left_s):
            [lock] = empty_redis.ask("KEYS", "*:lock")  # type: ignore[misc]
            assert lock_s - 0.9 < empty_redis.ask("PTTL", lock) / 1000 <= lock_s  # type: ignore[operator]
        await until(lambda: empty_redis.ask("KEYS", "*:lock") == [])


async def test_lock_is_renewed_during_long_calls_only(nodes: list[SharedCache], empty_redis: RedisServer):
    upstream, answers = Upstream(takes_s=LOCK_S + 1), []

    async def caller(node: SharedCache) -> None:
        answers.append(await get(node, upstream))

    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(caller, node)
    assert (upstream.calls, answers) == (1, [b"answer 1"] * 3)
    assert not any(node._locks for node in nodes)


async def test_leader_that_cannot_renew_is_replaced_and_stores_nothing(
    nodes: list[SharedCache], empty_redis: RedisServer
):
    """Goal: a dead node does not delay the others for long. Method: the leader's commands no longer reach Redis."""
    with open_cutter(empty_redis.port) as cutter:
        async with (
            open_state(f"redis://127.0.0.1:{cutter.port}", round_trip_s=5) as state,
            open_shared_cache(Cache(1_000_000, trio.current_time), state) as leader,
        ):
            async with leader.turn(KEY, trio.current_time() + 60) as stuck:
                await trio.sleep(1.5 * RENEW_S)
                cutter.to_server = lambda _data: False
                began = trio.current_time()
                assert await get(nodes[1], Upstream()) == b"answer 1"
                assert trio.current_time() - began < LOCK_S + 5
                cutter.to_server = lambda _data: True
                cutter.cut()
                await until(lambda: state.statistics().connects == 2)
                stuck.keep(b"from a leader that lost its lock", 60)
            await until(lambda: state.statistics().waiting == 0)
            assert await get(nodes[2], Upstream()) == b"answer 1"


async def test_non_waiting_caller_leads_without_lock_and_shares_nothing(nodes: list[SharedCache]):
    async with nodes[0].turn(KEY, trio.current_time() + 5) as leader:
        async with nodes[1].turn(KEY, trio.current_time() + 5, waits=False) as hurried:
            assert hurried.found is None
            hurried.keep(b"hurried", 60)
        async with nodes[2].turn(KEY, trio.current_time() + 5, waits=False) as other:
            assert other.found is None
        leader.keep(b"leader", 60)
    assert nodes[1].local.get(KEY) == b"hurried"
    await until(lambda: nodes[0]._state.statistics().waiting == 0)
    async with nodes[2].turn(KEY, trio.current_time() + 5, waits=False) as late:
        assert late.found == b"leader"


async def test_turn_reports_the_time_waited(nodes: list[SharedCache], empty_redis: RedisServer):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(get, nodes[0], Upstream(takes_s=1))
        await until(lambda: empty_redis.ask("KEYS", "*:lock") != [])
        began = trio.current_time()
        async with nodes[1].turn(KEY, began + 5) as waited:
            assert waited.found == b"answer 1"
            assert 0.05 < waited.waited_s < trio.current_time() - began
    async with nodes[2].turn(KEY, trio.current_time() + 5) as found:
        assert (found.found, found.waited_s) == (b"answer 1", 0.0)


async def test_disabled_cache_has_no_hits_and_shares_no_calls(nodes: list[SharedCache], empty_redis: RedisServer):
    await get(nodes[0], Upstream())
    nodes[1].local.resize(0)
    assert not await nodes[1].holds(KEY)
    alone = Upstream()
    assert [await get(nodes[1], alone), await get(nodes[1], alone)] == [b"answer 1", b"answer 2"]
    empty_redis.ask("FLUSHALL")
    nodes[1].put(KEY, b"fresh", 60)
    await get(nodes[1], alone)
    await until(lambda: nodes[1]._state.statistics().waiting == 0)
    assert empty_redis.ask("KEYS", "*") == []


async def test_waiter_gives_up_at_its_deadline(nodes: list[SharedCache]):
    async with nodes[0].turn(KEY, trio.current_time() + 5):
        with pytest.raises(trio.TooSlowError):
            await get(nodes[1], Upstream(), within_s=0.2)
    assert await get(nodes[1], Upstream()) == b"answer 1"


async def test_long_answer_stays_on_its_node(nodes: list[SharedCache]):
    async with nodes[0].turn(KEY, trio.current_time() + 5) as turn:
        turn.keep(b"x" * (BODY_BYTES_MAX + 1), 60)
    assert nodes[0].local.get(KEY) is not None
    assert await get(nodes[1], Upstream()) == b"answer 1"


@pytest.mark.parametrize("fresh", [b"fresh", b"x" * (BODY_BYTES_MAX + 1)], ids=["short", "too long to share"])
async def test_fresh_answer_replaces_copies_on_all_nodes(
    fresh: bytes, nodes: list[SharedCache], empty_redis: RedisServer
):
    await until(lambda: empty_redis.ask("PUBSUB", "NUMSUB", "sluice:renewed") == [b"sluice:renewed", 3])
    for node in nodes:
        await get(node, Upstream())
    nodes[0].put(KEY, fresh, 60)
    await until(lambda: not any(node.local.holds(KEY) for node in nodes[1:]))
    assert nodes[0].local.get(KEY) == fresh
    assert await get(nodes[1], Upstream()) == (fresh if len(fresh) <= BODY_BYTES_MAX else b"answer 1")


async def test_nodes_use_their_own_caches_without_redis(nodes: list[SharedCache], empty_redis: RedisServer):
    upstream = Upstream(takes_s=0)
    empty_redis.kill()
    await until(lambda: all(node._state.fault for node in nodes))
    assert not await nodes[0].holds(KEY)
    assert [await get(node, upstream) for node in nodes] == [b"answer 1", b"answer 2", b"answer 3"]
    assert nodes[0].local.get(KEY) == b"answer 1"
