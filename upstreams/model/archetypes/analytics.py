"""Rankings of items with their figures, and the countries of an audience."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Of, Record, Url


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
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A ranking."""
    items, ext = items or [], ext or {}
    return locals()


def audience_share(
    *,
    country: Annotated[str | None, "ISO 3166-1 alpha-2 code of the country."],
    count: Annotated[int | None, "Number of people in this country."] = None,
    share: Annotated[float | None, "Share of the audience in this country, 0 to 1."] = None,
) -> Record:
    """One country of an audience."""
    return locals()


def audience(
    *,
    subject: Annotated[str | None, "The account or item that the audience belongs to."],
    locations: Annotated[list[Record] | None, Of(audience_share), "The countries, largest share first."] = None,
) -> Record:
    """Where the followers or viewers of an account or item are."""
    locations = locations or []
    return locals()


ANALYTICS = Archetype("Analytics", "analytics", analytics, findings=("items",), kind="analytics")
AUDIENCE = Archetype(
    "Audience",
    "audience",
    audience,
    findings=("locations",),
    kind="analytics",
    roles=(Contract("audience", of="profile"),),
)
ARCHETYPES = (ANALYTICS, AUDIENCE)
