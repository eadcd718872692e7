"""Rankings: the most viewed or most discussed items, with their figures."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Of, Record, Url


def ranked(
    *,
    rank: Annotated[int, "Position in the ranking, starting at 1."],
    name: Annotated[str | None, "Name of the ranked item."],
    url: Annotated[Url, "URL of the item's page."] = None,
    value: Annotated[int | None, "The value that the ranking is sorted by, or the closest available value."] = None,
    change: Annotated[int | None, "Change in the value since the previous period."] = None,
) -> Record:
    """One entry of a ranking."""
    return locals()


def analytics(
    *,
    period: Annotated[str | None, "The period of the ranking: day, week or month."],
    region: Annotated[str | None, "The country of the ranking; null if it covers all countries."] = None,
    items: Annotated[list[Record] | None, Of(ranked), "The entries, highest first."] = None,
) -> Record:
    """A ranking."""
    items = items or []
    return locals()


ANALYTICS = Archetype("Analytics", "analytics", analytics, findings=("items",))
