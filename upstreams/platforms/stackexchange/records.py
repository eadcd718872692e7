"""Map Stack Exchange's JSON to our records."""

from __future__ import annotations

from html import unescape

from upstreams.model.archetypes import author, byline, comment, post
from upstreams.model.fields import joined, total_of
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import Reader, of


def _unescaped(found: str | None) -> str | None:
    return found and unescape(found)


def _escaped(name: str) -> Reader:
    """Return a reader for a text that is escaped as HTML, although it contains no markup."""
    return of(_unescaped, read.text(name))


def _sum(questions: int | None, answers: int | None) -> int | None:
    """Return the sum of questions and answers, or None if one is unknown, because a partial sum would mislead."""
    return None if questions is None or answers is None else total_of((questions, answers))


_byline_of = record_map(
    byline,
    id=read.ident("user_id"),
    display_name=_escaped("display_name"),
    avatar_url=read.text("profile_image"),
    url=read.text("link"),
)
question_of = record_map(
    post,
    id=read.ident("question_id"),
    url=read.text("link"),
    text=of(joined, _escaped("title"), read.html("body")),
    author=_byline_of.at("owner"),
    views=read.count("view_count"),
    likes=read.number("score"),
    comments=read.count("answer_count"),
    published_at=read.instant("creation_date"),
    ext={
        "tags": read.texts("tags"),
        "is_answered": read.flag("is_answered"),
        "accepted_answer_id": read.ident("accepted_answer_id"),
        "comment_count": read.count("comment_count"),
        "last_activity_date": read.instant("last_activity_date"),
    },
)
"""A question. If its author's account was deleted, it has only the author's name, or no author."""
comment_of = record_map(
    comment,
    id=read.ident("answer_id", "comment_id"),
    url=read.text("link"),
    post_id=read.ident("question_id", "post_id"),
    text=read.html("body"),
    author=_byline_of.at("owner"),
    likes=read.number("score"),
    pinned=read.flag("is_accepted"),
    published_at=read.instant("creation_date"),
)
"""An answer to a question, or a comment."""
author_of = _byline_of.with_fields(
    author,
    bio=read.html("about_me"),
    posts_count=of(_sum, read.count("question_count"), read.count("answer_count")),
    likes_count=read.number("reputation"),
    joined_at=read.instant("creation_date"),
    location=_escaped("location"),
    external_url=read.text("website_url"),
)
"""An account on one site. Its reputation is returned as likes, which is the closest field."""
