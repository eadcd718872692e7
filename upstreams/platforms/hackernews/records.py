"""Map Hacker News' JSON to our records: Algolia's hits and items, and Firebase's items, whose fields differ."""

from __future__ import annotations

from html import unescape

from upstreams.model.archetypes import Record, author, byline, comment, post
from upstreams.model.fields import Json, flag, ident, instant, joined, parts, plain, text
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of
from upstreams.model.steps import segment

_SITE = "https://news.ycombinator.com"


def _item_address(item_id: str | None) -> str | None:
    return item_id and f"{_SITE}/item?id={item_id}"


def _user_address(name: str | None) -> str | None:
    return name and f"{_SITE}/user?id={segment(name)}"


def _either(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001 - two flags of an item
    return one if one or other is None else other


def _title(title: str | None) -> str | None:
    """Return a title as plain text. Titles contain character references but no markup, so `Vec<T>` stays unchanged."""
    return title and unescape(title)


_NAME = read.text("author", "by")
_PUBLISHED_AT = read.instant("created_at", "created_at_i", "time")
_byline_of = record_map(byline, id=_NAME, username=_NAME, url=of(_user_address, _NAME))
_ITEM_ID = read.ident("objectID", "id")
post_of = record_map(
    post,
    id=_ITEM_ID,
    url=read.address(f"{_SITE}/item?id={{}}", _ITEM_ID),
    text=of(joined, of(_title, read.text("title")), read.html("story_text", "comment_text", "text")),
    author=_byline_of.here(),
    likes=read.number("points", "score"),
    comments=read.count("num_comments", "descendants"),
    deleted=of(_either, read.flag("deleted"), read.flag("dead")),
    published_at=_PUBLISHED_AT,
    ext={
        "link": read.text("url"),
        "type": read.either(read.text("type"), read.first("_tags")),
        "parent_id": read.ident("parent_id", "parent"),
        "story_id": read.ident("story_id"),
        "story_title": of(_title, read.text("story_title")),
    },
)
"""A story, a poll or a job. It may also be a comment in a search, whose title is its story's title."""


def comment_of(item: Json, post_id: str | None, levels: int) -> Record:
    """Return a comment and its replies, at most `levels` deep, counting itself.

    A comment without author and text counts as deleted.
    """
    is_marked = flag(item, "deleted", "dead")
    words, by = plain(text(item, "text", "comment_text")), _byline_of(item) if text(item, "author", "by") else None
    gone = is_marked is True or (words is None and by is None)
    comment_id = ident(item, "id", "objectID")
    return comment(
        id=comment_id,
        url=_item_address(comment_id),
        parent_id=ident(item, "parent_id", "parent"),
        post_id=ident(item, "story_id") or post_id,
        text=None if gone else words,
        author=None if gone else by,
        deleted=True if gone else is_marked,
        published_at=instant(item, "created_at", "created_at_i", "time"),
        replies=[comment_of(reply, post_id, levels - 1) for reply in parts(item, "children")] if levels > 1 else [],
    )


_USER_NAME = read.text("username", "id")
author_of = record_map(
    author,
    id=_USER_NAME,
    username=_USER_NAME,
    bio=read.html("about"),
    likes_count=read.number("karma"),
    url=of(_user_address, _USER_NAME),
    joined_at=read.instant("created_at", "created_at_i", "created"),
)
"""An account. Its karma is returned as likes, which is the closest field."""
