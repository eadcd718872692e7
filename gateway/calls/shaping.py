"""Converts the result of a read to the envelope's `data` and `pagination` (spec 2.1, 2.2, 4.3; decisions 3, 14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from billing.charges.refunds import NOTHING_USED, used_by_composite, used_by_pages, used_by_run
from gateway.http.errors import refusal_of
from upstreams.catalog import Listing
from upstreams.model import archetypes
from upstreams.model.archetypes import Archetype, Record
from upstreams.model.errors import InvalidArgument, NotFound, PartUnavailable
from upstreams.model.params import State
from upstreams.model.steps import CACHE, Answer, Fetched, Leg, Missing, Page, Single

Seal = Callable[[State], str]


@dataclass(slots=True)
class Shaped:
    """`data`, `pagination` (lists only), whether it is complete enough to cache, and the share of covered legs."""

    data: Record
    pagination: Record | None
    cacheable: bool
    coverage: float


class Terms(NamedTuple):
    """The rules for partial responses of one kind of call: the warning's ending, and the refund."""

    rest_hint: str
    """Text appended to the warning about too few rows. It explains how to read the remaining rows."""
    used_by_legs: Callable[[int, float], int]
    """The refund rule for a response with missing legs."""


REQUEST = Terms("; continue with next_cursor", used_by_composite)
RUN = Terms("", used_by_run)


def shape_call(
    listing: Listing, fetched: Fetched, credits_held: int, cost_credits: int, *, seal: Seal, terms: Terms
) -> tuple[Shaped, int]:
    """Return the shaped response and the credits used, which are divided among its legs.

    Raises:
        NotFound: a single record has no identifying data.
    """
    shaped = shape(listing.endpoint.archetype, explained(fetched, terms.rest_hint), seal)
    used = used_by_pages(credits_held, cost_credits, fetched.pages_used)
    if not fetched.result.legs:
        return shaped, used
    legs = shaped.data["legs"]
    if shaped.coverage < 1:
        used = terms.used_by_legs(used, shaped.coverage)
    if not billed(legs):
        used = NOTHING_USED
    share_out(legs, used)
    return shaped, used


def shape(archetype: Archetype, result: Page | Single, seal: Seal) -> Shaped:
    """Return the parts of the envelope. `seal` creates a cursor from a page's next state.

    Raises:
        NotFound: a single record has no identifying data.
    """
    warnings = list(result.warnings)
    if isinstance(result, Page):
        data, pagination = _rows(archetype, result, warnings), _pagination(result, seal)
    else:
        data, pagination = _single(archetype, result, warnings), None
        if archetype.cursor_at:
            data[archetype.cursor_at] = None if result.next is None else seal(result.next)
    if warnings:
        data["_warnings"] = list(dict.fromkeys(warnings))
    # A reader's warnings mean incomplete upstream data. Such responses are never cached (decisions 8).
    if not result.legs:
        return Shaped(data, pagination, not result.warnings, 1.0)
    leg_data = _of_legs(result.legs)
    is_whole = not (result.warnings or leg_data["partial_failure"])
    return Shaped({**data, **leg_data}, pagination, is_whole, leg_data["coverage"])


def _of_legs(legs: Sequence[Leg]) -> Record:
    """Return the legs of a response and their coverage. A leg that ended with "not found" also counts as covered."""
    records = [leg_record(leg) for leg in legs]
    due = [one["status"] for one in records if one["status"] != "unsupported"]
    answered = sum(1 for status in due if status in ("ok", "not_found"))
    share = answered / len(due) if "ok" in due else 0.0
    return archetypes.coverage(legs=records, coverage=share, partial_failure=answered < len(due))


def explained(fetched: Fetched, rest_hint: str = "") -> Page | Single:
    """Return the result of a read, with a warning if a walk has too few rows.

    `rest_hint` explains how to read the remaining rows.
    """
    result = fetched.result
    return replace(result, warnings=(*result.warnings, fetched.shortfall + rest_hint)) if fetched.shortfall else result


def _rows(archetype: Archetype, page: Page, warnings: list[str]) -> Record:
    data: Record = {"items": archetype.rows(page.records, warnings)}
    if page.total is not None:
        data["total"] = page.total
    return data if page.beside is None else {**data, **page.beside}


def _single(archetype: Archetype, result: Single, warnings: list[str]) -> Record:
    record = result.record
    if archetype.is_empty(record):
        raise NotFound("The upstream returned no usable data.")
    return archetype.wrap(record, warnings)


def _pagination(page: Page, seal: Seal) -> dict[str, Any]:
    cursor = None if page.next is None else seal(page.next)
    return {"next_cursor": cursor, "has_more": cursor is not None, "page_size": len(page.records)}


def leg_record(leg: Leg) -> Record:
    """Return the record of one leg: the source that returned it, and that source's position in the ladder.

    `share_out` adds its cost when the cost of the whole call is known.
    """
    answer = leg.answer
    failure = answer.failure if isinstance(answer, Missing) else None
    place = answer.place if isinstance(answer, Fetched) else 0
    return archetypes.leg(
        endpoint=leg.endpoint,
        source=answer.source,
        rung="fallback" if place else "primary",
        rung_index=place,
        status=_status_of(answer),
        credits_used=0,
        latency_ms=round(answer.took_s * 1000),
        error=None if answer else error_of(failure),
    )


def _status_of(answer: Answer | Fetched | Missing) -> str:
    if not isinstance(answer, Missing):
        return "ok"
    if isinstance(answer.failure, InvalidArgument | PartUnavailable):
        return "unsupported"
    if answer.absent:
        return "not_found"
    return "deferred" if answer.late else "failed"


def share_out(legs: Sequence[Record], credits_used: int) -> None:
    """Divide the call's cost among the legs that were called successfully.

    The shares are equal, and the first legs get the remainder.
    """
    billed_legs = billed(legs)
    for place, leg in enumerate(billed_legs):
        leg["credits_used"] = (credits_used + len(billed_legs) - 1 - place) // len(billed_legs)


def billed(legs: Sequence[Record]) -> list[Record]:
    """Return the billed legs: the successful legs that did not come from the cache."""
    return [leg for leg in legs if leg["status"] in ("ok", "partial") and leg["source"] != CACHE]


def error_of(failure: Exception | None) -> str:
    """Return the error code that a part's failure would have as a separate call."""
    return "UPSTREAM_ERROR" if failure is None else refusal_of(failure).code.name
