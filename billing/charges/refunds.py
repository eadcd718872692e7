"""Calculates how much of a charge is used. Closing the charge refunds the rest. Pure functions.

| what happened | credits used | section |
|---|---|---|
| the upstream failed, throttled or had no data; a circuit was open; this server failed | none | spec 7.5 |
| a page exceeded the time or memory for a page | the price of one page, at most the reserved credits | decisions 6 |
| the client disconnected; the process died | none | decisions 6 |
| a plain read succeeded | the price of one page | decisions 6 |
| the result is an empty list, or nothing was found | none | spec 2.4 |
| a walk succeeded, perhaps cut short | the price of each page with content, at most the reservation | decisions 6 |
| at least half of the legs of a composite succeeded | all | decisions 14 |
| fewer legs of a composite succeeded | half | decisions 14 |
| no leg of a composite succeeded, or all came from the cache | none | decisions 14 |
| a metered composite succeeded | the use that its result reports, at most the reserved credits | decisions 17 |
| a monitor's run lost some legs | the share that succeeded, rounded up, and the scheduling credit | spec 3 |
| a monitor's run returned nothing usable | none, not even the scheduling credit | spec 3, 8 |
"""

from fractions import Fraction
from math import ceil
from typing import Final

NOTHING_USED: Final = 0
"""A failure, a cancellation or a crash uses no credits: all are refunded (spec 7.5, decisions 6)."""

_PARTS_MAX: Final = 1_000
"""The maximum number of legs in a response."""


def used_by_failure(credits_held: int, page_credits: int, *, is_costly: bool) -> int:
    """Return the credits used by a failure: nothing, or one page's price if the page was too costly to read.

    `page_credits` is the least that a success would have used.
    """
    return min(credits_held, page_credits) if is_costly else NOTHING_USED


def pages_held(credits_held: int, cost_credits: int, pages_max: int) -> int:
    """Return how many pages the reserved credits cover, or `pages_max` if a page is free (decisions 6)."""
    return credits_held // cost_credits if cost_credits else pages_max


def used_by_pages(credits_held: int, cost_credits: int, pages: int) -> int:
    """Return the credits used by a response with this many pages. A plain read has one page (decisions 6)."""
    return min(credits_held, cost_credits * pages)


def used_by_composite(used_credits: int, coverage: float) -> int:
    """Return how much of `used_credits` is used when this share of the legs succeeded (decisions 14).

    If at least half of the legs succeeded, all credits are used. If fewer succeeded, half of the credits are used,
    rounded down. If none succeeded, no credits are used.
    """
    if coverage < 0.5:
        return used_credits // 2 if coverage else NOTHING_USED
    return used_credits


def used_by_run(used_credits: int, coverage: float) -> int:
    """Return how much of `used_credits` a monitor's run uses when this share of its legs succeeded (spec 3).

    The share is rounded up. The scheduling credit is not included.
    """
    # Exact fractions: two thirds of 3 credits are 2, not slightly more.
    share = Fraction(coverage).limit_denominator(_PARTS_MAX)
    return ceil(used_credits * share)
