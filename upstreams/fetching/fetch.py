"""Fetches the data of an endpoint: with its own read, or with the first fallback that succeeds (decisions 9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import ClassVar

import trio

from limits.errors import LimitError, Throttled
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.bodies import KeptBodies
from upstreams.fetching.concurrent import Got, run_concurrently
from upstreams.fetching.parts import answer_part, check_parts
from upstreams.fetching.planned import Conduct, OnLeg, PartReader, Plan, WantsMore, never
from upstreams.fetching.site import Site
from upstreams.model.endpoint import Endpoint, Read
from upstreams.model.errors import (
    UNREADABLE,
    InvalidArgument,
    InvalidCursor,
    NotFound,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
    failure_to_report,
    unreadable,
)
from upstreams.model.params import Args, State
from upstreams.model.paths import count_detours, has_dot_segment, leads_straight
from upstreams.model.steps import Answer, Call, Fetched, Missing, Page, Part, Round, Single, Task, Wanted
from upstreams.transport.http import BODY_BYTES_MAX

_PROCESSING_SHARE = 0.1
"""The share of a composite's time that is reserved for processing after all parts are read."""
_TIMEOUT = "timeout"
"""The parameter that limits a read's time in milliseconds, for endpoints that have this parameter."""
_FALLBACK = "rung"
"""The key in a cursor's state for the source name of the fallback that issued the cursor."""
_KNOWN_FAILURES = (NotFound, UpstreamFailed, UpstreamThrottled, LimitError)
"""Failures that a read may raise before its first call, based on what the node has cached. All other errors are about
the values in the request."""
Sent = Got | tuple[Got, ...] | int
"""The answer or answers that the generator receives for a yielded value."""
_RESULTS = (Page, Single)  # a constant, because `Page | Single` in the call would build the union each time


class PlainRead(Plan):
    """A read of a single page, as a `Planned`."""

    __slots__ = ()
    limit: ClassVar[None] = None

    def run(
        self,
        pages_max: int,
        deadline_at: float,
        *,
        wants_more: WantsMore | None = None,
        stopping: Callable[[], bool] = never,
        parts: PartReader | None = None,
        on_leg: OnLeg | None = None,
    ) -> Awaitable[Fetched]:
        """See `fetch`. The time limit in the request is applied; all other arguments are for composites."""
        if _TIMEOUT in self.args.values:
            deadline_at = min(deadline_at, trio.current_time() + self.args.number(_TIMEOUT) / 1_000)
        if self.endpoint.archetype.has_legs:
            self.conduct = Conduct(pages_max, wants_more, stopping, parts, on_leg)
            deadline_at -= (deadline_at - trio.current_time()) * _PROCESSING_SHARE
        return fetch(self, deadline_at)


def plan(site: Site, endpoint: Endpoint, args: Args, *, keeps: bool = False) -> PlainRead:
    """Run a read up to its first call. With `keeps`, `Fetched.bodies` has the bodies of its calls.

    If the read fails before any call, the failure is stored in the plan's `refusal`.

    Raises:
        InvalidArgument: A value cannot be used in any call. The request is free, because nothing was charged yet.
        InvalidCursor: The cursor belongs to a fallback that the endpoint no longer has.
    """
    source = args.cursor.get(_FALLBACK) if args.cursor else None
    rung_index = 0 if source is None else _fallback_at(site, endpoint, source)
    planned = _plan(site, endpoint, args, rung_index)
    if keeps:
        planned.kept = KeptBodies()
    return planned


def _fallback_at(site: Site, endpoint: Endpoint, source: str | int) -> int:
    for rung_index, fallback in site.fallbacks[endpoint.resource]:
        if fallback.source == source and fallback.read is not None:
            return rung_index
    raise InvalidCursor("belongs to a source that is no longer used")


def _plan(site: Site, endpoint: Endpoint, args: Args, rung_index: int) -> PlainRead:
    own = endpoint.fallbacks[rung_index - 1].read if rung_index else None
    read = own or endpoint.read
    args = endpoint.resolve(args)
    steps = read(args)
    try:
        first = next(steps)
        if site.has_hosts:
            first = site.named(first, args)
        if not leads_straight(first) and (culprit := _culprit_of(endpoint, read, args, first)) is not None:
            raise InvalidArgument(culprit, "must not lead to a path other than this endpoint's")
        if isinstance(first, tuple):
            check_parts(site, endpoint, args, first, planning=plan)
    except _KNOWN_FAILURES as refusal:
        steps.close()
        return PlainRead(site, endpoint, args, rung_index, steps, (), refusal=refusal)
    return PlainRead(site, endpoint, args, rung_index, steps, first)


