"""Pages of text, places on the map, and numbers over time."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record, Url, nests


def article(
    *,
    id: Annotated[str | None, "The platform's own id of the page."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its address."],
    title: Annotated[str | None, "Its title."],
    text: Annotated[str | None, "Its text."],
    description: Annotated[str | None, "A line or two about it."] = None,
    image_url: Annotated[Url, "The address of its main picture."] = None,
    language: Annotated[str | None, "The language that it says it is in."] = None,
    updated_at: Annotated[Instant, "The time of its last change."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One page of text: a readme, an encyclopedia page."""
    ext = ext or {}
    return locals()


@nests(rating="The mean of all ratings.")
def place(
    *,
    id: Annotated[str | None, "The platform's own id of the place."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its page."],
    name: Annotated[str | None, "Its name."],
    address: Annotated[str | None, "Its address as people write it."] = None,
    latitude: Annotated[float | None, "Degrees north."] = None,
    longitude: Annotated[float | None, "Degrees east."] = None,
    distance_m: Annotated[float | None, "Metres from where the request asked."] = None,
    category: Annotated[str | None, "The kind of place that it is."] = None,
    rating: Annotated[float | None, "The mean."] = None,
    rating_count: Annotated[int | None, "How many rated it."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One place."""
    return {
        "id": id,
        "url": url,
        "name": name,
        "address": address,
        "latitude": latitude,
        "longitude": longitude,
        "distance_m": distance_m,
        "category": category,
        "rating": {"value": rating, "count": rating_count},
        "ext": ext or {},
    }


def point(
    *,
    t: Annotated[Instant, "The beginning of the time that it is for."],
    value: Annotated[float | None, "The value; times without one are left out."],
) -> Record:
    """One value of a series."""
    return locals()


def series(
    *,
    subject: Annotated[str | None, "The thing that is measured."],
    unit: Annotated[str | None, "The unit of the values."],
    points: Annotated[list[Record] | None, Of(point), "The values, oldest first."] = None,
) -> Record:
    """One number over time."""
    points = points or []
    return locals()


ARTICLE = Archetype("Article", "article", article)
ARTICLE_LIST = Archetype("ArticleList", "article", article, many=True)
PLACE_LIST = Archetype("PlaceList", "place", place, many=True)
SERIES = Archetype("Series", "series", series)
