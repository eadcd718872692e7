"""Fetches the data of an endpoint: with its own read, or with the first fallback that succeeds (decisions 9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain

import trio

from limits.errors import LimitError, Throttled
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.bodies import KeptBodies
from upstreams.fetching.parts import in_composite_terms, missing_part, resolve_part
from upstreams.fetching.plan import (
    ALONE,
    Conduct,
    Plan,
    fallback_entry,
    fallback_plan,
    fallbacks_of,
    plan,
    replan,
    source_of,
)
from upstreams.model.errors import (
    UNREADABLE,
    InvalidArgument,
    NotFound,
    PartUnavailable,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
    failure_to_report,
    unreadable,
)
from upstreams.model.params import State
from upstreams.model.paths import has_dot_segment
from upstreams.model.steps import Answer, Call, Fetched, Leg, Missing, Page, Part, Round, Single, Task, Wanted
from upstreams.transport.http import BODY_BYTES_MAX

_CONCURRENT_MAX = 32
"""Maximum concurrent calls and parts of one read. It is high enough for all searchable platforms."""

Got = Answer | Missing | Fetched
Ask = Callable[[Call | Part], Awaitable[Got]]
Sent = Got | tuple[Got, ...] | int
"""The answer or answers that the generator receives for a yielded value."""
_RESULTS = (Page, Single)  # a constant, because `Page | Single` in the call would build the union each time


def fetch(planned: Plan, deadline_at: float, conduct: Conduct = ALONE) -> Awaitable[Fetched]:
    """Run a read to its end, or raise `UpstreamFailed` at `deadline_at` on Trio's clock.

    If a source fails, throttles or must not be called now, the endpoint's next fallback is tried. Each source gets an
    equal share of the remaining time. A definite answer, such as "not found", is final, but a status alone is not
    definite if it comes from a fallback. The call waits for a throttled source only if it is the last one, or if it is
    the endpoint's own source and all others failed.

    Raises:
        NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: The refusal of the upstream.
        CircuitOpen, Throttled: The source must not be called now.
    """
    below = fallbacks_of(planned)
    return _fetch_with_fallbacks(planned, below, deadline_at, conduct) if below else _run(planned, deadline_at, conduct)


async def _fetch_with_fallbacks(planned: Plan, below: list[int], deadline_at: float, conduct: Conduct) -> Fetched:
    started = trio.current_time()
    refusals: list[UpstreamError | LimitError] = []
    plans = chain((planned,), (fallback_plan(planned, rung_index) for rung_index in below))
    for left, one in zip(range(len(below), -1, -1), plans, strict=True):
        if one is None:
            continue
        now = trio.current_time()
        try:
            fetched = await _run(one, now + (deadline_at - now) / (left + 1), conduct, waits=not left)
            fetched.took_s = trio.current_time() - started
            return fetched
        except (UpstreamFailed, UpstreamThrottled, LimitError) as refusal:
            refusals.append(refusal)
        except NotFound as absence:
            if not (one.rung_index and absence.by_status):
                raise
    if isinstance(refusals[0], Throttled):
        with suppress(Throttled):  # the source is not available before the deadline
            fetched = await _run(replan(planned, planned.rung_index), deadline_at, conduct)
            fetched.took_s = trio.current_time() - started
            return fetched
    try:
        raise failure_to_report(refusals)
    finally:
        refusals.clear()  # otherwise the frames of each failure, and their bodies, stay until garbage collection


async def _run(planned: Plan, deadline_at: float, conduct: Conduct, *, waits: bool = True) -> Fetched:
    """Run the read of one plan to its end. Each yielded value is answered, and calls in a tuple run concurrently."""
    if planned.refusal is not None:
        raise planned.refusal
    wanted, took_s, body_bytes = planned.first, 0.0, 0
    while True:
        if isinstance(wanted, tuple):
            started = trio.current_time()
            answer_one = partial(_answer_one, planned, deadline_at, conduct, waits)
            several = await _run_concurrently(wanted, answer_one, BODY_BYTES_MAX - body_bytes)
            took_s += trio.current_time() - started
            body_bytes += sum(answer.body_bytes for answer in several)
            answers: Sent = several
        elif isinstance(wanted, Round):
            answers = await conduct.pages_left(wanted, deadline_at)
        else:
            answers = answer = await _answer_one(planned, deadline_at, conduct, waits, wanted)
            took_s += answer.took_s
            body_bytes += answer.body_bytes
        if body_bytes <= LONG_BYTES:
            read = _advance(planned, answers)
        else:
            advance = partial(_advance, planned, answers)
            slug, account_id = planned.site.platform.slug, planned.args.account_id
            read = await planned.site.aside.run(advance, deadline_at, source=slug, account_id=account_id)
        if isinstance(read, _RESULTS):
            fetched = _fetched(planned, read, took_s, body_bytes)
            if planned.kept is not None:
                fetched.bodies = planned.kept.all()
            return fetched
        wanted = read


def _advance(planned: Plan, answers: Sent) -> Wanted | Page | Single:
    """Resume the read with its answers. Return the next yielded value, or the result."""
    try:
        wanted = planned.steps.send(answers)
    except StopIteration as done:
        result: Page | Single = done.value
        return result
    except UNREADABLE as exc:
        raise unreadable(planned.site.platform.slug, exc) from exc
    if has_dot_segment(wanted):
        raise UpstreamFailed(planned.site.platform.slug, "a value in the response leads to another path")
    return wanted


def _fetched(planned: Plan, result: Page | Single, took_s: float, body_bytes: int) -> Fetched:
    """Return the result with its source and the pages to bill, which are 0 if nothing was found."""
    rung_index = planned.rung_index
    if not rung_index:
        fetched = Fetched(result, took_s, source_of(planned.first, planned.site), body_bytes=body_bytes)
        if planned.endpoint.price is not None:
            fetched.pages_used = planned.reach.pages_needed if result.credits_used is None else result.credits_used
    else:
        if isinstance(result, Page) and result.next is not None:
            result = replace(result, next={**result.next, **fallback_entry(planned.endpoint, rung_index)})
        source = planned.endpoint.fallbacks[rung_index - 1].source
        first_rung = planned.site.starts.get(planned.endpoint.resource, 0)
        fetched = Fetched(result, took_s, source, rung_index, first_rung, body_bytes=body_bytes)
    if isinstance(result, Page):
        if not result.records:
            fetched.pages_used = 0
    elif planned.endpoint.archetype.found_nothing(result.record):
        fetched.pages_used = 0
    return fetched


def state_of(planned: Plan, fetched: Fetched) -> State:
    """Return the cursor state that leads to the same page again, from the same source."""
    return {**(planned.args.cursor or {}), **fallback_entry(planned.endpoint, fetched.rung_index)}


def _answer_one(
    planned: Plan,
    deadline_at: float,
    conduct: Conduct,
    waits: bool,  # noqa: FBT001 - used with `partial`
    wanted: Call | Part | Task,
) -> Awaitable[Got]:
    site = planned.site
    if isinstance(wanted, Part):
        return _answer_part(planned, wanted, deadline_at, conduct)
    if isinstance(wanted, Task):
        return site.run_task(wanted, deadline_at, account_id=planned.args.account_id)
    if planned.rung_index:
        fallback = planned.endpoint.fallbacks[planned.rung_index - 1]
        if fallback.read is None and site.source_name(wanted.source) == site.source_name(""):
            wanted = replace(wanted, source=fallback.source)
    if site.partners:
        wanted = replace(wanted, resource=planned.endpoint.resource)
    if site.has_hosts:
        answering: Awaitable[Answer | Missing] = site.call_named(wanted, deadline_at, args=planned.args, waits=waits)
    else:
        answering = site.call(wanted, deadline_at, waits=waits, account_id=planned.args.account_id)
    return answering if planned.kept is None else _keep(planned, planned.kept, wanted, answering)


def _keep(
    planned: Plan, kept: KeptBodies, wanted: Call, answering: Awaitable[Answer | Missing]
) -> Awaitable[Answer | Missing]:
    """Record the body of an answer. A supplier's path and its data about the operator are not recorded."""
    partner = planned.site.partners.get(planned.site.source_name(wanted.source))
    if partner is None:
        return kept.keep(wanted.path, answering)
    path = f"/{planned.site.platform.slug}/{planned.endpoint.resource}"
    return kept.keep(path, answering, without=partner.own_members)


