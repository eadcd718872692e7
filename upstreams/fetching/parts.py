"""The parts of a composite. Each is another endpoint, with its own arguments, time limit and failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from limits.errors import LimitError
from upstreams.fetching.planned import Plan
from upstreams.fetching.site import Site
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import InvalidArgument, NotFound, PartUnavailable, UpstreamError
from upstreams.model.params import Args
from upstreams.model.steps import Call, Fetched, Leg, Missing, Part

Planning = Callable[[Site, Endpoint, Args], Plan]


def check_parts(
    site: Site, endpoint: Endpoint, args: Args, wanted: tuple[Call | Part, ...], *, planning: Planning
) -> None:
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
                part = planning(*_resolved(one, site, args))
            except (InvalidArgument, PartUnavailable) as exc:
                raise _in_composite_terms(endpoint, args, exc) from exc
            part.dismiss()
            if part.refusal is not None:
                raise part.refusal
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
        raise _unsupported(culprit, *refusals.values())


async def answer_part(
    composite: Plan,
    part: Part,
    deadline_at: float,
    *,
    planning: Planning,
    fetch: Callable[[Plan, float], Awaitable[Fetched]],
) -> Fetched | Missing:
    """Read a part from its endpoint or a fallback, within the part's time limit, and return the answer.

    If an optional part fails, the answer is a `Missing`.
    """
    started, site, conduct = trio.current_time(), composite.site, composite.conduct
    end_at = min(deadline_at, started + part.within_s) if part.within_s else deadline_at
    slug = source = part.platform or site.platform.slug
    answer: Fetched | Missing
    try:
        there, endpoint, args = _resolved(part, site, composite.args)
        planned = planning(there, endpoint, args)
        planned.conduct, source = conduct.of_parts, there.source_name(getattr(planned.first, "source", ""))
        reading = fetch(planned, end_at) if conduct.parts is None else conduct.parts.read(planned, args, end_at)
        answer = await reading
    except (UpstreamError, LimitError) as failure:
        if not part.optional:
            if isinstance(failure, InvalidArgument | PartUnavailable):
                raise _in_composite_terms(composite.endpoint, composite.args, failure) from failure
            raise
        answer = _missing(failure, source, started, end_at)
    if conduct.on_leg is not None:
        await conduct.on_leg(Leg(f"{slug}/{part.resource}", answer), part)
    return answer


def _resolved(part: Part, site: Site, args: Args) -> tuple[Site, Endpoint, Args]:
    """Return the site, the endpoint and the arguments of a part. Raises InvalidArgument, PartUnavailable."""
    there, endpoint = site.offering(part)
    values = endpoint.canonical(part.values)
    return there, endpoint, Args(values, part.cursor, there.credentials, args.now_at, args.account_id)


def _in_composite_terms(endpoint: Endpoint, args: Args, refusal: InvalidArgument | PartUnavailable) -> InvalidArgument:
    """Return a part's refusal of a value, reworded for the composite's parameter."""
    culprit = next((name for name in endpoint.named_by if name in args.values), None)
    if isinstance(refusal, PartUnavailable):
        return _unsupported(culprit or endpoint.resource, refusal)
    if any(param.name == refusal.param for param in endpoint.params):
        return refusal
    return InvalidArgument(culprit or refusal.param, refusal.problem)


def _unsupported(param: str, *refusals: PartUnavailable) -> InvalidArgument:
    """Return the refusal of a value that is valid but selects platforms that this node does not serve."""
    why = "; ".join(map(str, refusals))
    return InvalidArgument(param, f"this node cannot serve it: {why}", reason="capability_missing")


def _missing(failure: UpstreamError | LimitError, source: str, started: float, end_at: float) -> Missing:
    """Return the answer for an optional part that failed. If its time had run out, the answer is marked as late."""
    now = trio.current_time()
    is_late = now >= end_at and not isinstance(failure, NotFound | InvalidArgument)
    source = getattr(failure, "source", "") or source
    return Missing(str(failure), source, now - started, isinstance(failure, NotFound), failure, is_late)
