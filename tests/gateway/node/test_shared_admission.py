"""Admission on two nodes that share a Redis: a change on one applies on the other, also after lost messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

import billing.migrations
from billing.errors import KeyUnusable
from billing.keys.keys import NewKey
from gateway.api.admission import LOOKUPS_MAX
from gateway.http.request import Request
from limits.errors import ConcurrencyReached, RateLimited
from limits.gate import KNOWN_S, MemoryGate
from storage.errors import StateUnavailable
from tests.billing.desk import Desk, open_desk
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.entrances import Entrance, open_entrance, release
from tests.fakes.inline_store import open_inline
from tests.fakes.stores import store_at
from tests.servers.redis import RedisServer
from tests.servers.toxic import open_toxic
from tests.servers.waiting import until


@dataclass(slots=True)
class Two:
    """Two nodes, and an account with a key that both accept."""

    one: Entrance
    other: Entrance
    account: str
    key: NewKey

    async def new_key(self) -> NewKey:
        """Revoke the last extra key, and return another that both nodes have cached."""
        keys = self.one.desk.keys
        for old in await keys.list(self.account):
            if old.revoked_at is None and old.id != self.key.id:
                await keys.revoke(old.id)
        key = await keys.create(self.account)
        for node in (self.one, self.other):
            await node.admit_and_release(key.key)
        return key


@asynccontextmanager
async def open_two(folder: Path, url: str, *, first_url: str = "", **limits: int) -> AsyncIterator[Two]:
    """Open two nodes on one store: the second at `url`, the first at `first_url` or at the same."""
    with trio.fail_after(30):
        async with (
            open_desk(store_at(folder / "store.db")) as desk,
            open_entrance(desk.store, first_url or url, **limits) as one,
            open_entrance(desk.store, url, **limits) as other,
        ):
            other.desk._numbers = one.desk._numbers
            account = (await one.desk.accounts.create("Ada", credits=1000)).id
            yield Two(one, other, account, await one.desk.keys.create(account))


@pytest.fixture
async def two(empty_redis: RedisServer, tmp_path: Path) -> AsyncIterator[Two]:
    async with open_two(tmp_path, empty_redis.url) as opened:
        yield opened


async def refusal(node: Entrance, key: str) -> str:
    """Return the reason why a node rejects a key."""
    with pytest.raises(KeyUnusable) as caught:
        await node.admit_and_release(key)
    return caught.value.reason


async def test_key_revoked_on_one_node_is_rejected_on_another(two: Two) -> None:
    for number in range(4):
        key = await two.new_key()
        here, there = (two.one, two.other) if number % 2 else (two.other, two.one)
        await here.desk.keys.revoke(key.id)
        assert await refusal(there, key.key) == "revoked"
        assert await refusal(here, key.key) == "revoked"
        assert there.gate.statistics().leases == 0


async def test_account_suspension_and_resumption_apply_on_another_node(two: Two) -> None:
    for number in range(4):
        here, there = (two.one, two.other) if number % 2 else (two.other, two.one)
        await there.admit_and_release(two.key.key)
        await here.desk.lifecycle.suspend(two.account)
        made = await here.desk.keys.create(two.account)
        for node in (there, here):
            assert await refusal(node, two.key.key) == "suspended"
            assert await refusal(node, made.key) == "suspended"
            assert node.gate.statistics().leases == 0
        await here.desk.lifecycle.resume(two.account)
        for node in (there, here):
            await node.admit_and_release(two.key.key)
            await node.admit_and_release(made.key)
        await here.desk.keys.revoke(made.id)


async def test_account_deleted_on_one_node_is_unknown_on_another(two: Two) -> None:
    for node in (two.one, two.other):
        await node.admit_and_release(two.key.key)
    await two.one.desk.lifecycle.delete(two.account)
    assert await refusal(two.other, two.key.key) == "unknown"
    assert await refusal(two.one, two.key.key) == "unknown"


async def test_just_revoked_key_is_unauthenticated(two: Two) -> None:
    """Otherwise the response would reveal the account's balance."""
    await two.other.admit_and_release(two.key.key)
    await two.one.desk.keys.revoke(two.key.id)
    request = Request("req_1", "GET", "/", b"", {b"x-api-key": two.key.key.encode()}, 0.0)
    with pytest.raises(KeyUnusable):
        await two.other.run_admission(request)
    assert request.caller is None


