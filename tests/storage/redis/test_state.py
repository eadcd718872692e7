"""The shared state against a real Redis: batching, lost servers, frozen servers, forgotten scripts, messages.

Tests share the server, one at a time: each starts with it empty and running.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from storage.errors import StateUnavailable, StoreUnusable
from storage.redis.state import RedisState
from storage.redis.state import open_redis as open_state
from storage.redis.urls import read_url
from storage.state import RECHECK, Script
from tests.fakes.cancelling import cancel_everywhere
from tests.servers.redis import RedisServer, open_redis
from tests.servers.waiting import until

ADD = Script(b"return redis.call('INCRBY', KEYS[1], ARGV[1])")
ECHO = Script(b"return ARGV[1]")
WAIT_S = 60


@pytest.fixture
async def state(empty_redis: RedisServer) -> AsyncIterator[RedisState]:
    """Long timeouts, because the machine may be busy."""
    with trio.fail_after(WAIT_S):
        async with open_state(empty_redis.url, round_trip_s=5) as opened:
            yield opened


@pytest.fixture
async def brisk(empty_redis: RedisServer) -> AsyncIterator[RedisState]:
    """The same timeouts as in production."""
    with trio.fail_after(WAIT_S):
        async with open_state(empty_redis.url) as opened:
            yield opened


async def wait_up(state: RedisState) -> float:
    return await until(lambda: state.fault is None)


async def add(state: RedisState, key: bytes = b"k", amount: int = 1) -> object:
    return await state.run(ADD, [key], [b"%d" % amount])


async def test_unknown_script_is_sent_as_text(state: RedisState, empty_redis: RedisServer):
    assert await add(state) == 1
    empty_redis.ask("SCRIPT", "FLUSH")
    assert await add(state) == 2


async def test_calls_during_a_round_trip_are_sent_together(state: RedisState):
    before = state.statistics()
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(add, state)
    after = state.statistics()
    assert await state.call(b"GET", b"k") == b"100"
    assert after.round_trips - before.round_trips <= 2


async def test_flushed_scripts_lose_no_call_under_load(state: RedisState, empty_redis: RedisServer):
    async def caller() -> None:
        for _ in range(100):
            await add(state)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(caller)
        for _ in range(5):
            await trio.to_thread.run_sync(empty_redis.ask, "SCRIPT", "FLUSH")
    assert await state.call(b"GET", b"k") == b"2000"


async def test_replies_reach_their_callers_when_others_are_cancelled(state: RedisState):
    """Goal: a cancelled caller does not shift other replies. Method: half of many callers leave at some moment."""

    async def caller(number: int) -> None:
        for turn in range(30):
            text = b"%d/%d" % (number, turn)
            with trio.move_on_after(0.0003 * (turn % 5) if number % 2 else 10):
                assert await state.run(ECHO, [b"k"], [text]) == text

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(caller, number)


async def test_call_can_be_cancelled_at_every_wait(state: RedisState):
    async def goes_on(_got_through: bool) -> None:
        assert await state.run(ECHO, [b"k"], [b"x"]) == b"x"

    assert await cancel_everywhere(lambda: add(state), goes_on) >= 1


async def test_call_cancelled_before_sending_has_no_effect(state: RedisState):
    await add(state, amount=0)
    with trio.CancelScope() as scope:
        scope.cancel()
        await add(state)
    assert await state.call(b"GET", b"k") == b"0"


async def test_calls_take_effect_in_order(state: RedisState):
    append = Script(b"return redis.call('APPEND', KEYS[1], ARGV[1])")
    for letter in (b"a", b"b", b"c"):
        assert state.run_nowait(append, [b"k"], [letter])
    assert await state.call(b"GET", b"k") == b"abc"


async def test_many_calls_of_one_script_are_answered_in_order(state: RedisState):
    calls = [([b"k"], [b"%d" % number]) for number in range(1200)]
    assert await state.run_all(ECHO, calls) == [b"%d" % number for number in range(1200)]


async def test_server_error_reaches_only_its_caller(state: RedisState):
    await state.call(b"LPUSH", b"list", b"x")
    with pytest.raises(StateUnavailable, match="WrongType"):
        await add(state, b"list")
    assert await add(state) == 1


def said_of_links(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records]
    return [" ".join(line.split(":")[0].split()[-2:]) for line in told if line.startswith("the link to Redis ")]


async def test_killed_server_fails_calls_immediately_and_recovers_soon(
    state: RedisState, empty_redis: RedisServer, caplog: pytest.LogCaptureFixture
):
    await add(state)
    empty_redis.kill()
    await until(lambda: state.fault is not None)
    began = trio.current_time()
    for _ in range(100):
        with pytest.raises(StateUnavailable) as refusal:
            await add(state)
        assert refusal.value.happened is False
    assert trio.current_time() - began < 2  # all calls together, in less time than a single call may wait
    assert not state.run_nowait(ADD, [b"k"], [b"1"])
    await trio.sleep(1.0)
    await trio.to_thread.run_sync(empty_redis.start)
    assert await wait_up(state) < 10.0
    assert await add(state) == 1
    assert said_of_links(caplog) == ["is down", "is up"]


async def test_frozen_server_fails_calls_by_the_deadline_and_recovers_soon(brisk: RedisState, empty_redis: RedisServer):
    await add(brisk)
    empty_redis.freeze()
    try:
        began = trio.current_time()
        with pytest.raises(StateUnavailable, match="no response within") as refusal:
            await add(brisk)
        assert refusal.value.happened is None
        assert trio.current_time() - began < 1.0
        began = trio.current_time()
        for _ in range(20):
            with pytest.raises(StateUnavailable):
                await add(brisk)
            await trio.sleep(0.05)
        assert trio.current_time() - began < 2.0
    finally:
        empty_redis.thaw()
    assert await wait_up(brisk) < 10.0
    await add(brisk)


async def test_server_frozen_without_calls_is_detected(brisk: RedisState, empty_redis: RedisServer):
    empty_redis.freeze()
    try:
        await until(lambda: brisk.fault is not None)
    finally:
        empty_redis.thaw()
    await wait_up(brisk)


async def test_server_slower_than_usual_within_the_deadline_is_awaited(state: RedisState, empty_redis: RedisServer):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, empty_redis.ask, "DEBUG", "SLEEP", "0.1")
        await trio.sleep(0.02)
        assert await add(state) == 1
    assert state.statistics().connects == 1


async def test_late_server_fails_callers_but_keeps_its_connection(brisk: RedisState, empty_redis: RedisServer):
    """Goal: a packet lost once needs no reconnect. Method: a server that freezes for as long as TCP takes."""
    connects: list[int] = []
    async with brisk.subscribe(b"news") as news:
        assert await news.receive() == RECHECK
        await add(brisk)
        brisk.on_connect(lambda: connects.append(1))
        empty_redis.freeze()
        try:
            began = trio.current_time()
            with pytest.raises(StateUnavailable, match="no response within") as refusal:
                await add(brisk)
            stalled_at = trio.current_time()
            assert refusal.value.happened is None
            with pytest.raises(StateUnavailable) as next_refusal:
                await add(brisk)
            assert next_refusal.value.happened is False
            assert trio.current_time() - stalled_at < 0.08
            await trio.sleep(max(0.0, began + 0.16 - trio.current_time()))
        finally:
            empty_redis.thaw()
        await wait_up(brisk)
        assert connects == [1], "the reconnect was announced once"
        assert await add(brisk) == 3, "the late call happened, and the refused call did not"
        empty_redis.ask("PUBLISH", "news", "one")
        assert await news.receive() == b"one"
    statistics = brisk.statistics()
    assert (statistics.connects, statistics.lost) == (1, 1)


async def test_subscription_lost_in_a_late_round_trip_is_repeated(brisk: RedisState, empty_redis: RedisServer):
    """Goal: no listener stays without messages. Method: subscribe again during a round trip that is too late."""
    async with brisk.subscribe(b"news") as news:
        assert await news.receive() == RECHECK
    await add(brisk)
    empty_redis.freeze()
    try:
        brisk.run_nowait(ADD, [b"k"], [b"1"])
        sent = brisk.statistics().round_trips
        await until(lambda: brisk.statistics().round_trips > sent)
        async with brisk.subscribe(b"news") as news:
            await until(lambda: brisk.fault is not None)
            empty_redis.thaw()
            assert await news.receive() == RECHECK
            empty_redis.ask("PUBLISH", "news", "one")
            assert await news.receive() == b"one"
    finally:
        empty_redis.thaw()


async def test_repeated_late_replies_reach_no_other_call(brisk: RedisState, empty_redis: RedisServer):
    async def caller(number: int) -> None:
        for turn in range(150):
            text = b"%d/%d" % (number, turn)
            with suppress(StateUnavailable):
                assert await brisk.run(ECHO, [b"k"], [text]) == text
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(caller, number)
        for late_s in (0.15, 0.2, 0.24, 0.3):
            await trio.sleep(0.1)
            await trio.to_thread.run_sync(empty_redis.ask, "DEBUG", "SLEEP", str(late_s))
    await wait_up(brisk)
    assert brisk.statistics().lost > 0


@pytest.mark.trio(run=trio.run)
async def test_slow_process_keeps_its_connection(brisk: RedisState):
    """Goal: a reply that arrived before the deadline counts, even if it is read later. Method: block the event loop."""
    await add(brisk)
    before = brisk.statistics()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(add, brisk)
        await until(lambda: brisk.statistics().round_trips > before.round_trips)
        time.sleep(0.4)  # noqa: ASYNC251 - what is tested
    assert await add(brisk) == 3
    assert brisk.statistics().connects == 1


async def test_connection_closed_by_the_server_is_replaced(state: RedisState, empty_redis: RedisServer):
    connects: list[int] = []
    state.on_connect(lambda: connects.append(1))
    await trio.to_thread.run_sync(empty_redis.ask, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await until(lambda: connects)
    assert await add(state) == 1


async def test_state_opens_without_its_server_and_connects_later(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with trio.fail_after(WAIT_S), open_redis(tmp_path) as empty_redis:
        empty_redis.kill()
        async with open_state(empty_redis.url, start_s=0.1) as state:
            assert state.fault is not None
            with pytest.raises(StateUnavailable):
                await add(state)
            await trio.to_thread.run_sync(empty_redis.start)
            await wait_up(state)
            assert await add(state) == 1
    assert said_of_links(caplog) == ["is down", "is up"]


async def test_password_and_database_are_used(tmp_path: Path):
    with trio.fail_after(WAIT_S), open_redis(tmp_path, password="p@ss word") as empty_redis:
        async with open_state(f"redis://:p%40ss%20word@127.0.0.1:{empty_redis.port}/3") as state:
            await add(state)
        assert b"db3:keys=1" in empty_redis.ask("INFO", "KEYSPACE")
        async with open_state(f"redis://127.0.0.1:{empty_redis.port}", start_s=0.2) as state:
            assert state.fault is not None


async def test_messages_reach_all_listeners_and_report_possible_losses(state: RedisState, empty_redis: RedisServer):
    async with state.subscribe(b"news") as first, state.subscribe(b"news") as second:
        assert await first.receive() == RECHECK
        assert await second.receive() == RECHECK
        assert state.publish(b"news", b"one")
        assert await first.receive() == b"one"
        assert await second.receive() == b"one"
        async with state.subscribe(b"news") as third:
            assert await third.receive() == RECHECK
        empty_redis.kill()
        await trio.to_thread.run_sync(empty_redis.start)
        assert await first.receive() == RECHECK
        assert await add(state) == 1
        empty_redis.ask("PUBLISH", "news", "two")
        assert await first.receive() == b"two"
    await until(lambda: empty_redis.ask("PUBSUB", "NUMSUB", "news") == [b"news", 0])


async def test_slow_listener_receives_recheck(state: RedisState):
    async with state.subscribe(b"news") as channel:
        assert await channel.receive() == RECHECK
        for number in range(400):
            state.publish(b"news", b"%d" % number)
        await state.call(b"GET", b"k")
        got = []
        with trio.move_on_after(0.2):
            while True:
                got.append(await channel.receive())
        assert got[:3] == [b"0", b"1", b"2"]
        assert got[-1] == RECHECK
        assert len(got) == 256


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://a", "expected"),
        ("redis://", "expected"),
        ("redis://a:x", "expected"),
        ("redis://a/b", "expected"),
        ("redis://a,b", "accepts one server"),
        ("redis+cluster://a/1", "expected"),
        ("redis+sentinel://a", "expected"),
        ("redis://:secret@a:x", "expected"),
    ],
)
def test_invalid_address_is_refused_without_its_password(url: str, words: str):
    with pytest.raises(StoreUnusable, match=words) as refusal:
        read_url(url)
    assert "secret" not in str(refusal.value)


def test_addresses_are_parsed():
    assert read_url("redis://a").addresses == (("a", 6379),)
    assert read_url("rediss://u:p@[::1]:7/2").access.tls is not None
    assert read_url("redis+cluster://a:1,b").addresses == (("a", 1), ("b", 6379))
    watched = read_url("redis+sentinel://:p@a,b:5/main/4")
    assert (watched.addresses, watched.service) == ((("a", 26379), ("b", 5)), "main")
    assert (watched.access.db, watched.access.password) == (4, "p")
