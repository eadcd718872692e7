"""Prepares reads: runs each one up to its first call, before anything is sent or charged.

A plan is a value. `upstreams.fetching.walk.run_plan` runs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import trio

from limits.errors import LimitError
from upstreams.fetching.bodies import KeptBodies
from upstreams.fetching.parts import in_composite_terms, resolve_part, unsupported
from upstreams.fetching.site import Site
from upstreams.model.endpoint import Collect, Endpoint, Read
from upstreams.model.errors import (
    InvalidArgument,
    InvalidCursor,
    NotFound,
    PartUnavailable,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.params import Args, State
from upstreams.model.paths import count_detours, leads_straight
from upstreams.model.steps import Call, Fetched, Leg, Part, Round, Steps, Wanted

_FALLBACK = "rung"
"""The key in a cursor's state for the source name of the fallback that issued the cursor."""
_NO_LONGER_USED = "belongs to a source that is no longer used"
SKIP = "skip"
"""The key in a cursor's state for the number of items of its page that were already returned."""
_KNOWN_FAILURES = (NotFound, UpstreamFailed, UpstreamThrottled, LimitError)
"""Failures that a read may raise before its first call, based on what the node has cached. All other errors are about
the values in the request."""
_UNSIZED = Collect(per_page=10_000, spare_pages=19)
"""The walk settings for a list whose endpoint has no `limit`. Page sizes are unknown, and one page may have all items.
"""


class Reach(NamedTuple):
    """The size of a read: the pages that it needs if all are full, and the maximum number of pages."""

    pages_needed: int
    pages_max: int


ONE_PAGE = Reach(1, 1)
"""The size of a read of one page."""


class Walked(NamedTuple):
    """The progress of a walk: its pages and items so far."""

    pages: int
    items: int
    limit: int


WantsMore = Callable[[Walked], Awaitable[bool]]
"""Called after each page of a walk. If the result is False, the walk ends."""


def never() -> bool:
    """Return False, so that a walk is never stopped."""
    return False


OnLeg = Callable[[Leg, Part], Awaitable[None]]
"""Called when a part of a composite is finished."""


class PartReader(Protocol):
    """Reads the parts of composites in a way other than `fetch`: from a cache, or shared with concurrent requests."""

    def read(self, plan: Plan, args: Args, deadline_at: float, conduct: Conduct) -> Awaitable[Fetched]:
        """See `fetch`; `args` are the part's own arguments before planning."""
        ...


class Conduct(NamedTuple):
    """How a plan is run: its page limit, and its callbacks."""

    pages_max: int = 0
    wants_more: WantsMore | None = None
    stopping: Callable[[], bool] = never
    parts: PartReader | None = None
    """If None, each part is read by `fetch`."""
    on_leg: OnLeg | None = None

    @property
    def of_parts(self) -> Conduct:
        """The same settings for the parts, without `wants_more` and `on_leg`."""
        return self._replace(wants_more=None, on_leg=None)

    async def pages_left(self, done: Round, deadline_at: float) -> int:
        """Return how many more pages a composite's walk may read; 0 if it should stop or is out of time."""
        is_wanted = self.wants_more is None or await self.wants_more(Walked(done.pages, done.items, done.limit))
        if not is_wanted or self.stopping() or trio.current_time() >= deadline_at:
            return 0
        return max(0, (self.pages_max or _PAGES_MAX) - done.pages)


_PAGES_MAX: Final = 200
"""Maximum pages of a walk that is a part of another composite."""
ALONE: Final = Conduct()
"""The settings of a read without callbacks, whose parts are not shared."""


class WalkTerms(NamedTuple):
    """The rows that a walk collects: how many, and how many of its first page were already returned."""

    limit: int
    skip: int
    reach: Reach


