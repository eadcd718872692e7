"""Single flight in virtual time: each key has one call at a time, and one waiter is promoted after each failure."""

from __future__ import annotations

import contextlib

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.patient_clock import run_virtually
from upstreams.cache.single_flight import Flights

trio_run = run_virtually


class Calls:
    """Counts its calls. Each call takes a second, and fails as long as `failures` are left."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.made = 0
        self.running = 0
        self.most_at_once = 0

    async def __call__(self) -> str:
        self.made += 1
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            await trio.sleep(1)
        finally:
            self.running -= 1
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the call failed")
        return f"result {self.made}"


async def join(flights: Flights[str], key: str, deadline_at: float, lead: Calls) -> tuple[str, bool]:
    """Make a call as the gateway does, and return its result and whether another caller made it."""
    if key in flights and (followed := await flights.follow(key, deadline_at)) is not None:
        return followed, True
    result = None
    flights.begin(key)
    try:
        result = await lead()
    finally:
        flights.end(key, result)
    return result, False


async def test_thousand_identical_calls_become_one() -> None:
    flights, calls, results = Flights[str](), Calls(), []

    async def ask() -> None:
        results.append(await join(flights, "key", trio.current_time() + 60, calls))

    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(ask)
    assert calls.made == 1
    assert sorted(results) == [("result 1", False)] + [("result 1", True)] * 999
    assert (len(flights), flights.followed_total) == (0, 999)


async def test_other_keys_and_later_calls_run_separately() -> None:
    flights, calls = Flights[str](), Calls()
    async with trio.open_nursery() as nursery:
        for key in ("a", "b"):
            nursery.start_soon(join, flights, key, 60.0, calls)
    assert calls.made == 2
    assert await join(flights, "a", trio.current_time() + 60, calls) == ("result 3", False)


@pytest.mark.parametrize("failures", [1, 3, 20])
async def test_failure_reaches_its_leader_and_promotes_one_follower(failures: int) -> None:
    flights, calls = Flights[str](), Calls(failures)
    told: list[str] = []

    async def ask() -> None:
        try:
            told.append((await join(flights, "key", trio.current_time() + 600, calls))[0])
        except RuntimeError:
            told.append("failed")

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(ask)
    assert calls.most_at_once == 1
    assert calls.made == failures + 1
    assert told.count("failed") == failures
    assert told.count(f"result {failures + 1}") == 50 - failures


async def test_cancelled_leader_promotes_a_follower() -> None:
    flights, calls = Flights[str](), Calls()
    leading = trio.CancelScope()
    results: list[tuple[str, bool]] = []

    async def ask(scope: trio.CancelScope) -> None:
        with scope:
            results.append(await join(flights, "key", 60.0, calls))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, leading)
        await trio.sleep(0.1)
        for _ in range(2):
            nursery.start_soon(ask, trio.CancelScope())
        await trio.sleep(0.1)
        leading.cancel()
    assert sorted(results) == [("result 2", False), ("result 2", True)]


async def test_follower_waits_until_its_own_deadline() -> None:
    flights, calls = Flights[str](), Calls()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(join, flights, "key", 60.0, calls)
        await trio.sleep(0.1)
        with pytest.raises(trio.TooSlowError):
            await join(flights, "key", trio.current_time() + 0.5, calls)
    assert calls.made == 1


@settings(max_examples=50, deadline=None)
@given(
    arrivals=st.lists(st.floats(0, 3), min_size=1, max_size=30),
    failures=st.integers(0, 5),
    hang_ups=st.lists(st.floats(0.1, 3), max_size=5),
)
def test_calls_of_a_key_never_overlap_and_all_callers_get_results(
    arrivals: list[float], failures: int, hang_ups: list[float]
) -> None:
    """Method: clients arrive and disconnect at random times. Every client must return, with a result unless it left."""
    flights, calls = Flights[str](), Calls(failures)
    ended = 0

    async def ask(arrives_at: float, hangs_up_after: float) -> None:
        nonlocal ended
        await trio.sleep(arrives_at)
        with trio.move_on_after(hangs_up_after):
            with contextlib.suppress(RuntimeError):
                await join(flights, "key", trio.current_time() + 100, calls)
        ended += 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for place, arrives_at in enumerate(arrivals):
                patience = hang_ups[place] if place < len(hang_ups) else 1000.0
                nursery.start_soon(ask, arrives_at, patience)

    run_virtually(main)
    assert ended == len(arrivals)
    assert calls.most_at_once == 1
    assert len(flights) == 0
