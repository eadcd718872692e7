"""Map Lemmy's views to our records. Lemmy 1.0 stores counts in the objects and renames some fields of 0.19."""

from __future__ import annotations

from typing import Any

from upstreams.model.archetypes import author, byline, comment, post
from upstreams.model.errors import NotFound
from upstreams.model.fields import any_true, joined
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import Reader, of


def _parent(path: str | None, post_id: str | None) -> str | None:
    """Return the id of the parent comment, or of the post if there is no parent comment.

    The path `0.12.34` contains the ids of the ancestors and of the comment itself.
    """
    above = path.split(".")[:-1] if path else []
    if not above:
        return None
    return post_id if above[-1] == "0" else above[-1]


def _unless_gone(number: str | None, deleted: Any) -> str | None:
    if deleted is True:
        raise NotFound("This account or community was deleted.", reason="account_gone")
    return number


def _counted(of_what: str, name: str) -> Reader:
    return read.count(f"counts.{name}", f"{of_what}.{name}")


def _score(of_what: str) -> Reader:
    return read.number("counts.score", f"{of_what}.score")


def _made_at(of_what: str) -> Reader:
    return read.instant(f"{of_what}.published_at", f"{of_what}.published")


_byline_of = record_map(
    byline,
    id=read.ident("id"),
    username=read.text("name"),
    display_name=read.text("display_name"),
    avatar_url=read.text("avatar"),
    url=read.text("ap_id", "actor_id"),
)
post_of = record_map(
    post,
    id=read.ident("post.id"),
    url=read.text("post.ap_id"),
    text=of(joined, read.text("post.name"), read.text("post.body")),
    author=_byline_of.at("creator"),
    thumbnail_url=read.text("post.thumbnail_url"),
    likes=_score("post"),
    comments=_counted("post", "comments"),
    pinned=read.flag("post.featured_community"),
    deleted=of(any_true, read.flag("post.deleted"), read.flag("post.removed")),
    nsfw=read.flag("post.nsfw"),
    published_at=_made_at("post"),
    ext={
        "link": read.text("post.url"),
        "upvotes": _counted("post", "upvotes"),
        "downvotes": _counted("post", "downvotes"),
        "community": read.text("community.name"),
        "community_url": read.text("community.ap_id", "community.actor_id"),
    },
)
"""A post. Its text is Markdown."""
_DELETED = of(any_true, read.flag("comment.deleted"), read.flag("comment.removed"))
comment_of = record_map(
    comment,
    id=read.ident("comment.id"),
    url=read.text("comment.ap_id"),
    parent_id=of(_parent, read.text("comment.path"), read.ident("comment.post_id")),
    post_id=read.ident("comment.post_id"),
    text=read.unless(_DELETED, read.text("comment.content")),
    author=_byline_of.at("creator", unless=_DELETED),
    likes=_score("comment"),
    replies_count=_counted("comment", "child_count"),
    deleted=_DELETED,
    published_at=_made_at("comment"),
)
"""A comment. If it was deleted or removed, it has no text and no author."""
author_of = _byline_of.inside("person").with_fields(
    author,
    bio=read.text("person.bio"),
    posts_count=_counted("person", "post_count"),
    joined_at=_made_at("person"),
    ext={
        "comment_count": _counted("person", "comment_count"),
        "bot_account": read.flag("person.bot_account"),
        "banned": of(any_true, read.flag("person.banned"), read.flag("banned")),
    },
)
community_of = record_map(
    author,
    id=read.ident("community.id"),
    username=read.text("community.name"),
    display_name=read.text("community.title"),
    avatar_url=read.text("community.icon"),
    bio=read.text("community.description"),
    followers=_counted("community", "subscribers"),
    posts_count=_counted("community", "posts"),
    url=read.text("community.ap_id", "community.actor_id"),
    joined_at=_made_at("community"),
    ext={
        "comment_count": _counted("community", "comments"),
        "active_monthly": _counted("community", "users_active_month"),
        "nsfw": read.flag("community.nsfw"),
    },
)
"""A community. Its subscribers are returned as followers."""
profile_of = author_of.inside("person_view").with_fields(
    id=of(_unless_gone, read.ident("person_view.person.id"), "person_view.person.deleted")
)
one_community_of = community_of.inside("community_view").with_fields(
    id=of(_unless_gone, read.ident("community_view.community.id"), "community_view.community.deleted")
)
one_post_of = post_of.inside("post_view")
one_comment_of = comment_of.inside("comment_view")