class Plan(NamedTuple):
    """A read that has run up to its first call: its arguments are valid, and nothing was sent yet."""

    site: Site
    endpoint: Endpoint
    args: Args
    rung_index: int
    steps: Steps
    first: Wanted
    kept: KeptBodies | None = None
    """Records the bodies of the calls, or None if the caller did not request them."""
    refusal: UpstreamError | LimitError | None = None
    """An error that is known without any call, raised when the plan runs; None if there is none.

    An example is a page that is known to be forbidden.
    """
    walk: WalkTerms | None = None
    """The terms of a walk whose first page this is. None for a read of one page."""

    @property
    def reach(self) -> Reach:
        """The size of the read in pages; or an amount in credits, if the endpoint has its own price."""
        if self.walk is not None:
            return self.walk.reach
        price = self.endpoint.price
        return ONE_PAGE if price is None else Reach(*price.span(self.args.values))

    @property
    def limit(self) -> int | None:
        """The number of rows that a walk collects; None for a read of one page."""
        return None if self.walk is None else self.walk.limit

    def dismiss(self) -> None:
        """Close the read without sending anything."""
        self.steps.close()


def prepare(site: Site, endpoint: Endpoint, args: Args, *, keeps: bool = False) -> Plan:
    """Run an endpoint's read, or the read of a walk's first page, up to its first call; `keeps` as in `plan`.

    Raises:
        InvalidArgument, InvalidCursor: A value cannot be used in any call. The request is free.
    """
    if endpoint.collect is None:
        return plan(site, endpoint, args, keeps=keeps)
    sized, walk = _walk_terms(endpoint.collect, args)
    return plan(site, endpoint, sized, keeps=keeps, walk=walk)


def plan(
    site: Site,
    endpoint: Endpoint,
    args: Args,
    *,
    keeps: bool = False,
    walk: WalkTerms | None = None,
    rung_index: int | None = None,
) -> Plan:
    """Run the read of one page up to its first call. With `keeps`, `Fetched.bodies` has the bodies of its calls.

    `rung_index` is the fallback to read from, and 0 is the endpoint's own source. By default, the source that issued
    the cursor is used, and without a cursor the first source whose credentials are configured. If the read fails before
    any call, the failure is stored in the plan's `refusal`.

    Raises:
        InvalidArgument: A value cannot be used in any call. The request is free, because nothing was charged yet.
        InvalidCursor: The cursor belongs to a fallback that the endpoint no longer has.
    """
    if rung_index is None:
        source = args.cursor.get(_FALLBACK) if args.cursor else None
        rung_index = site.starts.get(endpoint.resource, 0) if source is None else _fallback_at(site, endpoint, source)
        if rung_index and source is None and args.cursor is not None:
            raise InvalidCursor(_NO_LONGER_USED)
    own = endpoint.fallbacks[rung_index - 1].read if rung_index else None
    read = own or endpoint.read
    args = endpoint.resolve(args)
    steps, refusal = read(args), None
    try:
        first = next(steps)
        if site.has_hosts:
            first = site.named(first, args)
        if not leads_straight(first) and (culprit := _culprit_of(endpoint, read, args, first)) is not None:
            raise InvalidArgument(culprit, "must not lead to a path other than this endpoint's")
        if isinstance(first, tuple):
            _check_parts(site, endpoint, args, first)
    except _KNOWN_FAILURES as failure:
        steps.close()
        first, refusal = (), failure
    return Plan(site, endpoint, args, rung_index, steps, first, KeptBodies() if keeps else None, refusal, walk)


