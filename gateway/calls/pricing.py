"""The price of an endpoint, as shown in the catalog and the guide (spec 2.3, 2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from billing.charges.refunds import used_by_failure
from billing.prices import credits_for
from upstreams.model.errors import PageTooCostly

if TYPE_CHECKING:  # Only for type checks, because commands that list prices must not import the clients.
    from upstreams.fetching.planned import Planned
    from upstreams.model.endpoint import Endpoint


class Price(NamedTuple):
    """The minimum price of a call, its label, and one sentence on how it is calculated."""

    credits: int
    label: str
    note: str


def cost_of(endpoint: Endpoint) -> int:
    """Return the price of a page, or 1 if the endpoint itself counts its credits."""
    return credits_for(endpoint.tier) if endpoint.price is None else 1


def used_by_error(exc: Exception, endpoint: Endpoint, planned: Planned, credits_held: int) -> int:
    """Return the credits that a failed read used: the price of one page if the page was too costly."""
    page_credits = cost_of(endpoint) if endpoint.price is None else planned.reach.pages_needed
    return used_by_failure(credits_held, page_credits, is_costly=isinstance(exc, PageTooCostly))


def price_of(endpoint: Endpoint) -> Price:
    """Return the price of an endpoint."""
    if endpoint.price is not None:
        least, most, note = endpoint.price.least, endpoint.price.most, endpoint.price.note
        if least == most:
            return Price(least, f"{least} credits, override; tier {endpoint.tier}", note)
        return Price(least, f"{least}-{most} credits, metered", note)
    each = credits_for(endpoint.tier)
    if endpoint.collect is None:
        return Price(
            each, f"{each} credit{'' if each == 1 else 's'}", "One charge for each response from the upstream."
        )
    collect = endpoint.collect
    items_max = next(param.maximum or 0 for param in endpoint.params if param.name == "limit")
    pages_max = -(-items_max // collect.per_page) + collect.spare_pages
    return Price(
        each,
        f"{each}-{each * pages_max} credits, metered",
        f"{each} for each page of up to {collect.per_page} items with new items. Short pages may need up to "
        f"{collect.spare_pages} more: these are reserved as far as the balance and the key's budget allow, and "
        "unused credits are refunded.",
    )
