"""Runs one read: answers what it yields, side by side where it yields several, and gives what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from upstreams.errors import UNREADABLE, unreadable
from upstreams.steps import Answer, Call, Fetched, Missing, Page, Part, Single, Steps, Wanted

_SIDE_BY_SIDE_MAX = 16
"""Calls of one read that run at the same time."""

Got = Answer | Missing | Fetched
Ask = Callable[[Call | Part], Awaitable[Got]]


async def run(steps: Steps, wanted: Wanted, ask: Ask, *, platform: str) -> tuple[Page | Single, float]:
    """Run `steps`, which stands at `wanted`, to its end: what it returns, and the seconds that it waited for answers.

    Raises:
        What `ask` raises; an `UpstreamFailed` where the reader cannot read what came.
    """
    waited_s = 0.0
    while True:
        if isinstance(wanted, tuple):
            started = trio.current_time()
            answers: Got | tuple[Got, ...] = await _side_by_side(wanted, ask)
            waited_s += trio.current_time() - started
        else:
            answers = await ask(wanted)
            waited_s += answers.took_s
        try:
            wanted = steps.send(answers)
        except StopIteration as done:
            return done.value, waited_s
        except UNREADABLE as exc:
            raise unreadable(platform, exc) from exc


async def _side_by_side(wanted: tuple[Call | Part, ...], ask: Ask) -> tuple[Got, ...]:
    answers: dict[int, Got] = {}
    waiting = list(enumerate(wanted))[::-1]

    async def work() -> None:
        while waiting:
            place, one = waiting.pop()
            answers[place] = await ask(one)

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(min(len(wanted), _SIDE_BY_SIDE_MAX)):
                nursery.start_soon(work)
    except BaseExceptionGroup as group:
        raise _first_of(group) from None
    return tuple(answers[place] for place in range(len(wanted)))


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error that the caller is told: the first that is no cancellation, if there is one."""
    flat = [leaf for error in group.exceptions for leaf in _leaves(error)]
    return next((leaf for leaf in flat if not isinstance(leaf, trio.Cancelled)), flat[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
