"""From what a read returned to the `data` and `pagination` of the envelope (spec 2.1, 2.2, 4.3; decisions 3, 14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.http.errors import refusal_of
from upstreams.model import archetypes
from upstreams.model.archetypes import Archetype, Record
from upstreams.model.errors import NotFound
from upstreams.model.params import State
from upstreams.model.steps import Fetched, Leg, Missing, Page, Single

Seal = Callable[[State], str]


@dataclass(slots=True)
class Shaped:
    """`data`, `pagination` (lists only), whether it is whole enough to be cached, and the share of legs that came."""

    data: Record
    pagination: Record | None
    cacheable: bool
    coverage: float


def shape(archetype: Archetype, result: Page | Single, seal: Seal) -> Shaped:
    """The envelope's parts; `seal` makes a cursor token of a page's next state.

    Raises:
        NotFound: a single record came without anything to know it by.
    """
    warnings = list(result.warnings)
    legs: tuple[Leg, ...] = ()
    if isinstance(result, Page):
        data, pagination = _rows(archetype, result, warnings), _pagination(result, seal)
    else:
        data, pagination, legs = _single(archetype, result, warnings), None, result.legs
    if warnings:
        data["_warnings"] = list(dict.fromkeys(warnings))
    came = sum(1 for leg in legs if leg.answer) if legs else 0
    # a reader's own warnings tell of incomplete upstream data; such answers are never cached (decisions 8)
    return Shaped(data, pagination, not result.warnings and came == len(legs), came / len(legs) if legs else 1.0)


def explained(fetched: Fetched, way_on: str = "") -> Page | Single:
    """The result of a read, with a walk's shortfall among its warnings; `way_on` says how to get the rest."""
    result = fetched.result
    return replace(result, warnings=(*result.warnings, fetched.shortfall + way_on)) if fetched.shortfall else result


def _rows(archetype: Archetype, page: Page, warnings: list[str]) -> Record:
    data: Record = {"items": archetype.rows(page.records, warnings)}
    if page.total is not None:
        data["total"] = page.total
    return data


def _single(archetype: Archetype, result: Single, warnings: list[str]) -> Record:
    record = result.record
    if archetype.is_empty(record):
        raise NotFound("The upstream answered without usable data.")
    data = archetype.wrap(record, warnings)
    if result.legs:
        data["legs"] = [leg_record(leg) for leg in result.legs]
    return data


def _pagination(page: Page, seal: Seal) -> dict[str, Any]:
    cursor = None if page.next is None else seal(page.next)
    return {"next_cursor": cursor, "has_more": cursor is not None, "page_size": len(page.records)}


def leg_record(leg: Leg) -> Record:
    """One of an answer's parts as the answer tells it: which source gave it, and how far down the ladder that was.

    `share_out` adds its cost, once that of the whole call is clear.
    """
    answer = leg.answer
    failure = answer.failure if isinstance(answer, Missing) else None
    rung_index = answer.rung_index if isinstance(answer, Fetched) else 0
    return archetypes.leg(
        endpoint=leg.endpoint,
        source=answer.source,
        rung="fallback" if rung_index else "primary",
        rung_index=rung_index,
        status="ok" if answer else "failed",
        credits_used=0,
        latency_ms=round(answer.took_s * 1000),
        error=None if answer else error_of(failure),
    )


def share_out(legs: Sequence[Record], credits_used: int) -> None:
    """Tell each leg that came its share of what the call cost: equal ones, the remainder with the earlier legs."""
    came = [leg for leg in legs if leg["status"] != "failed"]
    for place, leg in enumerate(came):
        leg["credits_used"] = (credits_used + len(came) - 1 - place) // len(came)


def error_of(failure: Exception | None) -> str:
    """The code that a part's failure would have as an answer of its own."""
    return "UPSTREAM_ERROR" if failure is None else refusal_of(failure).code.name
