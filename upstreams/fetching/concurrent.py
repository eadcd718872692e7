"""Runs calls that a read yields together, concurrently."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from upstreams.model.errors import UpstreamFailed
from upstreams.model.steps import Answer, Call, Fetched, Missing, Part

_CONCURRENT_MAX = 32
"""Maximum concurrent calls and parts of one read. It is high enough for all searchable platforms."""

Got = Answer | Missing | Fetched
Ask = Callable[[Call | Part], Awaitable[Got]]


async def run_concurrently(wanted: tuple[Call | Part, ...], ask: Ask, body_bytes_max: int) -> tuple[Got, ...]:
    """Return the results of `ask` for each of the wanted items, in their order.

    Raises:
        UpstreamFailed: The total length of the bodies exceeds `body_bytes_max`.
        Exception: The first error that `ask` raises; the other calls are cancelled.
    """
    answers: dict[int, Got] = {}
    waiting = list(enumerate(wanted))[::-1]

    async def work() -> None:
        while waiting:
            place, one = waiting.pop()
            answers[place] = answer = await ask(one)
            if isinstance(answer, Answer) and sum(_body_bytes(got) for got in answers.values()) > body_bytes_max:
                raise UpstreamFailed(answer.source, "the responses are too long in total")

    failures: list[BaseException] = []
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(min(len(wanted), _CONCURRENT_MAX)):
                nursery.start_soon(work)
    except BaseExceptionGroup as group:
        failures.append(_first_of(group))
    if failures:  # raised outside the except block, so that the exception and its group do not form a reference cycle
        raise failures.pop()
    return tuple(answers[place] for place in range(len(wanted)))


def _body_bytes(got: Got) -> int:
    """Return the length of a call's body; 0 for the parts of a composite, because their own reads limit them."""
    return got.body_bytes if isinstance(got, Answer) else 0


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to report: the first one that is not a cancellation, or the first one if all are."""
    flat = [leaf for error in group.exceptions for leaf in _leaves(error)]
    return next((leaf for leaf in flat if not isinstance(leaf, trio.Cancelled)), flat[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
