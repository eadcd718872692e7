"""The states of a waiter: each arrow of the diagram at the top of its module, and the calls without an arrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from events.filters import Filters
from events.waking.waiter import WaitEnd, Waiter, WaiterState
from limits.timers import Deadlines
from tests.events.desk import ACCOUNT, KEY

ARROWS = [
    (WaiterState.PARKED, Waiter.wake, WaitEnd.MOVED),
    (WaiterState.PARKED, Waiter.expire, WaitEnd.TIME_UP),
    (WaiterState.PARKED, Waiter.close, WaitEnd.CLOSING),
    (WaiterState.PARKED, Waiter.disconnect, WaitEnd.GONE),
    (WaiterState.FETCHING, Waiter.wake, None),
    (WaiterState.FETCHING, Waiter.expire, None),
    (WaiterState.FETCHING, Waiter.close, None),
    (WaiterState.FETCHING, lambda waiter: waiter.deliver("a page"), WaitEnd.MOVED),
    (WaiterState.FETCHING, Waiter.disconnect, WaitEnd.GONE),
    (WaiterState.HEARING, Waiter.wake, WaitEnd.MOVED),
    (WaiterState.HEARING, Waiter.close, WaitEnd.CLOSING),
    (WaiterState.HEARING, Waiter.disconnect, WaitEnd.GONE),
]


async def bring_to(state: WaiterState, waiter: Waiter, wait: Callable[..., object]) -> None:
    """Bring the waiter, whose `wait` a task will run, to `state`."""
    if state is WaiterState.FETCHING:
        waiter.expect(Filters(), behind=0, begin_read=lambda _sleeper: None)
    wait(trio.sleep_forever if state is WaiterState.HEARING else None)
    await trio.testing.wait_all_tasks_blocked()
    if state is WaiterState.FETCHING:
        assert waiter._state is WaiterState.PARKED
        waiter.wake()
    assert waiter._state is state


@pytest.mark.parametrize(("state", "happens", "end"), ARROWS)
async def test_each_transition_of_the_diagram_ends_the_wait(
    state: WaiterState, happens: Callable[[Waiter], None], end: WaitEnd | None, autojump_clock: trio.abc.Clock
) -> None:
    waiter, ends = Waiter(ACCOUNT, KEY, Deadlines()), list[WaitEnd]()

    async def wait(gone: Callable[..., object] | None) -> None:
        ends.append(await waiter.wait(100.0, gone))  # type: ignore[arg-type]

    async with trio.open_nursery() as nursery:
        await bring_to(state, waiter, lambda gone: nursery.start_soon(wait, gone))
        happens(waiter)
        await trio.testing.wait_all_tasks_blocked()
        assert ends == ([] if end is None else [end])
        assert waiter._state is (state if end is None else WaiterState.AWAKE)
        nursery.cancel_scope.cancel()
    assert waiter._state is WaiterState.AWAKE, "a wait that is cancelled is over"


@pytest.mark.parametrize(
    ("happens", "end"),
    [
        (Waiter.wake, WaitEnd.MOVED),
        (Waiter.expire, WaitEnd.TIME_UP),
        (Waiter.close, WaitEnd.CLOSING),
        (Waiter.disconnect, WaitEnd.GONE),
    ],
)
async def test_call_while_awake_ends_the_next_wait_except_a_timeout(
    happens: Callable[[Waiter], None], end: WaitEnd, autojump_clock: trio.abc.Clock
) -> None:
    deadlines = Deadlines()
    waiter = Waiter(ACCOUNT, KEY, deadlines)
    happens(waiter)
    assert waiter._state is WaiterState.AWAKE
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        assert await waiter.wait(began + 5.0) is end
        nursery.cancel_scope.cancel()
    assert (trio.current_time() == began) is (end is not WaitEnd.TIME_UP)
    waiter.arm()
    assert waiter.has_moved is False
