"""Rankings: the most looked at or talked about, in numbers."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Of, Record, Url


def ranked(
    *,
    rank: Annotated[int, "Its place, from 1 on."],
    name: Annotated[str | None, "The name of what is ranked."],
    url: Annotated[Url, "Its page."] = None,
    value: Annotated[int | None, "The number by which it stands there, or that comes closest."] = None,
    change: Annotated[int | None, "The difference to that number in the period before."] = None,
) -> Record:
    """One entry of a ranking."""
    return locals()


def analytics(
    *,
    period: Annotated[str | None, "The time that the numbers are for: day, week, month."],
    region: Annotated[str | None, "The country that they are for; null where they are for all."] = None,
    items: Annotated[list[Record] | None, Of(ranked), "The entries, the first of them on top."] = None,
) -> Record:
    """A ranking."""
    items = items or []
    return locals()


ANALYTICS = Archetype("Analytics", "analytics", analytics, findings=("items",))
