"""Deadlines of many waits: each ends once, in its order, never early and a tick late at most."""

from __future__ import annotations

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from events.waking.timers import TICK_S, Deadlines


class Kept:
    """A wait that notes when it was ended."""

    def __init__(self) -> None:
        self.ended_at: list[float] = []

    def time_up(self) -> None:
        self.ended_at.append(trio.current_time())


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(-1, 26), st.none() | st.floats(0, 30)), max_size=30))
def test_each_wait_ends_once_and_in_time_unless_it_was_dropped_before(
    waits: list[tuple[float, float, float | None]],
) -> None:
    """For each wait: when it begins, for how long, and after how long it is dropped."""

    async def one(deadlines: Deadlines, begin_s: float, wait_s: float, drop_s: float | None) -> None:
        await trio.sleep(begin_s)
        wait, began = Kept(), trio.current_time()
        tick = deadlines.add(wait, began + wait_s)
        await trio.sleep(40 if drop_s is None else drop_s)
        deadlines.drop(wait, tick)
        seen = list(wait.ended_at)
        await trio.sleep(80 - trio.current_time())
        assert wait.ended_at == seen, "it was dropped"
        due = began + max(wait_s, 0.0)
        if seen or drop_s is None:
            (ended_at,) = seen
            assert due - 1e-6 <= ended_at <= due + TICK_S + 1e-6
        else:
            assert drop_s <= max(wait_s, 0.0) + TICK_S + 1e-6

    async def run() -> None:
        deadlines = Deadlines()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deadlines.keep)
            async with trio.open_nursery() as waiting:
                for wait in waits:
                    waiting.start_soon(one, deadlines, *wait)
            nursery.cancel_scope.cancel()
        assert not deadlines._due, "a tick that has come is forgotten"
        assert not deadlines._ticks

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_wait_that_ends_sooner_than_all_others_is_not_held_up_by_them(autojump_clock: trio.abc.Clock) -> None:
    deadlines, late, soon = Deadlines(), Kept(), Kept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.keep)
        deadlines.add(late, 25.0)
        await trio.sleep(1)
        deadlines.add(soon, 2.0)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert 2.0 <= soon.ended_at[0] <= 2.0 + TICK_S
    assert 25.0 <= late.ended_at[0] <= 25.0 + TICK_S


async def test_waits_that_are_all_over_before_their_time_wake_nobody(autojump_clock: trio.abc.Clock) -> None:
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        for nth in range(100):
            wait = Kept()
            deadlines.drop(wait, deadlines.add(wait, nth))
        nursery.start_soon(deadlines.keep)
        await trio.testing.wait_all_tasks_blocked()
        assert not deadlines._due
        nursery.cancel_scope.cancel()
