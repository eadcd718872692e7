"""The quote for a call. The credits for the maximum number of pages are reserved before the call (decisions 6)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from gateway.calls.request import CallRequest
from gateway.http.errors import Refused
from upstreams.fetching.plan import Reach
from upstreams.model.params import Value

QUOTES_MAX = 500


class Quote(NamedTuple):
    """The reservation of a call: as much of `credits` as the balance covers, but at least `credits_least`."""

    credits_least: int
    credits: int


@lru_cache(QUOTES_MAX)
def quote(reach: Reach, cost_credits: int, credits_max: int | None = None) -> Quote:
    """Return the quote for a read that costs `cost_credits` per page, within `credits_max` if given.

    The result is cached, because every billed call needs one and few of them differ.
    """
    least, most = reach.pages_needed * cost_credits, reach.pages_max * cost_credits
    return Quote(least, most if credits_max is None else max(least, min(most, credits_max)))


def above_max(request: CallRequest, quoted: Quote) -> Refused | None:
    """Return the error for a call that would reserve more than its caller allows (decisions 6), or None."""
    credits_least = quoted.credits_least
    if request.credits_max is None or credits_least <= request.credits_max:
        return None
    return above_max_credits(credits_least)


def check_max_credits(values: Mapping[str, Value], credits_required: int) -> None:
    """Reject a request that would reserve more than its `max_credits`, if it has one."""
    if "max_credits" in values and credits_required > int(values["max_credits"]):
        raise above_max_credits(credits_required)


def above_max_credits(credits_required: int) -> Refused:
    """Return the error for a request that would reserve more than `max_credits` (decisions 6)."""
    return Refused(
        "INSUFFICIENT_CREDITS",
        f"This request would reserve {credits_required} credits, above max_credits.",
        details={"reason": "above_max_credits", "credits_required": credits_required},
    )
