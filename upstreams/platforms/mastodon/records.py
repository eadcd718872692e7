"""Map Mastodon's entities to our records."""

from __future__ import annotations

from typing import Any

from upstreams.model.archetypes import Record, author, byline, comment, post
from upstreams.model.errors import NotFound
from upstreams.model.fields import count, joined
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import Reader, of


def _uses(history: Any) -> list[int | None]:
    """Return the uses per day, latest day first. A day without a count is None."""
    days = history if isinstance(history, list) else []
    return [count(day, "uses") if isinstance(day, dict) else None for day in days]


def _uses_today(history: Any) -> int | None:
    return next(iter(_uses(history)), None)


def _verified(links: list[bool]) -> bool | None:
    """Return whether one of a profile's links is verified, or None if it has no links."""
    return any(links) if links else None


def _unless_suspended(number: str | None, suspended: Any) -> str | None:
    if suspended is True:
        raise NotFound("This account was suspended.", reason="account_gone")
    return number


def _unless_first(number: str | None, parent: str | None) -> str | None:
    if parent is None:
        raise NotFound("This post is not a reply.")
    return number


def _line(name: str | None, value: str | None) -> str | None:
    """Return a profile field as one line of text."""
    return ": ".join([piece for piece in (name, value) if piece]) or None


def _absolute(address: Reader, origin: Reader | None = None) -> Reader:
    """Return a reader for the first absolute URL.

    Instances without a copy of a file send a path instead, such as `/missing.png`.

    Only the first character is checked, because every row has several URLs and this saves time.
    """
    whole = "{0} if {0} and {0}[0] == 'h' else "
    if origin is None:
        return read.written(whole + "None", address)
    return read.written(whole + "{1} if {1} and {1}[0] == 'h' else None", address, origin)


def _trend(*, name: str | None, url: str | None, uses: list[int | None]) -> Record:
    return locals()


_NUMBER, _CONTENT, _CREATED = read.ident("id"), read.html("content"), read.instant("created_at")
_byline_of = record_map(
    byline,
    id=_NUMBER,
    username=read.text("acct"),
    display_name=read.text("display_name"),
    avatar_url=_absolute(read.text("avatar")),
    verified=of(_verified, read.each("fields", of(bool, read.text("verified_at")))),
    url=read.text("url"),
)
author_of = _byline_of.with_fields(
    author,
    bio=read.html("note"),
    followers=read.count("followers_count"),
    following=read.count("following_count"),
    posts_count=read.count("statuses_count"),
    private=read.flag("locked"),
    joined_at=_CREATED,
    ext={
        "bot": read.flag("bot"),
        "fields": read.each("fields", of(_line, read.text("name"), read.html("value"))),
        "last_status_at": read.text("last_status_at"),  # a date without a time in most cases
    },
)
"""An account, as it occurs in any view."""
profile_of = author_of.with_fields(id=of(_unless_suspended, _NUMBER, "suspended"))
"""An account that was requested individually. For a suspended account, the server returns only an empty record."""
post_of = record_map(
    post,
    id=_NUMBER,
    url=read.text("url"),
    text=_CONTENT,
    author=_byline_of.at("account"),
    media_urls=read.each("media_attachments", _absolute(read.text("url"), read.text("remote_url"))),
    thumbnail_url=read.first("media_attachments", _absolute(read.text("preview_url"), read.text("preview_remote_url"))),
    likes=read.count("favourites_count"),
    comments=read.count("replies_count"),
    shares=read.count("reblogs_count"),
    nsfw=read.flag("sensitive"),
    published_at=_CREATED,
    ext={
        "language": read.text("language"),
        "spoiler_text": read.text("spoiler_text"),
        "tags": read.each("tags", read.text("name")),
        "reblog": read.text("reblog.url"),
        "reblog_author": read.text("reblog.account.acct"),
        "reblog_text": read.html("reblog.content"),
        "edited_at": read.instant("edited_at"),
        "quotes_count": read.count("quotes_count"),
    },
)
"""A status. The text of a boosted status is in `ext.reblog_text`."""
comment_of = record_map(
    comment,
    id=_NUMBER,
    url=read.text("url"),
    parent_id=read.ident("in_reply_to_id"),
    post_id=read.given("id"),
    text=_CONTENT,
    author=_byline_of.at("account"),
    likes=read.count("favourites_count"),
    replies_count=read.count("replies_count"),
    published_at=_CREATED,
)
reply_of = comment_of.with_fields(id=of(_unless_first, _NUMBER, read.ident("in_reply_to_id")), post_id=read.NEVER)
"""A reply that was requested individually. The post at the top of its thread is unknown."""
link_of = record_map(
    post,
    id=read.text("url"),
    url=read.text("url"),
    text=of(joined, read.html("title"), read.html("description")),
    author=record_map(
        byline, id=read.always(None), display_name=read.text("author_name"), url=read.text("author_url")
    ).here(),
    thumbnail_url=read.text("image"),
    published_at=read.instant("published_at"),
    ext={"language": read.text("language"), "provider": read.text("provider_name"), "uses": of(_uses_today, "history")},
)
"""A page to which many posts link. `uses` is the number of links on the latest day."""
trend_of = record_map(_trend, name=read.text("name"), url=read.text("url"), uses=of(_uses, "history"))