def _culprit_of(endpoint: Endpoint, read: Read, args: Args, wanted: Wanted) -> str | None:
    """Return the parameter whose value leads to another path.

    With the parameter's example value instead, the paths have fewer segments that are empty or dots.

    Return None if no parameter is responsible, because some paths end with a slash.
    """
    worst = count_detours(wanted)
    if args.cursor and count_detours(next(read(replace(args, cursor=None)))) < worst:
        return "cursor"
    values = dict(args.values)
    for param in endpoint.params:
        if isinstance(values.get(param.name), str):
            values[param.name] = param.example_value
            with suppress(InvalidArgument):
                if count_detours(next(read(endpoint.resolve(replace(args, values=values))))) < worst:
                    return param.name
    return None


def fetch(planned: Plan, deadline_at: float) -> Awaitable[Fetched]:
    """Run a read to its end, or raise `UpstreamFailed` at `deadline_at` on Trio's clock.

    If a source fails, throttles or must not be called now, the endpoint's next fallback is tried. Each source gets an
    equal share of the remaining time. A definite answer, such as "not found", is final, but a status alone is not
    definite if it comes from a fallback. The call waits for a throttled source only if it is the last one, or if it is
    the endpoint's own source and all others failed.

    Raises:
        NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: The refusal of the upstream.
        CircuitOpen, Throttled: The source must not be called now.
    """
    below = _fallbacks_of(planned)
    return _fetch_with_fallbacks(planned, below, deadline_at) if below else _run(planned, deadline_at)


async def _fetch_with_fallbacks(planned: Plan, below: list[int], deadline_at: float) -> Fetched:
    started = trio.current_time()
    refusals: list[UpstreamError | LimitError] = []
    plans = chain((planned,), (_fallback(planned, rung_index) for rung_index in below))
    for left, plan in zip(range(len(below), -1, -1), plans, strict=True):
        if plan is None:
            continue
        now = trio.current_time()
        try:
            fetched = await _run(plan, now + (deadline_at - now) / (left + 1), waits=not left)
            fetched.took_s = trio.current_time() - started
            return fetched
        except (UpstreamFailed, UpstreamThrottled, LimitError) as refusal:
            refusals.append(refusal)
        except NotFound as absence:
            if not (plan.rung_index and absence.by_status):
                raise
    if isinstance(refusals[0], Throttled):
        with suppress(Throttled):  # the source is not available before the deadline
            fetched = await _run(_replan(planned, planned.rung_index), deadline_at)
            fetched.took_s = trio.current_time() - started
            return fetched
    try:
        raise failure_to_report(refusals)
    finally:
        refusals.clear()  # otherwise the frames of each failure, and their bodies, stay until garbage collection


def sources_of(planned: Plan) -> list[str]:
    """Return the sources of an endpoint in the order of calls, without sources that lack credentials."""
    below = [planned.endpoint.fallbacks[rung_index - 1].source for rung_index in _fallbacks_of(planned)]
    return [source_of(planned.first, planned.site), *below]


def _fallbacks_of(planned: Plan) -> list[int]:
    """Return the fallbacks that may follow the plan's own source; only mirrors if the request has a cursor."""
    offered = planned.site.fallbacks.get(planned.endpoint.resource)
    if not offered or planned.rung_index:
        return []
    begins = planned.args.cursor is None
    return [rung_index for rung_index, fallback in offered if begins or fallback.read is None]


def _fallback(planned: Plan, rung_index: int) -> Plan | None:
    """Return the plan of a fallback, or None if the fallback cannot serve these values."""
    with suppress(InvalidArgument):
        return _replan(planned, rung_index)
    return None


def _replan(planned: Plan, rung_index: int) -> Plan:
    again = _plan(planned.site, planned.endpoint, planned.args, rung_index)
    again.kept = None if planned.kept is None else KeptBodies()
    return again


