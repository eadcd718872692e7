"""Public events, such as concerts and meetups."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.locations import place as place_record
from upstreams.model.archetypes.people import byline
from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, Url, nests


@nests(price="The price of a ticket.")
def event(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The event's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the event."],
    title: Annotated[str | None, "Title of the event."],
    text: Annotated[str | None, "Description of the event, as plain text."] = None,
    starts_at: Annotated[Instant, "Start of the event."] = None,
    ends_at: Annotated[Instant, "End of the event."] = None,
    is_online: Annotated[bool | None, "Whether the event takes place online."] = None,
    place: Annotated[Record | None, Of(place_record), "Where the event takes place."] = None,
    organizer: Annotated[Record | None, Of(byline), "The account that organizes the event."] = None,
    price_min: Annotated[float | None, "The lowest price, in whole units of the currency; 0 is free."] = None,
    price_max: Annotated[float | None, "The highest price, in whole units of the currency."] = None,
    currency: Annotated[str | None, "ISO 4217 code of the currency."] = None,
    ticket_url: Annotated[Url, "URL of the page that sells tickets."] = None,
    attending: Annotated[int | None, "Number of people who said that they will attend."] = None,
    interested: Annotated[int | None, "Number of people who are interested."] = None,
    image_url: Annotated[Url, "URL of the main image."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """An event that people can attend."""
    return {
        "id": id,
        "url": url,
        "title": title,
        "text": text,
        "starts_at": starts_at,
        "ends_at": ends_at,
        "is_online": is_online,
        "place": place,
        "organizer": organizer,
        "price": {"min": price_min, "max": price_max, "currency": currency},
        "ticket_url": ticket_url,
        "attending": attending,
        "interested": interested,
        "image_url": image_url,
        "ext": ext or {},
    }


EVENT = Archetype("Event", "event", event, lookup_rank=14, roles=(Contract("event"),))
EVENT_LIST = Archetype(
    "EventList",
    "event",
    event,
    many=True,
    row_kind="item",
    roles=(Contract("event_search", "search", takes=("query",)),),
)
ARCHETYPES = (EVENT, EVENT_LIST)