async def test_changed_key_is_looked_up_again_once(two: Two) -> None:
    before = (await two.other.admit_and_release(two.key.key)).key
    await two.one.desk.keys.update(two.key.id, credit_limit=5)
    after = (await two.other.admit_and_release(two.key.key)).key
    assert after.generation != before.generation
    assert (await two.other.admit_and_release(two.key.key)).key is after
    assert two.other.admission.counts["admitted"] == 3


async def test_lookup_that_races_a_revocation_admits_nothing(two: Two) -> None:
    """Goal: a row that was read before a key's change admits nothing. Method: the key changes after the first read."""
    read, changes = two.other.desk.store.read, 0

    async def read_and_revoke(fn: Callable[..., object]) -> object:
        nonlocal changes
        found = await read(fn)
        if not changes:
            await two.one.desk.keys.revoke(two.key.id)
        changes += 1
        return found

    two.other.desk.keys._store = Reading(read_and_revoke)  # type: ignore[assignment]
    assert await refusal(two.other, two.key.key) == "revoked"
    assert changes == 2


@dataclass(frozen=True, slots=True)
class Reading:
    """A store that only supports reads."""

    read: Callable[..., object]


async def test_key_that_changes_at_each_lookup_is_rejected(two: Two) -> None:
    read, looks = two.other.desk.store.read, 0

    async def read_and_change(fn: Callable[..., object]) -> object:
        nonlocal looks
        looks += 1
        found = await read(fn)
        await two.one.gate.change_key(two.account, two.key.id)
        return found

    two.other.desk.keys._store = Reading(read_and_change)  # type: ignore[assignment]
    with pytest.raises(StateUnavailable):
        await two.other.admit_and_release(two.key.key)
    assert looks == 1 + LOOKUPS_MAX
    assert len(two.one.gate) == len(two.other.gate) == 0


async def test_keys_can_be_revoked_without_redis(empty_redis: RedisServer, two: Two) -> None:
    await two.other.admit_and_release(two.key.key)
    empty_redis.kill()
    await until(lambda: two.one.state.fault and two.other.state.fault)
    with pytest.raises(StateUnavailable):
        await two.other.admit_and_release(two.key.key)
    assert (await two.one.desk.keys.revoke(two.key.id)).revoked_at is not None
    empty_redis.start()
    await until(lambda: two.other.state.fault is None)
    assert await refusal(two.other, two.key.key) == "revoked"
    assert two.other.admission.counts["state_away"] == 1


async def test_node_publishes_changes_after_redis_returns(empty_redis: RedisServer, tmp_path: Path) -> None:
    """Until then the other node admits the key from its cache, but no charge is taken for it."""
    async with open_toxic("127.0.0.1", empty_redis.port) as toxic:
        toxic_url = f"redis://{toxic.host}:{toxic.port}"
        async with open_two(tmp_path, empty_redis.url, first_url=toxic_url) as two:
            one, other = two.one, two.other
            await other.admit_and_release(two.key.key)
            assert await other.desk.balances.read(two.account) == 1000
            toxic.refuse()
            toxic.reset()
            await until(lambda: one.state.fault)
            await one.desk.keys.revoke(two.key.id)
            assert await one.desk.accounts.grant(two.account, 7) == 1007
            await other.admit_and_release(two.key.key)
            with pytest.raises(KeyUnusable):
                await other.desk.charges.take(other.desk.request(two.account, two.key.id))
            assert other.desk.balances.nowait(two.account) == 1000
            second = await one.desk.keys.create(two.account)
            toxic.admit()
            await until(lambda: empty_redis.ask("KEYS", "*balance") and empty_redis.ask("KEYS", "*generation*"))
            assert await refusal(other, two.key.key) == "revoked"
            await other.admit_and_release(second.key)
            assert other.desk.balances.nowait(two.account) == 1007


async def test_cancelled_revocation_takes_effect_on_both_nodes_or_neither(two: Two) -> None:
    key = await two.new_key()

    async def check(_got_through: bool) -> None:
        nonlocal key
        if (await two.one.desk.keys.get(key.id)).revoked_at is None:
            await two.other.admit_and_release(key.key)
        else:
            assert await refusal(two.other, key.key) == "revoked"
            assert await refusal(two.one, key.key) == "revoked"
            key = await two.new_key()

    assert await cancel_everywhere(lambda: two.one.desk.keys.revoke(key.id), check) >= 4


