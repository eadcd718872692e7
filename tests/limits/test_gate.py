"""The contract of a gate, met by the one in memory and the one shared by nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest
import trio

from limits.errors import ConcurrencyReached, RateLimited, WindowState
from limits.gate import NO_GENERATION, Admitted, BalanceUpdate, Gate, Leases, MemoryGate
from limits.window import Window
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.shared_gates import open_gate, set_clock, virtual_scripts

REQUESTS, CONCURRENT = 5, 3
START_S = 1_000_000_000


@dataclass(slots=True)
class Clock:
    """The clock of the gate under test, in seconds."""

    tell: Callable[[float], None] = lambda _now: None
    now: float = START_S

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        self.tell(self.now)


@asynccontextmanager
async def open_memory(clock: Clock) -> AsyncIterator[Gate]:
    yield MemoryGate(Window(REQUESTS), Leases(CONCURRENT), lambda: clock.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "shared"])
async def gate(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[Gate]:
    opened: AbstractAsyncContextManager[Gate]
    if request.param == "memory":
        opened = open_memory(clock)
    else:
        server = request.getfixturevalue("empty_redis")
        clock.tell = lambda now: set_clock(server, round(now * 1e6))
        clock.pass_(0)
        opened = open_gate(server, requests=REQUESTS, concurrent=CONCURRENT, scripts=virtual_scripts())
    with trio.fail_after(20):
        async with opened as running:
            yield running


async def enter(gate: Gate, key: str = "k", generation: bytes = NO_GENERATION) -> Admitted:
    """Admit a request like admission does."""
    return gate.admit_nowait("a", key) or await gate.admit("a", key, generation)


async def state_of(gate: Gate, key: str = "k") -> WindowState:
    admitted = await enter(gate, key)
    admitted.lease.release()
    return admitted.window


async def test_admit_counts_down_and_reports_the_next_slot(gate: Gate, clock: Clock):
    assert await state_of(gate) == (REQUESTS, 4, 60)
    clock.pass_(10.25)
    assert await state_of(gate) == (REQUESTS, 3, 50)
    clock.pass_(49.75)
    assert await state_of(gate) == (REQUESTS, 3, 11)


async def test_full_window_refuses_until_the_oldest_admission_expires(gate: Gate, clock: Clock):
    for _ in range(REQUESTS):
        await state_of(gate)
        clock.pass_(1)
    with pytest.raises(RateLimited) as refusal:
        await enter(gate)
    assert refusal.value.state == (REQUESTS, 0, 55)
    clock.pass_(54.5)
    with pytest.raises(RateLimited) as refusal:
        await enter(gate)
    assert refusal.value.state == (REQUESTS, 0, 1)
    clock.pass_(0.5)
    assert (await state_of(gate)).remaining == 0


async def test_lease_counts_until_its_first_release(gate: Gate):
    held = [(await enter(gate)).lease for _ in range(CONCURRENT)]
    with pytest.raises(ConcurrencyReached) as refusal:
        await enter(gate)
    assert refusal.value.limit == CONCURRENT
    held[0].release()
    held[0].release()
    assert (await enter(gate)).window.remaining == 1  # the refused request was not counted
    with pytest.raises(ConcurrencyReached):
        await enter(gate)


async def test_statistics_report_leases_in_use(gate: Gate):
    held = [(await enter(gate, key)).lease for key in ("k", "k", "other")]
    assert gate.statistics()[:2] == (3, 2)
    held[0].release()
    held[2].release()
    assert gate.statistics()[:2] == (1, 1)
    assert gate.statistics().window_keys in (2, None)


async def test_windows_of_two_keys_are_independent(gate: Gate):
    for _ in range(REQUESTS):
        await state_of(gate, "k")
    assert await state_of(gate, "other") == (REQUESTS, 4, 60)


async def test_resize_applies_immediately_and_keeps_earlier_admissions(gate: Gate, clock: Clock):
    for _ in range(4):
        await state_of(gate)
        clock.pass_(1)
    gate.resize(requests=2, concurrent=1)
    with pytest.raises(RateLimited) as refusal:
        await enter(gate)
    assert refusal.value.state == (2, 0, 58)  # three of the four admissions must leave first
    gate.resize(requests=6, concurrent=1)
    held = await enter(gate)
    assert held.window == (6, 1, 56)
    with pytest.raises(ConcurrencyReached) as reached:
        await enter(gate)
    assert reached.value.limit == 1


async def test_named_leases_are_counted_separately(gate: Gate):
    polls = [await gate.hold("a", "k", name="poll", limit=2) for _ in range(3)]
    assert [poll is not None for poll in polls] == [True, True, False]
    assert (await enter(gate)).window.remaining == 4
    assert polls[0] is not None
    polls[0].release()
    assert await gate.hold("a", "k", name="poll", limit=2) is not None
    assert await gate.hold("a", "k", name="poll", limit=2) is None


async def test_key_changes_and_balances_do_not_affect_the_window(gate: Gate):
    gate.publish_balance("a", BalanceUpdate(1, 100))
    await gate.change_key("a", "other")
    assert await state_of(gate) == (REQUESTS, 4, 60)


async def test_cancelled_admission_is_not_counted(gate: Gate, clock: Clock):
    """Goal: a cancelled admission keeps no lease and no slot. Method: cancel admission at each of its waits."""

    async def way_in() -> None:
        (await gate.admit("a", "k")).lease.release()

    async def check(got_through: bool) -> None:
        held = [await enter(gate) for _ in range(CONCURRENT)]
        assert held[-1].window.remaining == REQUESTS - CONCURRENT - got_through
        for one in held:
            one.lease.release()
        clock.pass_(60)

    await cancel_everywhere(way_in, check)
