"""The shared gate after losses, on a real Redis: dead nodes, lost answers, an emptied server, changed keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio

from limits.errors import ConcurrencyReached, GenerationPassed, WindowState
from limits.gate import NO_GENERATION, BalanceUpdate
from limits.shared_gate import SharedGate, open_shared_gate
from storage.errors import StateUnavailable
from storage.redis.state import open_redis
from tests.fakes.shared_gates import open_gate, set_clock, virtual_scripts
from tests.servers.redis import RedisServer
from tests.servers.waiting import until


@pytest.fixture
async def gate(empty_redis: RedisServer) -> AsyncIterator[SharedGate]:
    with trio.fail_after(20):
        async with open_gate(empty_redis, lease_s=0.6) as opened:
            yield opened


async def test_only_leases_of_a_dead_node_expire(empty_redis: RedisServer):
    opened = partial(open_gate, empty_redis, requests=100, lease_s=0.6)
    with trio.fail_after(20):
        async with opened() as living:
            async with opened() as dead:
                for _ in range(2):
                    await dead.admit("a", "k")
            await living.admit("a", "k")
            with pytest.raises(ConcurrencyReached):
                await living.admit("a", "k")
            for _ in range(4):
                await trio.sleep(0.2)
                await living.renew()
            for _ in range(2):
                await living.admit("a", "k")
            with pytest.raises(ConcurrencyReached):
                await living.admit("a", "k")


async def test_leases_and_windows_leave_no_keys_in_redis(empty_redis: RedisServer):
    with trio.fail_after(20):
        async with open_gate(empty_redis, window_s=0.2, lease_s=0.2) as gate:
            await gate.admit("a", "k")
            await gate.hold("a", "k", name="poll", limit=5)
            assert len(gate) == 2
    await until(lambda: empty_redis.ask("DBSIZE") == 0)


async def test_emptied_server_gets_the_leases_again_and_starts_new_windows(empty_redis: RedisServer):
    with trio.fail_after(20):
        async with open_gate(empty_redis, requests=4) as gate:
            held = [(await gate.admit("a", "k")).lease for _ in range(3)]
            empty_redis.kill()
            await trio.to_thread.run_sync(empty_redis.start)
            await until(lambda: empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == 3)
            with pytest.raises(ConcurrencyReached):
                await gate.admit("a", "k")
            held[0].release()
            assert (await gate.admit("a", "k")).window == WindowState(4, 3, 60)


async def test_delayed_admissions_of_a_frozen_server_are_undone(empty_redis: RedisServer):
    """Goal: an "unavailable" request is not counted. Method: requests are in flight to a server that freezes."""
    with trio.fail_after(20):
        async with open_gate(empty_redis, requests=5, round_trip_s=0.25) as gate:
            (await gate.admit("a", "k")).lease.release()
            await until(lambda: empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == 0)
            empty_redis.freeze()
            try:
                for happened in (None, False):
                    with pytest.raises(StateUnavailable) as refusal:
                        await gate.admit("a", "k")
                    assert refusal.value.happened is happened
            finally:
                empty_redis.thaw()
            await until(lambda: empty_redis.ask("LLEN", "sluice:{a}:window:k") == 1)
            assert empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == 0
            while True:
                with suppress(StateUnavailable):
                    assert (await gate.admit("a", "k")).window.remaining == 3
                    break
                await trio.sleep(0.01)


async def test_leases_released_during_an_outage_are_free_afterward(empty_redis: RedisServer):
    with trio.fail_after(20):
        async with open_gate(empty_redis, requests=100, round_trip_s=0.25) as gate:
            held = [(await gate.admit("a", "k")).lease for _ in range(3)]
            empty_redis.freeze()
            try:
                held.pop().release()  # in flight when the connection is abandoned
                await until(lambda: gate._state.fault is not None)
                held.pop().release()
            finally:
                empty_redis.thaw()
            await until(lambda: empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == 1)
            assert len(gate) == 1


async def test_lease_released_during_a_renewal_does_not_come_back(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    """Method: the release reaches the server after the node has listed its leases and before they are renewed."""
    with trio.fail_after(20):
        async with open_gate(empty_redis, requests=100) as gate:
            lease = (await gate.admit("a", "k")).lease
            run_all = gate._state.run_all

            async def release_first(*given: Any) -> None:
                monkeypatch.setattr(gate._state, "run_all", run_all)
                lease.release()
                await until(lambda: empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == 0)
                await run_all(*given)
                assert empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == 1, "the script restored the lease"

            monkeypatch.setattr(gate._state, "run_all", release_first)
            await gate.renew()
            await until(lambda: empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == 0)


class Relay:
    """A proxy to the server that holds back client data until `opened` is set, and never forwards a close."""

    def __init__(self, port: int) -> None:
        self.opened = trio.Event()
        self.opened.set()
        self._port = port

    async def carry(self, client: trio.SocketStream) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", self._port) as server, trio.open_nursery() as nursery:
            nursery.start_soon(self._back, server, client)
            with suppress(trio.BrokenResourceError):
                async for data in client:
                    await self.opened.wait()
                    await server.send_all(data)
            await trio.sleep_forever()

    async def _back(self, server: trio.SocketStream, client: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in server:
                await client.send_all(data)


async def test_admission_delivered_too_late_is_not_counted(empty_redis: RedisServer):
    """Goal: an admission cannot happen after it was undone. Method: a relay delivers it after everything else."""
    relay = Relay(empty_redis.port)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, relay.carry, 0, host="127.0.0.1"))
            url = f"redis://127.0.0.1:{listener.socket.getsockname()[1]}"
            async with open_redis(url) as state, open_shared_gate(state, requests=5, concurrent=3) as gate:
                (await gate.admit("a", "k")).lease.release()
                late, relay.opened = relay.opened, trio.Event()
                stalled = relay.opened
                with pytest.raises(StateUnavailable):
                    await gate.admit("a", "k")
                relay.opened = late  # new connections pass; the old one does not yet
                await until(lambda: state.fault is None)
                await until(lambda: not gate._doubtful)
                stalled.set()
                await trio.sleep(0.1)
                assert (await gate.admit("a", "k")).window.remaining == 3
                assert empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == 1
            nursery.cancel_scope.cancel()


async def test_requests_with_an_older_key_generation_are_refused_and_not_counted(
    gate: SharedGate, empty_redis: RedisServer
):
    async with open_gate(empty_redis) as other:
        assert (await gate.admit("a", "k")).window.remaining == 4
        await other.change_key("a", "k")
        with pytest.raises(GenerationPassed) as passed:
            await gate.admit("a", "k")
        first = passed.value.generation
        assert first != NO_GENERATION
        assert (await gate.admit("a", "k", first)).window.remaining == 3
        await other.change_key("a", "k")
        for generation in (first, NO_GENERATION):
            with pytest.raises(GenerationPassed) as passed:
                await gate.admit("a", "k", generation)
            assert passed.value.generation not in (first, NO_GENERATION)
        assert (await gate.admit("a", "other")).window.remaining == 4
        assert empty_redis.ask("PTTL", "sluice:{a}:generation:k") > 500_000  # type: ignore[operator]


async def test_full_window_does_not_hide_a_changed_key(gate: SharedGate):
    for _ in range(5):
        (await gate.admit("a", "k")).lease.release()
    await gate.change_key("a", "k")
    with pytest.raises(GenerationPassed):
        await gate.admit("a", "k")


async def test_only_a_newer_balance_replaces_the_known_one(gate: SharedGate):
    assert (await gate.admit("a", "k")).balance is None
    for told in (BalanceUpdate(2, 50), BalanceUpdate(3, 70), BalanceUpdate(1, 99), BalanceUpdate(3, 0)):
        gate.publish_balance("a", told)
    assert (await gate.admit("a", "other")).balance == BalanceUpdate(3, 70)
    assert (await gate.admit("b", "k")).balance is None


async def test_clock_set_back_by_an_hour_blocks_no_key(empty_redis: RedisServer):
    now_us = 1_000_000_000_000_000
    with trio.fail_after(20):
        set_clock(empty_redis, now_us)
        async with open_gate(empty_redis, requests=3, scripts=virtual_scripts()) as gate:
            for _ in range(3):
                await gate.admit("a", "k")
            set_clock(empty_redis, now_us - 3_600_000_000)
            assert (await gate.admit("a", "k")).window == WindowState(3, 2, 60)


async def test_admission_is_refused_immediately_during_an_outage(empty_redis: RedisServer):
    with trio.fail_after(20):
        async with open_redis(empty_redis.url) as state, open_gate(empty_redis) as gate:
            held = await gate.admit("a", "k")
            empty_redis.kill()
            await until(lambda: state.fault is not None)
            began = trio.current_time()
            for _ in range(200):
                with pytest.raises(StateUnavailable):
                    await gate.admit("a", "k")
            assert trio.current_time() - began < 2
            held.lease.release()
            gate.publish_balance("a", BalanceUpdate(1, 1))
