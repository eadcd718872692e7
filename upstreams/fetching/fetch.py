"""Fetches an endpoint's answer: by its own read, or by the first of its fallbacks that can (decisions 9)."""

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
from upstreams.fetching.concurrent import Got, side_by_side
from upstreams.fetching.parts import answer_part, check_parts
from upstreams.fetching.planned import Conduct, GoOn, OnLeg, PartReader, Plan, never
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
    most_useful,
    unreadable,
)
from upstreams.model.params import Args, State
from upstreams.model.paths import climbs, detours, leads_straight
from upstreams.model.steps import Answer, Call, Fetched, Missing, Page, Part, Round, Single, Task, Wanted
from upstreams.transport.http import BODY_BYTES_MAX

_SHAPING_SHARE = 0.1
"""The share of a composite's time that is left for its reading once its parts are over."""
_TIMEOUT = "timeout"
"""The parameter with the milliseconds that a read may take, where its endpoint has one."""
_FALLBACK = "rung"
"""In the state of a cursor that only one fallback understands: the name of its source."""
_KNOWN = (NotFound, UpstreamFailed, UpstreamThrottled, LimitError)
"""The answers that a read may know before its first call, by what a node remembers; others are about the values."""
Sent = Got | tuple[Got, ...] | int
"""The answer to what a read yielded."""
_RESULTS = (Page, Single)  # a union is made anew each time that it is written


class PlainRead(Plan):
    """A plain read, as `Planned`."""

    __slots__ = ()
    limit: ClassVar[None] = None

    def run(
        self,
        pages_max: int,
        deadline_at: float,
        *,
        go_on: GoOn | None = None,
        stopping: Callable[[], bool] = never,
        parts: PartReader | None = None,
        on_leg: OnLeg | None = None,
    ) -> Awaitable[Fetched]:
        """As `fetch`, within the time that the request gives it; all else is for composites."""
        if _TIMEOUT in self.args.values:
            deadline_at = min(deadline_at, trio.current_time() + self.args.number(_TIMEOUT) / 1_000)
        if self.endpoint.archetype.has_legs:
            self.conduct = Conduct(pages_max, go_on, stopping, parts, on_leg)
            deadline_at -= (deadline_at - trio.current_time()) * _SHAPING_SHARE
        return fetch(self, deadline_at)


def plan(site: Site, endpoint: Endpoint, args: Args, *, keeps: bool = False) -> PlainRead:
    """Run a read up to its first call; where it `keeps` the bodies of its calls, `Fetched.bodies` has them.

    What it would answer without any call is the plan's `refusal`.

    Raises:
        InvalidArgument: a value that no call could answer; free, since nothing was charged.
        InvalidCursor: it was made by a fallback that this endpoint no longer has.
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
    raise InvalidCursor("belongs to a source that is no longer asked")


def _plan(site: Site, endpoint: Endpoint, args: Args, rung_index: int) -> PlainRead:
    own = endpoint.fallbacks[rung_index - 1].read if rung_index else None
    read = own or endpoint.read
    args = endpoint.placed(args)
    steps = read(args)
    try:
        first = next(steps)
        if site.has_hosts:
            first = site.named(first, args)
        if not leads_straight(first) and (culprit := _culprit_of(endpoint, read, args, first)) is not None:
            raise InvalidArgument(culprit, "must not lead to another path than this endpoint's")
        if isinstance(first, tuple):
            check_parts(site, endpoint, args, first, planning=plan)
    except _KNOWN as refusal:
        steps.close()
        return PlainRead(site, endpoint, args, rung_index, steps, (), refusal=refusal)
    return PlainRead(site, endpoint, args, rung_index, steps, first)


def _culprit_of(endpoint: Endpoint, read: Read, args: Args, wanted: Wanted) -> str | None:
    """The parameter whose value leads astray: with its example in that place the read does so less.

    None where it is none: some paths end with a slash of their own.
    """
    worst = detours(wanted)
    if args.cursor and detours(next(read(replace(args, cursor=None)))) < worst:
        return "cursor"
    values = dict(args.values)
    for param in endpoint.params:
        if isinstance(values.get(param.name), str):
            values[param.name] = param.example_value
            with suppress(InvalidArgument):
                if detours(next(read(endpoint.placed(replace(args, values=values))))) < worst:
                    return param.name
    return None


def fetch(planned: Plan, deadline_at: float) -> Awaitable[Fetched]:
    """Run a read to its end, or to `deadline_at` on Trio's clock: then it is an `UpstreamFailed`.

    A source that fails, throttles or must not be called now is followed by the endpoint's next fallback; each gets an
    equal share of the time that is left. What a source says for certain (no such thing) is the answer; of a fallback
    a status alone is not certain enough. A source that asked to be left alone is waited for only where it is the last
    one, or the endpoint's own and all others failed.

    Raises:
        NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: what the upstream answered.
        CircuitOpen, Throttled: a source that must not be called now.
    """
    below = _fallbacks_of(planned)
    return _by_fallbacks(planned, below, deadline_at) if below else _by(planned, deadline_at)


async def _by_fallbacks(planned: Plan, below: list[int], deadline_at: float) -> Fetched:
    started = trio.current_time()
    refusals: list[UpstreamError | LimitError] = []
    plans = chain((planned,), (_fallback(planned, rung_index) for rung_index in below))
    for left, plan in zip(range(len(below), -1, -1), plans, strict=True):
        if plan is None:
            continue
        now = trio.current_time()
        try:
            fetched = await _by(plan, now + (deadline_at - now) / (left + 1), waits=not left)
            fetched.took_s = trio.current_time() - started
            return fetched
        except (UpstreamFailed, UpstreamThrottled, LimitError) as refusal:
            refusals.append(refusal)
        except NotFound as absence:
            if not (plan.rung_index and absence.by_status):
                raise
    if isinstance(refusals[0], Throttled):
        with suppress(Throttled):  # it is not back in time
            fetched = await _by(_again(planned, planned.rung_index), deadline_at)
            fetched.took_s = trio.current_time() - started
            return fetched
    try:
        raise most_useful(refusals)
    finally:
        refusals.clear()  # or the frames of each, with the bodies in them, would live until garbage is collected


def sources_of(planned: Plan) -> list[str]:
    """The sources of an endpoint in the order in which they are called, without those whose credentials are missing."""
    below = [planned.endpoint.fallbacks[rung_index - 1].source for rung_index in _fallbacks_of(planned)]
    return [source_of(planned.first, planned.site), *below]


def _fallbacks_of(planned: Plan) -> list[int]:
    """The fallbacks below the plan's own; a cursor that only one understands has none."""
    offered = planned.site.fallbacks.get(planned.endpoint.resource)
    if not offered or planned.rung_index:
        return []
    begins = planned.args.cursor is None
    return [rung_index for rung_index, fallback in offered if begins or fallback.read is None]


