"""Runs functions concurrently, or until Ctrl-C."""

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TypeVar

import trio

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_side_by_side(*works: Work[T]) -> list[T]:
    """Run all functions concurrently, and return their results in order.

    If one fails, the others are cancelled, and its error is raised without an exception group.
    """
    results: dict[int, T] = {}

    async def keep(place: int, work: Work[T]) -> None:
        results[place] = await work()

    try:
        async with trio.open_nursery() as nursery:
            for place, work in enumerate(works):
                nursery.start_soon(partial(keep, place, work))
    except BaseExceptionGroup as group:
        raise _first_of(group) from None
    return [results[place] for place in range(len(works))]


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup):
        failures, _ = leaf.split(lambda each: not isinstance(each, trio.Cancelled | BaseExceptionGroup))
        leaf = (failures or leaf).exceptions[0]
    return leaf


async def run_until_stopped(work: Work[None]) -> bool:
    """Run `work`, and return whether it finished.

    Ctrl-C, SIGTERM and a closed terminal cancel the work, so that it can clean up.
    """
    with trio.CancelScope() as scope, _cancelled_by_signals(scope):
        await work()
    return not scope.cancelled_caught


@contextmanager
def _cancelled_by_signals(scope: trio.CancelScope) -> Iterator[None]:
    token = trio.lowlevel.current_trio_token()

    def cancel(_number: int, _frame: FrameType | None) -> None:
        token.run_sync_soon(scope.cancel)

    # Under nohup, closing the terminal must still be ignored.
    caught = [
        number for number in _STOPPING if number is signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = [(number, signal.signal(number, cancel)) for number in caught]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
