"""Holds, and the queue of calls that wait for their end, in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from limits.errors import Throttled
from limits.governor import Governor, Turn
from tests.fakes.cancelling import cancel_everywhere

SOON_S, LONG_S = 20.0, 10_000.0
ONE = ("source",)


async def complete_call(governor: Governor, name: str = "source") -> None:
    """Make one call that is answered."""
    turn = await governor.wait_turn((name,), LONG_S)
    turn.answered()
    turn.end()


async def refused(governor: Governor, *names: str, give_up_at: float) -> int:
    """Return the Retry-After of a call that must be refused without waiting."""
    now = trio.current_time()
    with pytest.raises(Throttled) as refusal:
        await governor.wait_turn(names or ONE, give_up_at)
    assert trio.current_time() == now
    return refusal.value.retry_after_s


class Callers:
    """Calls that wait together. `went` has the names and start times of the calls that started, in order."""

    def __init__(self, governor: Governor, nursery: trio.Nursery) -> None:
        self._governor = governor
        self._nursery = nursery
        self.went: list[tuple[str, float]] = []
        self.turns: dict[str, Turn] = {}
        self.refused: dict[str, tuple[int, float]] = {}
        self.scopes: dict[str, trio.CancelScope] = {}

    async def come(self, *names: str, give_up_at: float = LONG_S, of: tuple[str, ...] = ONE) -> None:
        """Start the waiting calls one after the other."""
        for name in names:
            self._nursery.start_soon(self._call, name, of, give_up_at)
            await wait_all_tasks_blocked()

    async def _call(self, name: str, of: tuple[str, ...], give_up_at: float) -> None:
        with trio.CancelScope() as self.scopes[name]:
            try:
                self.turns[name] = await self._governor.wait_turn(of, give_up_at)
            except Throttled as refusal:
                self.refused[name] = (refusal.retry_after_s, trio.current_time())
            else:
                self.went.append((name, trio.current_time()))


async def with_callers(governor: Governor, run: Callable[[Callers], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        await run(Callers(governor, nursery))


async def test_call_waits_for_the_end_of_its_hold_only(autojump_clock: MockClock) -> None:
    governor = Governor()
    governor.hold("search", 10.0)
    await complete_call(governor, "profile")
    assert trio.current_time() == 0.0
    assert len(governor.held) == 1
    await complete_call(governor, "search")
    assert trio.current_time() == 10.0
    assert len(governor.held) == 0
    now = governor.statistics()
    assert (now.held_total, now.queued_total, now.refused_total, now.waiting) == (1, 1, 0, 0)


@pytest.mark.parametrize(
    ("hold_s", "give_up_at", "retry_after_s"), [(30.0, 20.0, 30), (20.0, 20.0, 20), (20.2, 20.1, 21), (0.3, 0.2, 1)]
)
async def test_hold_beyond_the_calls_deadline_refuses_it_immediately(
    autojump_clock: MockClock, hold_s: float, give_up_at: float, retry_after_s: int
) -> None:
    governor = Governor()
    governor.hold("source", hold_s)
    assert await refused(governor, give_up_at=give_up_at) == retry_after_s
    assert governor.statistics().refused_total == 1
    assert governor.statistics().queued_total == 0


async def test_one_call_tries_after_a_hold_and_the_others_follow(autojump_clock: MockClock) -> None:
    governor = Governor()
    governor.hold("source", 5.0)

    async def run(callers: Callers) -> None:
        await callers.come("a", "b", "c")
        await trio.sleep(7.0)
        assert callers.went == [("a", 5.0)]
        await callers.come("d")
        assert governor.statistics().waiting == 3
        callers.turns["a"].answered()
        callers.turns["a"].end()
        await wait_all_tasks_blocked()
        assert callers.went[0] == ("a", 5.0)
        assert sorted(callers.went[1:]) == [("b", 7.0), ("c", 7.0), ("d", 7.0)]
        assert len(governor.held) == 0

    await with_callers(governor, run)


async def test_call_arriving_at_the_end_of_a_hold_queues_after_earlier_calls(autojump_clock: MockClock) -> None:
    """Method: the clock is at the hold's end, before any timer has run."""
    governor = Governor()
    governor.hold("source", 5.0)

    async def run(callers: Callers) -> None:
        await callers.come("a", "b")
        autojump_clock.autojump_threshold = float("inf")
        autojump_clock.jump(5.0)
        callers._nursery.start_soon(callers._call, "late", ONE, LONG_S)
        await wait_all_tasks_blocked()
        autojump_clock.autojump_threshold = 0.0
        assert callers.went == [("a", 5.0)]
        for name in ("a", "b", "late"):
            callers.turns[name].end()
            await wait_all_tasks_blocked()
        assert [name for name, _ in callers.went] == ["a", "b", "late"]

    await with_callers(governor, run)


async def test_expired_waiter_wakes_the_next_one(autojump_clock: MockClock) -> None:
    """Method: the clock moves between the end of the trial and the step of the next waiter."""
    governor = Governor()
    governor.hold("source", 5.0)

    async def run(callers: Callers) -> None:
        await callers.come("trial")
        await callers.come("hasty", give_up_at=8.0)
        await callers.come("patient")
        await trio.sleep(6.0)
        callers.turns["trial"].end()
        autojump_clock.jump(2.0)
        await wait_all_tasks_blocked()
        assert callers.refused == {"hasty": (1, 8.0)}
        assert callers.went == [("trial", 5.0), ("patient", 8.0)]

    await with_callers(governor, run)


async def test_call_cancelled_at_any_step_leaves_the_queue_working(autojump_clock: MockClock) -> None:
    governor = Governor()

    async def run() -> None:
        governor.hold("source", 5.0)
        turn = await governor.wait_turn(ONE, LONG_S)
        try:
            await trio.sleep(1.0)
        finally:
            turn.end()

    async def check(got_through: bool) -> None:
        assert governor.statistics().waiting == 0
        with trio.fail_after(6.0):
            await complete_call(governor)
        assert len(governor.held) == 0

    assert await cancel_everywhere(run, check) == 2


async def test_queue_is_bounded_but_unheld_calls_pass(autojump_clock: MockClock) -> None:
    governor = Governor(waiters_max=3)
    governor.hold("source", 5.0)

    async def run(callers: Callers) -> None:
        await callers.come("a", "b", "c")
        assert await refused(governor, give_up_at=LONG_S) == 5
        await complete_call(governor, "another")
        await trio.sleep(6.0)
        assert callers.went == [("a", 5.0)]
        await callers.come("d")
        assert await refused(governor, give_up_at=LONG_S) == 1
        callers.turns["a"].answered()

    await with_callers(governor, run)
    assert governor.statistics().queued_total == 4


async def test_held_names_are_bounded_and_the_hold_ending_soonest_is_dropped(autojump_clock: MockClock) -> None:
    governor = Governor(names_max=3)
    for name, hold_s in (("a", 30.0), ("b", 10.0), ("c", 20.0)):
        governor.hold(name, hold_s)

    async def run(callers: Callers) -> None:
        await callers.come("b", of=("b",))
        governor.hold("d", 40.0)
        assert len(governor.held) == 3
        await wait_all_tasks_blocked()
        assert callers.went == [("b", 0.0)]
        assert await refused(governor, "a", give_up_at=SOON_S) == 30

    await with_callers(governor, run)
