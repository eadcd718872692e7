"""An endpoint's call before it is made and once it is answered: where it begins, what it reserves, what it has used."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from upstreams.catalog import Listing
from upstreams.fetching.fetch import Plan, plan
from upstreams.fetching.walk import GoOn, Walk, plan_walk, walk
from upstreams.model.params import Args
from upstreams.model.steps import Fetched


class Quote(NamedTuple):
    """What a call reserves: `credits` where there are as many, and never fewer than `credits_least`."""

    credits_least: int
    credits: int


def begin(listing: Listing, args: Args) -> Plan | Walk:
    """Run an endpoint's read up to its first call.

    Raises:
        InvalidArgument, InvalidCursor: no call could answer it; free, since nothing was charged.
    """
    start = plan if listing.endpoint.collect is None else plan_walk
    return start(listing.site, listing.endpoint, args)


def dismiss(planned: Plan | Walk) -> None:
    """End a read that was begun only to see whether it could be."""
    (planned if isinstance(planned, Plan) else planned.planned).steps.close()


def price(planned: Plan | Walk, cost_credits: int, credits_max: int | None = None) -> Quote:
    """What it reserves, of whichever kind it is; a walk within `credits_max`."""
    return walk_quote(planned, cost_credits, credits_max) or Quote(cost_credits, cost_credits)


def walk_quote(planned: Plan | Walk, cost_credits: int, credits_max: int | None = None) -> Quote | None:
    """What a walk reserves: for the most pages that it may take, within `credits_max`; None for a call of one price."""
    if isinstance(planned, Plan):
        return None
    least, most = (pages * cost_credits for pages in planned.reach)
    return Quote(least, most if credits_max is None else max(least, min(most, credits_max)))


def walk_within(
    planned: Walk, credits_held: int, cost_credits: int, *, deadline_at: float, go_on: GoOn
) -> Awaitable[Fetched]:
    """As many pages as there are credits for."""
    pages = credits_held // cost_credits if cost_credits else planned.reach.pages_max
    return walk(planned, pages, deadline_at, go_on)


def used_by(listing: Listing, fetched: Fetched, *, credits_held: int, cost_credits: int) -> int:
    """What of the credits held an answer cost, as far as its upstream gave all: a walk its pages."""
    if listing.endpoint.collect is None:
        return credits_held
    return min(credits_held, cost_credits * fetched.pages_used)
