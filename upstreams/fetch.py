"""Runs an endpoint's read: makes the calls it yields, sends back their answers, gives the page it returns."""

from __future__ import annotations

from typing import NamedTuple

import trio

from upstreams.endpoint import Answer, Args, Call, Endpoint, Missing, Page, Single, Steps
from upstreams.errors import UNREADABLE, unreadable
from upstreams.site import Site

_SIDE_BY_SIDE_MAX = 16
"""Calls of one read that run at the same time."""


class Plan(NamedTuple):
    """A read that stands at its first call: its arguments are good, nothing was sent yet."""

    site: Site
    endpoint: Endpoint
    steps: Steps
    first: Call | tuple[Call, ...]


class Fetched(NamedTuple):
    """What a read gave, and the seconds that it waited for the upstream."""

    result: Page | Single
    upstream_s: float


def plan(site: Site, endpoint: Endpoint, args: Args) -> Plan:
    """Run a read up to its first call.

    Raises:
        InvalidArgument: a value that no call could answer; free, since nothing was charged.
    """
    steps = endpoint.read(args)
    return Plan(site, endpoint, steps, next(steps))


async def fetch(planned: Plan, deadline_at: float) -> Fetched:
    """Run a read to its end, or to `deadline_at` on Trio's clock: then it is an `UpstreamFailed`.

    Raises:
        NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: what the upstream answered.
        CircuitOpen, Throttled: a source that must not be called now.
    """
    wanted = planned.first
    upstream_s = 0.0
    while True:
        answers, took_s = await _answers(planned.site, wanted, deadline_at)
        upstream_s += took_s
        try:
            wanted = planned.steps.send(answers)
        except StopIteration as done:
            return Fetched(done.value, upstream_s)
        except UNREADABLE as exc:
            raise unreadable(planned.site.platform.slug, exc) from exc


async def _answers(
    site: Site, wanted: Call | tuple[Call, ...], deadline_at: float
) -> tuple[Answer | Missing | tuple[Answer | Missing, ...], float]:
    """What a yield is answered with, and the seconds that this took."""
    if isinstance(wanted, Call):
        answer = await site.call(wanted, deadline_at)
        return answer, answer.took_s
    started = trio.current_time()
    return await _side_by_side(site, wanted, deadline_at), trio.current_time() - started


async def _side_by_side(site: Site, calls: tuple[Call, ...], deadline_at: float) -> tuple[Answer | Missing, ...]:
    answers: dict[int, Answer | Missing] = {}
    waiting = list(enumerate(calls))[::-1]

    async def work() -> None:
        while waiting:
            place, call = waiting.pop()
            answers[place] = await site.call(call, deadline_at)

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(min(len(calls), _SIDE_BY_SIDE_MAX)):
                nursery.start_soon(work)
    except BaseExceptionGroup as group:
        raise _first_of(group) from None
    return tuple(answers[place] for place in range(len(calls)))


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error that the caller is told: the first that is no cancellation, if there is one."""
    flat = [leaf for error in group.exceptions for leaf in _leaves(error)]
    return next((leaf for leaf in flat if not isinstance(leaf, trio.Cancelled)), flat[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