def _fallback(planned: Plan, rung_index: int) -> Plan | None:
    """The plan of a fallback; None when it cannot answer these values."""
    with suppress(InvalidArgument):
        return _again(planned, rung_index)
    return None


def _again(planned: Plan, rung_index: int) -> Plan:
    again = _plan(planned.site, planned.endpoint, planned.args, rung_index)
    again.kept = None if planned.kept is None else KeptBodies()
    return again


async def _by(plan: Plan, deadline_at: float, *, waits: bool = True) -> Fetched:
    """Run one plan's read to its end: answer what it yields, side by side where it yields several."""
    if plan.refusal is not None:
        raise plan.refusal
    wanted, took_s, body_bytes = plan.first, 0.0, 0
    while True:
        if isinstance(wanted, tuple):
            started = trio.current_time()
            answer_one = partial(_answer_one, plan, deadline_at, waits)
            several = await side_by_side(wanted, answer_one, BODY_BYTES_MAX - body_bytes)
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
    """Let the read go on with its answers: what it asks for next, or what it returns."""
    try:
        wanted = plan.steps.send(answers)
    except StopIteration as done:
        result: Page | Single = done.value
        return result
    except UNREADABLE as exc:
        raise unreadable(plan.site.platform.slug, exc) from exc
    if climbs(wanted):
        raise UpstreamFailed(plan.site.platform.slug, "what it told leads to another path")
    return wanted


def _fetched(plan: Plan, result: Page | Single, took_s: float, body_bytes: int) -> Fetched:
    """Return the result with where it came from, and what it is billed for: nothing, where nothing was found."""
    rung_index = plan.rung_index
    if not rung_index:
        fetched = Fetched(result, took_s, source_of(plan.first, plan.site), body_bytes=body_bytes)
        if plan.endpoint.price is not None:
            fetched.pages_used = plan.reach.pages_needed if result.credits_used is None else result.credits_used
    else:
        if isinstance(result, Page) and result.next is not None:
            result = replace(result, next={**result.next, **_stays(plan.endpoint, rung_index)})
        source = plan.endpoint.fallbacks[rung_index - 1].source
        fetched = Fetched(result, took_s, source, rung_index, body_bytes=body_bytes)
    if isinstance(result, Page):
        if not result.records:
            fetched.pages_used = 0
    elif plan.endpoint.archetype.found_nothing(result.record):
        fetched.pages_used = 0
    return fetched


def source_of(wanted: Wanted, site: Site) -> str:
    """The name of the source that the first of these calls goes to."""
    first = next(iter(wanted), None) if isinstance(wanted, tuple) else wanted
    return site.source_name(first.source if isinstance(first, Call) else "")


def _stays(endpoint: Endpoint, rung_index: int) -> State:
    """The part that a cursor of this plan adds to its state: a fallback's own read has cursors that lead to itself."""
    fallback = endpoint.fallbacks[rung_index - 1] if rung_index else None
    return {} if fallback is None or fallback.read is None else {_FALLBACK: fallback.source}


def state_of(planned: Plan, fetched: Fetched) -> State:
    """The cursor's state that leads to the same page again, from where it came."""
    return {**(planned.args.cursor or {}), **_stays(planned.endpoint, fetched.rung_index)}


def _answer_one(planned: Plan, deadline_at: float, waits: bool, wanted: Call | Part | Task) -> Awaitable[Got]:  # noqa: FBT001 - for `partial`
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
