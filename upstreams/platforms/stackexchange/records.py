"""Stack Exchange's JSON as our records: pure functions from one upstream object to one record."""

from __future__ import annotations

from html import unescape

from upstreams.model.archetypes import Record, author, byline, comment, post
from upstreams.model.fields import Json, count, flag, ident, instant, joined, number, part, plain, text, texts, total_of


def _unescaped(item: Json, name: str) -> str | None:
    """A text whose characters are escaped as in HTML, though there is no markup in it."""
    found = text(item, name)
    return found and unescape(found)


def _byline_of(item: Json) -> Record | None:
    """The owner; of a deleted account a name is left, or nothing."""
    owner = part(item, "owner")
    if not owner:
        return None
    return byline(
        id=ident(owner, "user_id"),
        display_name=_unescaped(owner, "display_name"),
        avatar_url=text(owner, "profile_image"),
        url=text(owner, "link"),
    )


def question_of(item: Json) -> Record:
    """A question."""
    return post(
        id=ident(item, "question_id"),
        url=text(item, "link"),
        text=joined(_unescaped(item, "title"), plain(text(item, "body"))),
        author=_byline_of(item),
        views=count(item, "view_count"),
        likes=number(item, "score"),
        comments=count(item, "answer_count"),
        published_at=instant(item, "creation_date"),
        ext={
            "tags": texts(item, "tags"),
            "is_answered": flag(item, "is_answered"),
            "accepted_answer_id": ident(item, "accepted_answer_id"),
            "comment_count": count(item, "comment_count"),
            "last_activity_date": instant(item, "last_activity_date"),
        },
    )


def comment_of(item: Json) -> Record:
    """An answer to a question, or a comment."""
    return comment(
        id=ident(item, "answer_id", "comment_id"),
        url=text(item, "link"),
        post_id=ident(item, "question_id", "post_id"),
        text=plain(text(item, "body")),
        author=_byline_of(item),
        likes=number(item, "score"),
        pinned=flag(item, "is_accepted"),
        published_at=instant(item, "creation_date"),
    )


def author_of(user: Json) -> Record:
    """An account on one site; its reputation is what comes closest to likes."""
    return author(
        id=ident(user, "user_id"),
        display_name=_unescaped(user, "display_name"),
        avatar_url=text(user, "profile_image"),
        bio=plain(text(user, "about_me")),
        posts_count=_posts_of(user),
        likes_count=number(user, "reputation"),
        url=text(user, "link"),
        joined_at=instant(user, "creation_date"),
        location=_unescaped(user, "location"),
        external_url=text(user, "website_url"),
    )


def _posts_of(user: Json) -> int | None:
    """Questions and answers together; one of the two alone would pass for both."""
    told = count(user, "question_count"), count(user, "answer_count")
    return None if None in told else total_of(told)
