"""Billed calls of two nodes that share a real Redis: the leader pays, followers pay nothing, whatever happens.

Each node has its own stores, so that each spent credit can be attributed to a node. `tests/upstreams/cache` tests how
nodes share a call: locks, deadlines and outages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.http.errors import Refused
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.scripted_exchange import Scripted, ScriptedExchange, http_answer
from tests.fakes.sharer import BROKEN, after, all_at_once, open_sharer, short_pages, thing
from tests.servers.redis import RedisServer
from tests.servers.waiting import until

WAIT_S = 60


@dataclass(frozen=True)
class Pair:
    """Opens two nodes that share a Redis."""

    folder: Path
    redis: RedisServer

    @asynccontextmanager
    async def open(self, upstream: ScriptedExchange, **more: Any) -> AsyncIterator[tuple[Any, Any]]:
        with trio.fail_after(WAIT_S):
            async with (
                open_sharer(self.folder / "one", self.redis.url, upstream, **more) as one,
                open_sharer(self.folder / "two", self.redis.url, upstream, **more) as two,
            ):
                await until(lambda: self.redis.ask("PUBSUB", "NUMSUB", "sluice:renewed") == [b"sluice:renewed", 2])
                yield one, two


@pytest.fixture
def pair(tmp_path: Path, empty_redis: RedisServer) -> Pair:
    return Pair(tmp_path, empty_redis)


async def settled(server: RedisServer) -> None:
    """Check that no call has a leader."""
    await until(lambda: server.ask("KEYS", "*:lock") == [])


async def led(server: RedisServer) -> None:
    await until(lambda: server.ask("KEYS", "*:lock") != [])


async def test_same_miss_on_two_nodes_makes_one_call_and_charge(pair: Pair) -> None:
    upstream = ScriptedExchange(after(0.3))
    async with pair.open(upstream) as (one, two):
        answers, failures = await all_at_once([one, two], 60)
        assert (len(answers), failures, len(upstream.calls)) == (120, {}, 1)
        assert len({answer.fragment for answer in answers}) == 1
        assert Counter(answer.cached for answer in answers) == {True: 119, False: 1}
        assert sum(answer.credits_used for answer in answers) == 1
        assert sorted([await one.spent(), await two.spent()]) == [0, 1]


async def test_response_charged_on_one_node_is_a_free_hit_on_another(pair: Pair) -> None:
    upstream = ScriptedExchange(thing())
    async with pair.open(upstream, credits=1) as (one, two):
        paid = await one.get()
        assert not await two.calls.would_hit(two.ask(id="2"))
        assert not await two.calls.would_hit(two.ask(refresh=True))
        await settled(pair.redis)
        assert await two.calls.would_hit(two.ask())
        for _ in range(2):
            hit = await two.get()
            assert (hit.fragment, hit.cached, hit.credits_used, hit.balance) == (paid.fragment, True, 0, 1)
            assert hit.upstream_s == 0
        assert two.calls.shared.statistics().found_total == 1, "the second hit is local"
        assert (await one.spent(), await two.spent(), len(upstream.calls)) == (1, 0, 1)


async def test_failed_leader_is_refunded_and_replaced_by_one_follower(pair: Pair) -> None:
    slow = [after(0.05, BROKEN), after(0.05, BROKEN), after(0.05)]
    upstream = ScriptedExchange(*slow, thing())
    async with pair.open(upstream) as (one, two):
        answers, failures = await all_at_once([one, two], 20)
        assert failures == {"UpstreamFailed": 2}
        assert (len(answers), len(upstream.calls), upstream.running_max) == (38, 3, 1)
        assert sum(answer.credits_used for answer in answers) == 1
        assert await one.spent() + await two.spent() == 1


async def test_cancelled_call_is_complete_or_not_recorded_and_blocks_no_others(pair: Pair) -> None:
    upstream = ScriptedExchange(after(0.001))
    async with pair.open(upstream) as (one, two):
        spent = [0]

        async def check(got_through: bool) -> None:
            await settled(pair.redis)
            before, spent[0] = spent[0], await one.spent()
            assert spent[0] - before in ({1} if got_through else {0, 1})
            assert one.stores.billing.charges.unfinished() == len(one.calls.flights) == 0
            answer = await two.get()
            assert answer.cached is got_through
            for node in (one, two):
                node.calls.cache.forget(node.ask().cache_key)
            await until(lambda: two.calls.shared._state.statistics().waiting == 0)
            pair.redis.ask("FLUSHALL")

        assert await cancel_everywhere(one.get, check) >= 4


async def test_uncacheable_response_is_fetched_once_per_node(pair: Pair) -> None:
    """Two of three legs succeed, so the response is billed in full and shown only to local followers."""
    legs: dict[str, Scripted] = {"1-0": after(0.05), "1-1": after(0.05), "1-2": http_answer({}, 400)}
    upstream = ScriptedExchange(script=lambda call: legs[call.target.rpartition("/")[2]])
    async with pair.open(upstream) as (one, two):
        answers, failures = await all_at_once([one, two], 10, "overview")
        assert (len(answers), failures, len(upstream.calls)) == (20, {}, 6)
        assert Counter(answer.cached for answer in answers) == {True: 18, False: 2}
        assert (await one.spent(), await two.spent()) == (5, 5)
        assert not await two.calls.would_hit(two.ask("overview"))


async def test_walk_cut_short_by_the_leaders_credits_is_repeated_by_the_other_node(pair: Pair) -> None:
    upstream = ScriptedExchange(script=lambda call: after(0.05, short_pages(call)))
    with trio.fail_after(WAIT_S):
        async with (
            open_sharer(pair.folder / "one", pair.redis.url, upstream, credits=2) as poor,
            open_sharer(pair.folder / "two", pair.redis.url, upstream) as rich,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(partial(poor.get, "gathered", limit=4))
            await led(pair.redis)
            whole = await rich.get("gathered", limit=4)
            assert (whole.whole, whole.cached, whole.credits_used) == (True, False, 3)
            assert (await poor.spent(), await rich.spent()) == (2, 3)


async def test_claimed_call_uses_or_gives_a_response_but_does_not_wait_for_one(pair: Pair) -> None:
    upstream = ScriptedExchange(thing())
    async with pair.open(upstream) as (one, two):
        paid = await one.get()
        await settled(pair.redis)
        hit = await two.get(claim="once")
        assert (hit.cached, hit.credits_used, hit.fragment) == (True, 0, paid.fragment)
        again = await two.get(claim="once", refresh=True)
        assert again.replayed is not None
        assert again.replayed.cached
        assert (await two.spent(), len(upstream.calls)) == (0, 1)
        upstream.script(after(0.2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(one.get, id="2", claim="twice"))
            await led(pair.redis)
            assert (await two.get(id="2")).cached, "other calls follow a claimed call"
        assert (await one.spent(), await two.spent()) == (2, 0)


async def test_claimed_call_does_not_wait_for_another_node(pair: Pair) -> None:
    upstream = ScriptedExchange(after(0.5, thing("slow")), thing("quick"))
    async with pair.open(upstream) as (one, two):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.get)
            await until(lambda: upstream.calls)
            quick = await two.get(claim="once")
            assert (quick.cached, quick.credits_used, upstream.running) == (False, 1, 1)
        assert (await one.spent(), await two.spent()) == (1, 1)
        assert b"quick" in (await two.get()).fragment
        await settled(pair.redis)
        two.calls.cache.forget(two.ask().cache_key)
        assert b"slow" in (await two.get()).fragment


async def test_refresh_is_billed_and_replaces_the_response_on_every_node(pair: Pair) -> None:
    upstream = ScriptedExchange(thing("old"), thing("new"))
    async with pair.open(upstream) as (one, two):
        await one.get()
        await settled(pair.redis)
        assert b"old" in (await two.get()).fragment
        fresh = await one.get(refresh=True)
        assert (fresh.cached, fresh.credits_used) == (False, 1)
        await until(lambda: not two.calls.cache.holds(two.ask().cache_key))
        for node in (one, two):
            answer = await node.get()
            assert (answer.cached, b"new" in answer.fragment) == (True, True)
        assert (await one.spent(), await two.spent()) == (2, 0)


async def test_expired_entry_is_not_refetched_above_max_credits(pair: Pair) -> None:
    upstream = ScriptedExchange(thing())
    async with pair.open(upstream) as (one, two):
        await one.get()
        await settled(pair.redis)
        ask = replace(two.ask(), credits_max=0)
        assert await two.calls.would_hit(ask)
        pair.redis.ask("FLUSHALL")
        with pytest.raises(Refused) as refused:
            await two.calls.call(ask)
        assert refused.value.details == {"reason": "above_max_credits", "credits_required": 1}
        await settled(pair.redis)
        assert (await two.spent(), len(upstream.calls)) == (0, 1)


async def test_nodes_without_shared_state_call_alone_and_count_the_calls(pair: Pair) -> None:
    upstream = ScriptedExchange(thing())
    async with pair.open(upstream) as (one, two):
        pair.redis.kill()
        await until(lambda: one.fault() and two.fault())
        for node in (one, two):
            assert not await node.calls.would_hit(node.ask())
            assert (await node.get()).credits_used == 1
            assert (await node.get()).cached
            assert node.calls.shared.statistics().alone_total == 1
        assert (await one.spent(), await two.spent(), len(upstream.calls)) == (1, 1, 2)
