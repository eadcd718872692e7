"""Deadlines of many waits: each expires once, never early, at most a tick late, and never after being cleared."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from limits.timers import TICK_S, Deadlines, whole_seconds

ROUNDING_S = 1e-6


class Timed:
    """A subject that records when it expired."""

    def __init__(self) -> None:
        self.expired_at: list[float] = []

    def expire(self) -> None:
        self.expired_at.append(trio.current_time())

    def assert_expired(self, *due_at: float) -> None:
        """Check that it expired at these times, each at most a tick later."""
        assert len(self.expired_at) == len(due_at)
        for expired_at, at in zip(self.expired_at, due_at, strict=True):
            assert at - ROUNDING_S <= expired_at <= at + TICK_S + ROUNDING_S


@asynccontextmanager
async def open_deadlines() -> AsyncIterator[Deadlines]:
    """Deadlines with their task."""
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        yield deadlines
        nursery.cancel_scope.cancel()


def assert_empty(deadlines: Deadlines) -> None:
    assert not deadlines._new
    assert not deadlines._tick_of
    assert not deadlines._filed, "a tick that has passed is removed"
    assert not deadlines._ticks


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(-1, 26), st.none() | st.floats(0, 30)), max_size=30))
def test_each_wait_ends_once_and_in_time_unless_cleared(waits: list[tuple[float, float, float | None]]) -> None:
    """For each wait: when it starts, for how long, and after how long it is cleared."""

    async def one(deadlines: Deadlines, begin_s: float, wait_s: float, clear_s: float | None) -> None:
        await trio.sleep(begin_s)
        wait, began = Timed(), trio.current_time()
        deadlines.set(wait, began + wait_s)
        await trio.sleep(40 if clear_s is None else clear_s)
        deadlines.clear(wait)
        seen = list(wait.expired_at)
        await trio.sleep(80 - trio.current_time())
        assert wait.expired_at == seen, "the timer was cleared"
        if seen or clear_s is None:
            wait.assert_expired(began + max(wait_s, 0.0))
        else:
            assert clear_s <= max(wait_s, 0.0) + TICK_S + ROUNDING_S

    async def run() -> None:
        async with open_deadlines() as deadlines, trio.open_nursery() as waiting:
            for wait in waits:
                waiting.start_soon(one, deadlines, *wait)
        assert_empty(deadlines)

    trio.run(run, clock=MockClock(autojump_threshold=0))


STEPS = st.lists(
    st.tuples(
        st.integers(0, 4), st.sampled_from((0.0, 0.375, 1.125, 7.125, None)), st.sampled_from((0.25, 0.5, 1.0, 3.0))
    ),
    max_size=30,
)
"""Avoid times within a tick after a deadline, where either order is correct."""


@given(STEPS)
@settings(max_examples=80, deadline=None)
def test_nothing_expires_early_late_or_twice(steps: list[tuple[int, float | None, float]]) -> None:
    """Method: set (in seconds) and clear (None) subjects at random; a model says when each must expire."""

    async def run() -> None:
        subjects = [Timed() for _ in range(5)]
        due: dict[int, float] = {}
        expected: list[list[float]] = [[] for _ in subjects]

        def pass_time(until: float) -> None:
            for place in [place for place, at in due.items() if at < until]:
                expected[place].append(due.pop(place))

        async with open_deadlines() as deadlines:
            for place, in_s, pause_s in steps:
                pass_time(trio.current_time())
                deadlines.clear(subjects[place])
                due.pop(place, None)
                if in_s is not None:
                    deadlines.set(subjects[place], trio.current_time() + in_s)
                    due[place] = trio.current_time() + in_s
                await trio.sleep(pause_s)
            await trio.sleep(100.0)
            pass_time(math.inf)
        for subject, times in zip(subjects, expected, strict=True):
            subject.assert_expired(*times)

    trio.run(run, clock=MockClock(autojump_threshold=0))


async def test_past_deadline_expires_immediately_and_infinite_never(autojump_clock: MockClock) -> None:
    past, never = Timed(), Timed()
    async with open_deadlines() as deadlines:
        await trio.sleep(10.0)
        deadlines.set(never, math.inf)
        deadlines.set(past, 3.0)
        await trio.sleep(1000.0)
        deadlines.clear(never)
    assert (past.expired_at, never.expired_at) == ([10.0], [])


async def test_waits_that_end_early_wake_the_task_once(autojump_clock: MockClock) -> None:
    async with open_deadlines() as deadlines:
        for nth in range(1, 100):
            wait = Timed()
            deadlines.set(wait, nth)
            deadlines.clear(wait)
        await trio.sleep(1.5)
        assert deadlines._wakes_at == math.inf
        assert_empty(deadlines)


async def test_many_deadlines_close_together_wake_the_task_a_few_times(autojump_clock: MockClock) -> None:
    """Goal: many long-polls are cheap. Method: count how often the task looks for expired subjects."""
    looks = 0

    class Counting(Deadlines):
        def _take_due(self, now: float) -> list[Timed]:
            nonlocal looks
            looks += 1
            return super()._take_due(now)

    deadlines, waits = Counting(), [Timed() for _ in range(1000)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        for nth, wait in enumerate(waits):
            deadlines.set(wait, 25.0 + nth / 1000)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    for nth, wait in enumerate(waits):
        wait.assert_expired(25.0 + nth / 1000)
    assert looks <= 1.0 / TICK_S + 2


@given(now=st.floats(0, 1e9), ahead_s=st.one_of(st.floats(-100, 4000), st.integers(0, 300)))
@example(now=0.1 + 0.2, ahead_s=60.0)
@example(now=1e-9, ahead_s=30.0)
@example(now=240.21519346421482, ahead_s=60.0)
def test_whole_seconds_is_the_smallest_sufficient_number(now: float, ahead_s: float) -> None:
    until = now + ahead_s
    seconds = whole_seconds(now, until)
    assert now + seconds >= until
    assert seconds == 0 or now + (seconds - 1) < until