async def _run(plan: Plan, deadline_at: float, *, waits: bool = True) -> Fetched:
    """Run the read of one plan to its end. Each yielded value is answered, and calls in a tuple run concurrently."""
    if plan.refusal is not None:
        raise plan.refusal
    wanted, took_s, body_bytes = plan.first, 0.0, 0
    while True:
        if isinstance(wanted, tuple):
            started = trio.current_time()
            answer_one = partial(_answer_one, plan, deadline_at, waits)
            several = await run_concurrently(wanted, answer_one, BODY_BYTES_MAX - body_bytes)
            took_s += trio.current_time() - started
            body_bytes += sum(answer.body_bytes for answer in several)
            answers: Sent = several
        elif isinstance(wanted, Round):
            answers = await plan.conduct.pages_left(wanted, deadline_at)
        else:
            answers = answer = await _answer_one(plan, deadline_at, waits, wanted)
            took_s += answer.took_s
            body_bytes += answer.body_bytes
        if body_bytes <= LONG_BYTES:
            read = _advance(plan, answers)
        else:
            advance = partial(_advance, plan, answers)
            slug, account_id = plan.site.platform.slug, plan.args.account_id
            read = await plan.site.aside.run(advance, deadline_at, source=slug, account_id=account_id)
        if isinstance(read, _RESULTS):
            fetched = _fetched(plan, read, took_s, body_bytes)
            if plan.kept is not None:
                fetched.bodies = plan.kept.all()
            return fetched
        wanted = read


def _advance(plan: Plan, answers: Sent) -> Wanted | Page | Single:
    """Resume the read with its answers. Return the next yielded value, or the result."""
    try:
        wanted = plan.steps.send(answers)
    except StopIteration as done:
        result: Page | Single = done.value
        return result
    except UNREADABLE as exc:
        raise unreadable(plan.site.platform.slug, exc) from exc
    if has_dot_segment(wanted):
        raise UpstreamFailed(plan.site.platform.slug, "a value in the response leads to another path")
    return wanted


def _fetched(plan: Plan, result: Page | Single, took_s: float, body_bytes: int) -> Fetched:
    """Return the result with its source and the pages to bill, which are 0 if nothing was found."""
    rung_index = plan.rung_index
    if not rung_index:
        fetched = Fetched(result, took_s, source_of(plan.first, plan.site), body_bytes=body_bytes)
        if plan.endpoint.price is not None:
            fetched.pages_used = plan.reach.pages_needed if result.credits_used is None else result.credits_used
    else:
        if isinstance(result, Page) and result.next is not None:
            result = replace(result, next={**result.next, **_fallback_entry(plan.endpoint, rung_index)})
        source = plan.endpoint.fallbacks[rung_index - 1].source
        fetched = Fetched(result, took_s, source, rung_index, body_bytes=body_bytes)
    if isinstance(result, Page):
        if not result.records:
            fetched.pages_used = 0
    elif plan.endpoint.archetype.found_nothing(result.record):
        fetched.pages_used = 0
    return fetched


def source_of(wanted: Wanted, site: Site) -> str:
    """Return the name of the source that the first of these calls uses."""
    first = next(iter(wanted), None) if isinstance(wanted, tuple) else wanted
    return site.source_name(first.source if isinstance(first, Call) else "")


def _fallback_entry(endpoint: Endpoint, rung_index: int) -> State:
    """Return the state to add to a cursor, so that the cursor leads back to the fallback that issued it."""
    fallback = endpoint.fallbacks[rung_index - 1] if rung_index else None
    return {} if fallback is None or fallback.read is None else {_FALLBACK: fallback.source}


def state_of(planned: Plan, fetched: Fetched) -> State:
    """Return the cursor state that leads to the same page again, from the same source."""
    return {**(planned.args.cursor or {}), **_fallback_entry(planned.endpoint, fetched.rung_index)}


def _answer_one(planned: Plan, deadline_at: float, waits: bool, wanted: Call | Part | Task) -> Awaitable[Got]:  # noqa: FBT001 - used with `partial`
    site = planned.site
    if isinstance(wanted, Part):
        return answer_part(planned, wanted, deadline_at, planning=plan, fetch=fetch)
    if isinstance(wanted, Task):
        return site.run_task(wanted, deadline_at, account_id=planned.args.account_id)
    if planned.rung_index:
        fallback = planned.endpoint.fallbacks[planned.rung_index - 1]
        if fallback.read is None and site.source_name(wanted.source) == site.source_name(""):
            wanted = replace(wanted, source=fallback.source)
    if site.has_hosts:
        answering: Awaitable[Answer | Missing] = site.call_named(wanted, deadline_at, args=planned.args, waits=waits)
    else:
        answering = site.call(wanted, deadline_at, waits=waits, account_id=planned.args.account_id)
    return answering if planned.kept is None else planned.kept.keep(wanted.path, answering)
