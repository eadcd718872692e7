"""Map Wikipedia's JSON to our records. Lists contain only titles, from which we build the URLs."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from upstreams.model.archetypes import article, place, point, ranked
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of


def address(lang: str | None, title: str | None) -> str | None:
    """Return the URL of a page."""
    if not lang or not title:
        return None
    return f"https://{lang}.wikipedia.org/wiki/{quote(title.replace(' ', '_'), safe='/:(),!*;@$~')}"


def _instant(written: str | None) -> str | None:
    """Return a time as ISO 8601, given ten digits from the year to the hour."""
    try:
        return f"{datetime.strptime(f'{written}+0000', '%Y%m%d%H%z'):%Y-%m-%dT%H:%M:%SZ}"
    except ValueError:
        return None


_LANG, _TITLE = read.given("lang"), read.text("title")
page_of = record_map(
    article,
    id=read.ident("pageid"),
    url=read.text("content_urls.desktop.page"),
    title=_TITLE,
    text=read.text("extract"),
    description=read.text("description"),
    image_url=read.text("originalimage.source", "thumbnail.source"),
    language=read.text("lang"),
    updated_at=read.instant("timestamp"),
    ext={"type": read.text("type"), "wikibase_item": read.text("wikibase_item"), "revision": read.ident("revision")},
)
"""The summary of a page."""
listed_of = record_map(
    article,
    id=read.ident("pageid", "id"),
    url=of(address, _LANG, _TITLE),
    title=_TITLE,
    text=read.always(None),
    language=_LANG,
    ext={"namespace": read.number("ns"), "kind": read.text("type")},
)
"""A page in a list, which contains little more than the title."""
linked_of = record_map(
    article, id=read.always(None), url=of(address, _LANG, _TITLE), title=_TITLE, text=read.always(None), language=_LANG,
    ext={"namespace": read.number("ns")},
)  # fmt: skip
"""A page that another page links to. It may not exist."""
translated_of = record_map(
    article, id=read.always(None), url=read.text("url"), title=read.text("*"), text=read.always(None),
    language=read.text("lang"), ext={"language_name": read.text("langname")},
)  # fmt: skip
"""The same page in another language."""
found_of = listed_of.with_fields(
    id=read.ident("pageid"),
    description=read.html("snippet"),
    updated_at=read.instant("timestamp"),
    ext={"kind": read.always(None), "size": read.count("size"), "wordcount": read.count("wordcount")},
)
"""A page from a search. Its description is the matching part of its text."""
place_of = record_map(
    place,
    id=read.ident("pageid"),
    url=of(address, _LANG, _TITLE),
    name=_TITLE,
    latitude=read.fraction("lat"),
    longitude=read.fraction("lon"),
    distance_m=read.fraction("dist"),
)
"""A page about a place."""
point_of = record_map(point, t=of(_instant, read.text("timestamp")), value=read.count("views"))
"""The views on a day or in a month."""
ranked_of = record_map(
    ranked,
    rank=read.count("rank"),
    name=of(lambda title: title and title.replace("_", " "), read.text("article")),
    url=of(address, _LANG, read.text("article")),
    value=read.count("views"),
)
"""One of the most viewed pages."""
