"""Places on a map: shops, restaurants, sights."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Record, Url, nests


@nests(rating="The average rating.")
def place(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The place's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the place's page."],
    name: Annotated[str | None, "Name of the place."],
    description: Annotated[str | None, "Description of the place, as plain text."] = None,
    address: Annotated[str | None, "Postal address of the place."] = None,
    latitude: Annotated[float | None, "Latitude in degrees north."] = None,
    longitude: Annotated[float | None, "Longitude in degrees east."] = None,
    distance_m: Annotated[float | None, "Distance in meters from the requested location."] = None,
    category: Annotated[str | None, "The type of place."] = None,
    rating: Annotated[float | None, "The average rating."] = None,
    rating_count: Annotated[int | None, "Number of ratings."] = None,
    price_level: Annotated[int | None, "Price level, from 1 (inexpensive) to 4 (very expensive)."] = None,
    phone: Annotated[str | None, "Phone number."] = None,
    website: Annotated[str | None, "The place's own website."] = None,
    opening_hours: Annotated[list[str] | None, "Opening hours as the platform writes them, one entry per line."] = None,
    verified: Annotated[bool | None, "Whether the owner has confirmed the entry."] = None,
    image_urls: Annotated[list[str] | None, "URLs of pictures."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A place."""
    return {
        "id": id,
        "url": url,
        "name": name,
        "description": description,
        "address": address,
        "latitude": latitude,
        "longitude": longitude,
        "distance_m": distance_m,
        "category": category,
        "rating": {"value": rating, "count": rating_count},
        "price_level": price_level,
        "phone": phone,
        "website": website,
        "opening_hours": opening_hours or [],
        "verified": verified,
        "image_urls": image_urls or [],
        "ext": ext or {},
    }


PLACE = Archetype("Place", "place", place, lookup_rank=16, roles=(Contract("place"),))
PLACE_LIST = Archetype(
    "PlaceList",
    "place",
    place,
    many=True,
    row_kind="item",
    roles=(Contract("place_search", "search", takes=("query",)),),
)
ARCHETYPES = (PLACE, PLACE_LIST)
