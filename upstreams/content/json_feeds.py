"""Parses JSON Feed 1.0 and 1.1 into the members that `feeds` returns for every feed."""

from __future__ import annotations

from typing import Any, Final

from upstreams.content.amounts import duration, json_at_start
from upstreams.content.dates import instant_of
from upstreams.content.feed_elements import title_of
from upstreams.model import fields
from upstreams.model.errors import UnexpectedBody
from upstreams.model.fields import values

ITEMS_MAX: Final = 10_000


def read_json_feed(words: str) -> fields.Json:
    """Return the values of a JSON Feed.

    Raises:
        UnexpectedBody: The text is not a JSON Feed.
    """
    feed = fields.obj(json_at_start(words.lstrip()))
    if "jsonfeed.org/version" not in (fields.text(feed, "version") or ""):
        raise UnexpectedBody("expected a feed, got other JSON")
    return {
        "title": fields.text(feed, "title"),
        "url": fields.text(feed, "home_page_url"),
        "feed_url": fields.text(feed, "feed_url"),
        "next_url": fields.text(feed, "next_url"),
        "description": fields.text(feed, "description"),
        "language": fields.text(feed, "language"),
        "author": next((author["name"] for author in _authors(feed)), None),
        "image_url": fields.text(feed, "icon", "favicon"),
        "copyright": None,
        "published_at": None,
        "updated_at": None,
        "categories": [],
        "total": None,
        "extra": _extra(feed),
        "items": [_item(item, feed) for item in fields.rows(feed.get("items"), ITEMS_MAX)],
    }


def _item(item: fields.Json, feed: fields.Json) -> fields.Json:
    authors = _authors(item) or _authors(feed)
    first = authors[0] if authors else {}
    enclosures = [_enclosure(one) for one in fields.parts(item, "attachments")]
    return {
        "id": fields.ident(item, "id"),
        "url": fields.text(item, "url", "external_url"),
        "title": title_of(fields.text(item, "title")),
        "summary": fields.text(item, "summary"),
        "html": fields.text(item, "content_html", "content_text"),
        "author": first.get("name"),
        "author_url": first.get("url"),
        "authors": authors,
        "published_at": instant_of(fields.text(item, "date_published")),
        "updated_at": instant_of(fields.text(item, "date_modified")),
        "image_url": fields.text(item, "image", "banner_image"),
        "categories": fields.texts(item, "tags") or [],
        "comments": None,
        "comments_url": None,
        "duration_seconds": next((s for one in enclosures if (s := one["duration_seconds"]) is not None), None),
        "enclosures": enclosures,
        "extra": _extra(item),
    }


def _authors(value: fields.Json) -> list[fields.Json]:
    several = fields.parts(value, "authors") or [fields.part(value, "author")]
    return [{"name": name, "url": fields.text(one, "url")} for one in several if (name := fields.text(one, "name"))]


def _enclosure(one: fields.Json) -> fields.Json:
    return {
        "url": fields.text(one, "url"),
        "type": fields.text(one, "mime_type"),
        "bytes": values.count(one.get("size_in_bytes")),
        "duration_seconds": duration(one.get("duration_in_seconds")),
    }


def _extra(value: fields.Json) -> dict[str, Any]:
    """Return the extensions, which are the members whose names start with an underscore."""
    return {name[1:]: told for name, told in value.items() if name.startswith("_")}
