"""The shared state over several real servers: a cluster with moving slots and failovers, and a watched primary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio

from limits.errors import GenerationPassed
from limits.gate import BalanceUpdate
from limits.shared_gate import open_shared_gate
from storage.errors import StateUnavailable
from storage.redis.call import slot_of
from storage.redis.state import RedisState, open_redis
from storage.state import RECHECK, Script
from tests.servers.redis import RedisServer, open_cluster, open_watched
from tests.servers.waiting import until
from upstreams.cache.response_cache import Cache
from upstreams.cache.shared_cache import open_shared_cache

ADD = Script(b"return redis.call('INCRBY', KEYS[1], ARGV[1])")
WAIT_S = 60
open_state = partial(open_redis, round_trip_s=2)  # long timeouts, because the machine may be busy
KEYS = [b"key:{%d}" % number for number in range(60)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    with open_cluster(tmp_path_factory.mktemp("cluster"), replicas=True) as servers:
        yield servers


def url_of(servers: Sequence[RedisServer]) -> str:
    return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)


async def add(state: RedisState, key: bytes) -> object:
    return await state.run(ADD, [key], [b"1"])


async def add_until_served(state: RedisState, key: bytes) -> float:
    """Call until it succeeds. Return how long that took."""
    began = trio.current_time()
    while True:
        try:
            await add(state, key)
        except StateUnavailable:
            await trio.sleep(0.02)
        else:
            return trio.current_time() - began


async def test_key_is_sent_to_its_server_and_each_server_loads_scripts(cluster: list[RedisServer]):
    with trio.fail_after(WAIT_S):
        async with open_state(url_of(cluster[:1])) as state:
            assert state.fault is None
            for key in KEYS:
                assert await add(state, key) == 1
                assert slot_of(key) == cluster[0].ask("CLUSTER", "KEYSLOT", key)
            assert await state.run_all(ADD, [([key], [b"1"]) for key in KEYS]) == [2] * len(KEYS)
            sizes = [server.ask("DBSIZE") for server in cluster[:3]]
    assert sum(map(int, map(str, sizes))) == len(KEYS)
    assert all(sizes)


async def test_messages_reach_listeners_on_every_cluster_server(cluster: list[RedisServer]):
    with trio.fail_after(WAIT_S):
        async with (
            open_state(url_of(cluster)) as one,
            open_state(url_of(cluster)) as two,
            two.subscribe(b"news") as channel,
        ):
            assert await channel.receive() == RECHECK
            for number in range(3):
                one.publish(b"news", b"%d" % number)
            assert [await channel.receive() for _ in range(3)] == [b"0", b"1", b"2"]


async def test_moving_slot_is_followed_during_and_after_the_move(cluster: list[RedisServer]):
    with trio.fail_after(WAIT_S):
        async with open_state(url_of(cluster)) as state:
            key = b"moving:{x}"
            slot = slot_of(key)
            old = next(server for server in cluster[:3] if _owns(server, slot))
            new = next(server for server in cluster[:3] if server is not old)
            old_id, new_id = (str(server.ask("CLUSTER", "MYID"), "ascii") for server in (old, new))  # type: ignore[call-overload]
            assert await add(state, key) == 1
            new.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", old_id)
            old.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", new_id)
            assert await add(state, key) == 2  # still on the old server
            old.ask("MIGRATE", "127.0.0.1", new.port, key, 0, 1000)
            assert await add(state, key) == 3  # the call is redirected
            for server in (new, old, *cluster):
                if server not in cluster[3:]:
                    server.ask("CLUSTER", "SETSLOT", slot, "NODE", new_id)
            assert await add(state, key) == 4  # on the new server
            assert await add(state, key) == 5


async def test_gate_and_cache_work_on_a_cluster(cluster: list[RedisServer]):
    """Goal: the keys of every script share a slot. Method: accounts and responses on all servers."""
    with trio.fail_after(WAIT_S):
        async with (
            open_state(url_of(cluster)) as state,
            open_shared_gate(state, requests=2, concurrent=2) as gate,
            open_shared_cache(Cache(1_000_000, trio.current_time), state) as cache,
        ):
            for number in range(30):
                account = f"acc_{number}"
                gate.publish_balance(account, BalanceUpdate(1, number))
                await gate.change_key(account, "k")
                with pytest.raises(GenerationPassed) as passed:
                    await gate.admit(account, "k")
                admitted = await gate.admit(account, "k", passed.value.generation)
                assert (admitted.window.remaining, admitted.balance) == (1, BalanceUpdate(1, number))
                admitted.lease.release()
                assert await gate.hold(account, "k", name="poll", limit=1) is not None
                async with cache.turn(account.encode(), trio.current_time() + 1) as turn:
                    assert turn.found is None
                    turn.keep(b"answer", 10)
                async with cache.turn(account.encode(), trio.current_time() + 1) as turn:
                    assert turn.found == b"answer"
            await gate.renew()


def _owns(server: RedisServer, slot: int) -> bool:
    slots, mine = server.ask("CLUSTER", "SLOTS"), server.ask("CLUSTER", "MYID")
    assert isinstance(slots, list)
    return any(first <= slot <= last and primary[2] == mine for first, last, primary, *_ in slots)


async def test_cluster_failover_is_followed_while_other_servers_serve(cluster: list[RedisServer]):
    """Goal: calls and messages arrive again. Method: kill the server over which the messages came."""
    with trio.fail_after(WAIT_S):
        async with open_state(url_of(cluster)) as state, state.subscribe(b"news") as news:
            assert await news.receive() == RECHECK
            victim = next(server for server in cluster[:3] if server.ask("PUBSUB", "NUMSUB", "news") != [b"news", 0])
            lost = next(key for key in KEYS if _owns(victim, slot_of(key)))
            others = [key for key in KEYS if not _owns(victim, slot_of(key))]
            victim.kill()
            await until(lambda: state.fault is not None)
            await add(state, others[0])
            assert await news.receive() == RECHECK
            next(server for server in cluster[:3] if server is not victim).ask("PUBLISH", "news", "one")
            assert await news.receive() == b"one"
            assert await add_until_served(state, lost) < 10
            assert state.fault is None


async def test_dead_primary_under_sentinel_is_replaced_by_its_replica(tmp_path: Path):
    with trio.fail_after(WAIT_S), open_watched(tmp_path) as watched:
        async with open_state(watched.url) as state:
            assert await add(state, b"k") == 1
            watched.servers[0].kill()
            await until(lambda: state.fault is not None)
            await add_until_served(state, b"k")
            assert _role(watched.servers[1]) == b"master"


async def test_demoted_primary_is_replaced_by_the_new_primary(tmp_path: Path):
    """Goal: nothing is written where it would be lost. Method: a demotion that does not cut the connection."""
    with trio.fail_after(WAIT_S), open_watched(tmp_path) as watched:
        one, two = watched.servers
        async with open_state(watched.url) as state:
            assert await add(state, b"k") == 1
            watched.sentinels[0].ask("SENTINEL", "FAILOVER", "main")
            await until(lambda: _role(two) == b"master")
            one.ask("REPLICAOF", "127.0.0.1", two.port)
            with pytest.raises(StateUnavailable, match="ReadOnly"):
                await add(state, b"k")
            await add_until_served(state, b"k")
            assert two.ask("GET", "k") == b"2"


def _role(server: RedisServer) -> object:
    """Return the role that the server reports, or an empty text while a demotion cuts its connections."""
    try:
        told = server.ask("ROLE")
    except (OSError, AssertionError):
        return None
    assert isinstance(told, list)
    return told[0]