async def _answer_part(composite: Plan, part: Part, deadline_at: float, conduct: Conduct) -> Fetched | Missing:
    """Read a part from its endpoint or a fallback, within the part's time limit, and return the answer.

    If an optional part fails, the answer is a `Missing`.
    """
    started, site = trio.current_time(), composite.site
    end_at = min(deadline_at, started + part.within_s) if part.within_s else deadline_at
    slug = source = part.platform or site.platform.slug
    answer: Fetched | Missing
    try:
        there, endpoint, args = resolve_part(part, site, composite.args)
        planned = plan(there, endpoint, args)
        source = there.source_name(getattr(planned.first, "source", ""))
        read_part = partial(fetch, planned) if conduct.parts is None else partial(conduct.parts.read, planned, args)
        answer = await read_part(end_at, conduct.of_parts)
    except (UpstreamError, LimitError) as failure:
        if not part.optional:
            if isinstance(failure, InvalidArgument | PartUnavailable):
                raise in_composite_terms(composite.endpoint, composite.args, failure) from failure
            raise
        answer = missing_part(failure, source, started, end_at)
    if conduct.on_leg is not None:
        await conduct.on_leg(Leg(f"{slug}/{part.resource}", answer), part)
    return answer


async def _run_concurrently(wanted: tuple[Call | Part, ...], ask: Ask, body_bytes_max: int) -> tuple[Got, ...]:
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
