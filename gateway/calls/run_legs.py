"""What a monitor's run tells of the parts of its recipe: which came by which source, and what is missing and why."""

from __future__ import annotations

from typing import Any

from gateway.calls.shaping import Shaped, error_of, leg_record
from upstreams.fetching.fetch import Plan
from upstreams.fetching.walk import Walk
from upstreams.model.steps import Fetched, Leg, Missing, Page, Single


def legs_of(planned: Plan | Walk, fetched: Fetched, shaped: Shaped) -> list[dict[str, Any]]:
    """The legs of a composite's answer, or the one that any other answer came by; a walk's says how far it came."""
    legs: list[dict[str, Any]] | None = shaped.data.get("legs")
    if legs is not None:
        return legs
    if isinstance(planned, Plan):
        return [_leg(planned, fetched)]
    return [{**_leg(planned.planned, fetched), **_of_walk(planned, fetched)}]


def warnings_of(result: Page | Single) -> tuple[str, ...]:
    """What the upstream left out, why a walk is short, and which legs did not come."""
    legs = result.legs if isinstance(result, Single) else ()
    missing = [f"{leg.endpoint} is missing: {leg.answer.problem}" for leg in legs if isinstance(leg.answer, Missing)]
    return tuple(dict.fromkeys((*result.warnings, *missing)))


def _leg(planned: Plan, fetched: Fetched) -> dict[str, Any]:
    return leg_record(Leg(f"{planned.site.platform.slug}/{planned.endpoint.resource}", fetched))


def _of_walk(walk: Walk, fetched: Fetched) -> dict[str, Any]:
    """`pages` is what it is billed by; where the list ends early, there are fewer rows than were asked for."""
    assert isinstance(fetched.result, Page), "a walk's answer is one page"
    return {
        "status": "partial" if fetched.shortfall else "ok",
        "error": None if fetched.failure is None else error_of(fetched.failure),
        "pages": fetched.pages_used,
        "pages_needed": walk.reach.pages_needed,
        "rows": len(fetched.result.records),
        "rows_asked": walk.limit,
    }