async def test_request_cancelled_during_admission_leaves_no_lease(two: Two, empty_redis: RedisServer) -> None:
    """This is the longest path: the key is cached, was changed on another node, and must be looked up again."""
    generations = iter(range(1000))

    async def admit() -> None:
        await two.one.gate.change_key(two.account, two.key.id)
        request = Request(f"req_{next(generations)}", "GET", "/", b"", {b"x-api-key": two.key.key.encode()}, 0.0)
        try:
            await two.other.run_admission(request)
        finally:
            release(request)

    async def check(_got_through: bool) -> None:
        leases = f"sluice:{{{two.account}}}:leases:{two.key.id}"
        await until(lambda: empty_redis.ask("ZCARD", leases) == 0)
        assert len(two.other.gate) == 0
        window = f"sluice:{{{two.account}}}:window:{two.key.id}"
        assert empty_redis.ask("LLEN", window) == two.other.admission.counts["admitted"]

    assert await cancel_everywhere(admit, check) >= 4


async def test_nodes_share_one_window(empty_redis: RedisServer, tmp_path: Path) -> None:
    async with open_two(tmp_path, empty_redis.url, requests=5) as two:
        seen = [(await node.admit_and_release(two.key.key)).window for node in (two.one, two.other, two.one, two.other)]
        assert [state and state.remaining for state in seen] == [4, 3, 2, 1]
        await two.one.admit_and_release(two.key.key)
        for node in (two.one, two.other):
            request = Request("req_1", "GET", "/", b"", {b"x-api-key": two.key.key.encode()}, 0.0)
            with pytest.raises(RateLimited):
                await node.run_admission(request)
            assert request.caller is not None
            assert request.caller.window is not None
            assert request.caller.window[:2] == (5, 0)
            assert 50 <= request.caller.window.reset_s <= 60
        assert two.one.admission.counts["rate_limited"] == two.other.admission.counts["rate_limited"] == 1


async def test_nodes_share_leases(empty_redis: RedisServer, tmp_path: Path) -> None:
    async with open_two(tmp_path, empty_redis.url, concurrent=2) as two:
        running = [await node.admit(two.key.key) for node in (two.one, two.other)]
        request = Request("req_1", "GET", "/", b"", {b"x-api-key": two.key.key.encode()}, 0.0)
        with pytest.raises(ConcurrencyReached):
            await two.one.run_admission(request)
        assert request.caller is not None
        assert request.caller.window is None
        release(running[1])
        await two.other.admit_and_release(two.key.key)  # the same link sends the release before this admission


async def test_balance_changed_on_one_node_is_reported_by_another(two: Two) -> None:
    one, other = two.one.desk, two.other.desk
    assert await other.balances.read(two.account) == 1000
    for taken in range(1, 6):
        charge = await one.charges.take(one.request(two.account, two.key.id, credits=10))
        assert charge.balance_after == 1000 - 10 * taken
        await two.one.admit_and_release(two.key.key)  # the same link sends the new balance before this admission
        await two.other.admit_and_release(two.key.key)
        assert other.balances.nowait(two.account) == 1000 - 10 * taken
        await one.charges.close(charge, used=10)
    await other.charges.close(await other.charges.take(other.request(two.account, two.key.id)), used=0)
    await two.other.admit_and_release(two.key.key)
    await two.one.admit_and_release(two.key.key)
    assert one.balances.nowait(two.account) == other.balances.nowait(two.account) == 950


async def test_concurrent_balance_changes_converge(two: Two) -> None:
    async def spend(node: Entrance) -> None:
        for _ in range(20):
            charge = await node.desk.charges.take(node.desk.request(two.account, two.key.id))
            await node.desk.charges.close(charge, used=1)
            await node.admit_and_release(two.key.key)

    async with trio.open_nursery() as nursery:
        for node in (two.one, two.other, two.one, two.other):
            nursery.start_soon(spend, node)
    for node in (two.one, two.other, two.one, two.other):
        await node.admit_and_release(two.key.key)
    for node in (two.one, two.other):
        assert node.desk.balances.nowait(two.account) == 1000 - 80


async def test_shared_key_is_cached_for_half_a_minute(autojump_clock: object) -> None:
    """Method: virtual time, a store without threads, and a gate that publishes no changes."""
    store = open_inline([billing.migrations.MIGRATIONS])
    silent_gate = MemoryGate.__new__(MemoryGate)
    desk, elsewhere = Desk(store, silent_gate), Desk(store)
    account = await desk.accounts.create("Ada")
    key = await desk.keys.create(account.id)
    await desk.keys.find(key.key)
    await elsewhere.keys.revoke(key.id)
    await trio.sleep(KNOWN_S - 0.1)
    assert desk.keys.find_nowait(key.key) is not None
    await trio.sleep(0.1)
    assert desk.keys.find_nowait(key.key) is None
    with pytest.raises(KeyUnusable):
        await desk.keys.find(key.key)
    store.close()