def _walk_terms(collect: Collect, args: Args) -> tuple[Args, WalkTerms]:
    """Return the arguments of a walk's first page, and the terms of the walk."""
    limit, per_page = args.number("limit"), min(args.number("limit"), collect.per_page)
    skip = args.position(SKIP, 0)
    state = {name: value for name, value in (args.cursor or {}).items() if name != SKIP}
    # A cursor with an empty state is not a fresh start: it leads back to the first page of the source that issued it.
    cursor = None if args.cursor is None else state
    sized = replace(args, values={**args.values, "limit": per_page}, cursor=cursor)
    pages_needed = -(-(min(skip, per_page - 1) + limit) // per_page)
    return sized, WalkTerms(limit, skip, Reach(pages_needed, pages_needed + collect.spare_pages))


def as_collecting(endpoint: Endpoint) -> Endpoint:
    """Turn a list endpoint into one that collects items, using the largest pages that the endpoint offers."""
    if endpoint.collect is not None:
        return endpoint
    largest = next((param.maximum for param in endpoint.params if param.name == "limit"), None)
    return replace(endpoint, collect=_UNSIZED if largest is None else Collect(largest))


def _fallback_at(site: Site, endpoint: Endpoint, source: str | int) -> int:
    for rung_index, fallback in site.fallbacks[endpoint.resource]:
        if fallback.source == source and fallback.read is not None:
            return rung_index
    raise InvalidCursor(_NO_LONGER_USED)


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


def _check_parts(site: Site, endpoint: Endpoint, args: Args, wanted: tuple[Call | Part, ...]) -> None:
    """Raise the refusals of required parts, and refuse arguments that select only unserved platforms.

    Called before anything is charged.

    Raises:
        InvalidArgument: An argument cannot be used. The error names the composite's parameter.
        UpstreamError, LimitError: The refusal of a required part.
    """
    parts = [one for one in wanted if isinstance(one, Part)]
    for one in parts:
        if not one.optional:
            try:
                planned = plan(*resolve_part(one, site, args))
            except (InvalidArgument, PartUnavailable) as exc:
                raise in_composite_terms(endpoint, args, exc) from exc
            planned.dismiss()
            if planned.refusal is not None:
                raise planned.refusal
    if len(parts) == len(wanted):
        _check_offered(site, endpoint, args, parts)


def _check_offered(site: Site, endpoint: Endpoint, args: Args, parts: Sequence[Part]) -> None:
    """Refuse an argument that selects only platforms that this node cannot call."""
    refusals: dict[str, PartUnavailable] = {}
    for part in parts:
        try:
            site.offering(part)
        except PartUnavailable as refusal:
            refusals[part.platform] = refusal
        else:
            return
    asking = (
        param.name
        for param in endpoint.params
        if param.name in args.values and any(param.asks_for(args.values[param.name], slug) for slug in refusals)
    )
    if (culprit := next(asking, None)) is not None:
        raise unsupported(culprit, *refusals.values())


def fallbacks_of(planned: Plan) -> list[int]:
    """Return the fallbacks that may follow the plan's own source; only mirrors if the request has a cursor."""
    resource = planned.endpoint.resource
    offered = planned.site.fallbacks.get(resource)
    if not offered:
        return []
    begins = planned.args.cursor is None
    if planned.rung_index:
        if not begins or planned.rung_index != planned.site.starts.get(resource):
            return []
        below = (one for one in offered if one[0] > planned.rung_index)
        return [rung_index for rung_index, fallback in below if fallback.read is not None]
    return [rung_index for rung_index, fallback in offered if begins or fallback.read is None]


def fallback_plan(planned: Plan, rung_index: int) -> Plan | None:
    """Return the plan of a fallback, or None if the fallback cannot serve these values."""
    with suppress(InvalidArgument):
        return replan(planned, rung_index)
    return None


def replan(planned: Plan, rung_index: int) -> Plan:
    """Return a new plan of the same read, at this fallback; 0 means the endpoint's own source."""
    keeps = planned.kept is not None
    return plan(planned.site, planned.endpoint, planned.args, keeps=keeps, walk=planned.walk, rung_index=rung_index)


def source_of(wanted: Wanted, site: Site) -> str:
    """Return the name of the source that the first of these calls uses."""
    first = next(iter(wanted), None) if isinstance(wanted, tuple) else wanted
    return site.source_name(first.source if isinstance(first, Call) else "")


def fallback_entry(endpoint: Endpoint, rung_index: int) -> State:
    """Return the state to add to a cursor, so that the cursor leads back to the fallback that issued it."""
    fallback = endpoint.fallbacks[rung_index - 1] if rung_index else None
    return {} if fallback is None or fallback.read is None else {_FALLBACK: fallback.source}
