"""Hacker News' JSON as our records: search hits and items of Algolia, items of Firebase, which name the same apart."""

from __future__ import annotations

from html import unescape

from upstreams.model.archetypes import Record, author, byline, comment, post
from upstreams.model.fields import Json, count, flag, ident, instant, joined, number, parts, plain, text, texts
from upstreams.model.steps import segment

_SITE = "https://news.ycombinator.com"


def _item_address(item_id: str | None) -> str | None:
    return item_id and f"{_SITE}/item?id={item_id}"


def _user_address(name: str | None) -> str | None:
    return name and f"{_SITE}/user?id={segment(name)}"


def _byline_of(item: Json) -> Record | None:
    name = text(item, "author", "by")
    return byline(id=name, username=name, url=_user_address(name)) if name else None


def _published_at(item: Json) -> str | None:
    return instant(item, "created_at", "created_at_i", "time")


def post_of(item: Json) -> Record:
    """A story, poll or job, or a comment that a search found: that one has no title, and names its story."""
    item_id = ident(item, "objectID", "id")
    return post(
        id=item_id,
        url=_item_address(item_id),
        text=joined(_title(item, "title"), plain(text(item, "story_text", "comment_text", "text"))),
        author=_byline_of(item),
        likes=number(item, "points", "score"),
        comments=count(item, "num_comments", "descendants"),
        deleted=flag(item, "deleted", "dead"),
        published_at=_published_at(item),
        ext={
            "link": text(item, "url"),
            "type": text(item, "type") or next(iter(texts(item, "_tags") or ()), None),
            "parent_id": ident(item, "parent_id", "parent"),
            "story_id": ident(item, "story_id"),
            "story_title": _title(item, "story_title"),
        },
    )


def _title(item: Json, field: str) -> str | None:
    """Titles are text with character references, not markup: `Vec<T>` is meant as it stands."""
    title = text(item, field)
    return title and unescape(title)


def comment_of(item: Json, post_id: str | None, levels: int) -> Record:
    """A comment and the replies to it, `levels` deep counting itself; without author and text it was deleted."""
    told = flag(item, "deleted", "dead")
    words, by = plain(text(item, "text", "comment_text")), _byline_of(item)
    gone = told is True or (words is None and by is None)
    comment_id = ident(item, "id", "objectID")
    return comment(
        id=comment_id,
        url=_item_address(comment_id),
        parent_id=ident(item, "parent_id", "parent"),
        post_id=ident(item, "story_id") or post_id,
        text=None if gone else words,
        author=None if gone else by,
        deleted=True if gone else told,
        published_at=_published_at(item),
        replies=[comment_of(reply, post_id, levels - 1) for reply in parts(item, "children")] if levels > 1 else [],
    )


def author_of(user: Json) -> Record:
    """An account; its karma is what comes closest to likes."""
    name = text(user, "username", "id")
    return author(
        id=name,
        username=name,
        bio=plain(text(user, "about")),
        likes_count=number(user, "karma"),
        url=_user_address(name),
        joined_at=instant(user, "created_at", "created_at_i", "created"),
    )
