"""Map podcasts to our records: rows from Apple's directory and charts, and values from feeds."""

from __future__ import annotations

from typing import Any

from upstreams.model.archetypes import byline, collection, post
from upstreams.model.fields import joined, values
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import NEVER, Reader, of

_YES = frozenset(("yes", "true", "explicit"))
_NO = frozenset(("no", "false", "clean", "cleaned", "notexplicit"))


def _as_flag(word: str | None) -> bool | None:
    """Return a boolean, which feeds and the directory spell in many ways; None if the word is unknown."""
    folded = (word or "").strip().lower()
    return True if folded in _YES else False if folded in _NO else None


def _seconds(milliseconds: int | None) -> int | None:
    return milliseconds and milliseconds // 1000


def _as_address(url: str | None) -> str | None:
    """Return the feed's URL from the request, whose canonical form lacks the scheme."""
    return url and f"https://{url}"


def _named(value: Any) -> str | None:
    """Return the text of an element, whether or not it has attributes."""
    found = value.get("text") if isinstance(value, dict) else value
    return found if isinstance(found, str) and found else None


def _known_by(known: str | None, enclosed: list[str] | None) -> str | None:
    return known or next(iter(enclosed or ()), None)


def _numbered(*elements: Any) -> int | None:
    """Return the first number in these elements."""
    return next((number for one in elements if (number := values.count(_named(one))) is not None), None)


def _by(*names: str, known_by: str = "", url: str = "") -> Reader:
    """Return the author of an item. Most sources contain only a name."""
    number, address = (read.ident(known_by) if known_by else NEVER), (read.text(url) if url else NEVER)
    return record_map(byline, id=number, display_name=read.text(*names), url=address).here()


_KIND = read.always("podcast")
_GENRES = read.each("genres", read.text("name"))
show_of = record_map(
    collection,
    id=read.ident("collectionId", "trackId"),
    url=read.text("collectionViewUrl", "trackViewUrl"),
    kind=_KIND,
    title=read.text("collectionName", "trackName"),
    owner=_by("artistName", known_by="artistId", url="artistViewUrl"),
    items_count=read.count("trackCount"),
    image_url=read.text("artworkUrl600", "artworkUrl100"),
    released_at=read.instant("releaseDate"),
    ext={
        "feed_url": read.text("feedUrl"),
        "genre": read.text("primaryGenreName"),
        "categories": read.texts("genres"),
        "explicit": of(_as_flag, read.text("collectionExplicitness")),
    },
)
"""A show in the directory. `releaseDate` is the date of its latest episode."""
found_episode_of = record_map(
    post,
    id=read.ident("trackId"),
    url=read.text("trackViewUrl"),
    text=of(joined, read.text("trackName"), read.html("description", "shortDescription")),
    author=_by("collectionName", known_by="collectionId", url="collectionViewUrl"),
    media_urls=of(lambda url: [url] if url else None, read.text("episodeUrl")),
    thumbnail_url=read.text("artworkUrl600", "artworkUrl160"),
    duration_seconds=of(_seconds, read.count("trackTimeMillis")),
    nsfw=of(_as_flag, read.text("contentAdvisoryRating")),
    published_at=read.instant("releaseDate"),
    ext={"guid": read.text("episodeGuid"), "feed_url": read.text("feedUrl"), "categories": _GENRES},
)
"""An episode in the directory. Its author is the show."""
chart_show_of = record_map(
    collection,
    id=read.ident("id"),
    url=read.text("url"),
    kind=_KIND,
    title=read.text("name"),
    owner=_by("artistName"),
    image_url=read.text("artworkUrl100"),
    released_at=read.instant("releaseDate"),
    ext={"categories": _GENRES},
)
chart_episode_of = record_map(
    post,
    id=read.ident("id"),
    url=read.text("url"),
    text=read.text("name"),
    author=_by("artistName"),
    thumbnail_url=read.text("artworkUrl100"),
    published_at=read.instant("releaseDate"),
    ext={"categories": _GENRES},
)
_ADDRESS = of(_as_address, read.given("url"))
_IS_EXPLICIT = of(_as_flag, of(_named, "extra.itunes.explicit"))
feed_of = record_map(
    collection,
    id=of(lambda guid, url: guid or url, of(_named, "extra.podcast.guid"), _ADDRESS),
    url=read.text("url"),
    kind=_KIND,
    title=read.text("title"),
    description=read.html("description"),
    owner=_by("extra.itunes.owner.name", "author"),
    image_url=read.text("image_url"),
    ext={
        "feed_url": _ADDRESS,
        "language": read.text("language"),
        "categories": read.texts("categories"),
        "explicit": _IS_EXPLICIT,
        "type": of(_named, "extra.itunes.type"),
        "complete": of(_as_flag, of(_named, "extra.itunes.complete")),
        "new_feed_url": of(_named, "extra.itunes.new-feed-url"),
        "copyright": read.text("copyright"),
        "updated_at": read.instant("updated_at", "published_at"),
    },
)
"""A show, from its feed. The owner's email address is omitted."""
_ENCLOSED = read.each("enclosures", read.text("url"))
episode_of = record_map(
    post,
    id=of(_known_by, read.text("id", "url"), _ENCLOSED),
    url=read.text("url"),
    text=of(joined, read.text("title"), read.html("html", "summary")),
    author=_by("author", url="author_url"),
    media_urls=_ENCLOSED,
    thumbnail_url=read.text("image_url"),
    duration_seconds=read.count("duration_seconds"),
    comments=read.count("comments"),
    nsfw=_IS_EXPLICIT,
    published_at=read.instant("published_at"),
    ext={
        "season": of(_numbered, "extra.itunes.season", "extra.podcast.season"),
        "episode": of(_numbered, "extra.itunes.episode", "extra.podcast.episode"),
        "episode_type": of(_named, "extra.itunes.episodeType"),
        "categories": read.texts("categories"),
        "chapters_url": read.text("extra.podcast.chapters.url"),
        "transcript_url": read.text("extra.podcast.transcript.url"),
        "comments_url": read.text("comments_url"),
        "updated_at": read.instant("updated_at"),
    },
)
"""An episode in a feed. If it has no id and no page, its audio file identifies it."""
