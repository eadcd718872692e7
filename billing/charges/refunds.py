"""Every rule of how much of a charge is used; closing a charge refunds the rest of it. Pure.

| what happened | what is used | section |
|---|---|---|
| the upstream failed, throttled or had nothing; a circuit was open; this server failed | nothing | spec 7.5 |
| a page used up the time or the memory of a page | the price of one page, at most what is held | decisions 6 |
| the caller went away; the process died | nothing | decisions 6 |
| a plain read answered | the price of one page | decisions 6 |
| the answer is an empty list, or found nothing | nothing | spec 2.4 |
| a walk answered, perhaps short | the price of each page that brought something, at most what is held | decisions 6 |
| a composite came without some legs | all; half if less than half came; nothing if none came | decisions 14 |
| a composite whose legs all came from the cache | nothing | decisions 14 |
| a metered composite answered | what its result names, at most what is held | decisions 17 |
| a monitor's run came without some legs | the share that came, rounded up, and the scheduling credit | spec 3 |
| a monitor's run brought nothing usable | nothing, without a scheduling credit either | spec 3, 8 |
"""

from fractions import Fraction
from math import ceil
from typing import Final

NOTHING_USED: Final = 0
"""The use of a charge by a failure, a cancellation or a crash: all of it goes back (spec 7.5, decisions 6)."""

_PARTS_MAX: Final = 1_000
"""No answer has more legs."""


def used_by_failure(credits_held: int, page_credits: int, *, is_costly: bool) -> int:
    """Return what a failure used: nothing, unless the page that was read was too costly, which is paid for as a page.

    `page_credits` is the least that a success would have used.
    """
    return min(credits_held, page_credits) if is_costly else NOTHING_USED


def pages_held(credits_held: int, cost_credits: int, pages_max: int) -> int:
    """Return how many pages the credits held are for; `pages_max` where a page costs nothing (decisions 6)."""
    return credits_held // cost_credits if cost_credits else pages_max


def used_by_pages(credits_held: int, cost_credits: int, pages: int) -> int:
    """Return what an answer used that brought so many pages; a plain read brings one (decisions 6)."""
    return min(credits_held, cost_credits * pages)


def used_by_composite(used_credits: int, coverage: float) -> int:
    """Return what a request used of `used_credits` when this share of its legs came (decisions 14).

    All from a half on; below it half, where an odd credit is refunded; nothing when no leg came.
    """
    if coverage < 0.5:
        return used_credits // 2 if coverage else NOTHING_USED
    return used_credits


def used_by_run(used_credits: int, coverage: float) -> int:
    """Return what a monitor's run used of `used_credits` when this share of its legs came (spec 3).

    The share is rounded up. The credit for scheduling is not in it.
    """
    share = Fraction(coverage).limit_denominator(_PARTS_MAX)  # two thirds of 3 credits are 2, not a hair more
    return ceil(used_credits * share)
