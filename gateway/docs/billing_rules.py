"""The billing rules of an operation, each of which holds for it (spec 2.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.docs.operations import ApiOperation
    from upstreams.model.endpoint import Endpoint


def billing_rules(operation: ApiOperation) -> list[str]:
    """Return the billing rules of an operation, read from its declaration; none if it is free."""
    if operation.tier == "free":
        return []
    listing, doc = operation.listing, operation.route.doc
    own = doc.billing_rules if listing is None and doc is not None else ()
    return [
        *own,
        *(() if listing is None else _rules_of(listing.endpoint)),
        "Failed calls are refunded automatically.",
        "Errors in the request are found before anything is charged.",
    ]


def _rules_of(endpoint: Endpoint) -> Iterator[str]:
    archetype = endpoint.archetype
    yield "Cache hits cost 0 credits."
    if archetype.many:
        yield "An empty list costs 0 credits: it is refunded automatically."
    elif archetype.findings:
        yield "An answer that finds nothing costs 0 credits: it is refunded automatically."
    if not archetype.many:
        yield "A 404 for something that does not exist is refunded automatically."
    if endpoint.collect is not None:
        yield "Each page that brings something new is billed; credits reserved for further pages are refunded."
    if archetype.has_legs:
        yield (
            "If fewer than half of its parts answer, half of the price is refunded, rounded up in your favor; if no part "
            "answers, or all come from the cache, it costs 0 credits."
        )
