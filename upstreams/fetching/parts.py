"""The parts of a composite. Each is another endpoint, with its own arguments, time limit and failure."""

from __future__ import annotations

import trio

from limits.errors import LimitError
from upstreams.fetching.site import Site
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import InvalidArgument, NotFound, PartUnavailable, UpstreamError
from upstreams.model.params import Args
from upstreams.model.steps import Missing, Part


def resolve_part(part: Part, site: Site, args: Args) -> tuple[Site, Endpoint, Args]:
    """Return the site, the endpoint and the arguments of a part. Raises InvalidArgument, PartUnavailable."""
    there, endpoint = site.offering(part)
    values = endpoint.canonical(part.values)
    return there, endpoint, Args(values, part.cursor, there.credentials, args.now_at, args.account_id)


def in_composite_terms(endpoint: Endpoint, args: Args, refusal: InvalidArgument | PartUnavailable) -> InvalidArgument:
    """Return a part's refusal of a value, reworded for the composite's parameter."""
    culprit = next((name for name in endpoint.named_by if name in args.values), None)
    if isinstance(refusal, PartUnavailable):
        return unsupported(culprit or endpoint.resource, refusal)
    if any(param.name == refusal.param for param in endpoint.params):
        return refusal
    return InvalidArgument(culprit or refusal.param, refusal.problem)


def unsupported(param: str, *refusals: PartUnavailable) -> InvalidArgument:
    """Return the refusal of a value that is valid but selects platforms that this node does not serve."""
    why = "; ".join(map(str, refusals))
    return InvalidArgument(param, f"this node cannot serve it: {why}", reason="capability_missing")


def missing_part(failure: UpstreamError | LimitError, source: str, started: float, end_at: float) -> Missing:
    """Return the answer for an optional part that failed. If its time had run out, the answer is marked as late."""
    now = trio.current_time()
    is_late = now >= end_at and not isinstance(failure, NotFound | InvalidArgument)
    source = getattr(failure, "source", "") or source
    return Missing(str(failure), source, now - started, isinstance(failure, NotFound), failure, is_late)
