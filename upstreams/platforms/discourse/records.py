"""Map Discourse's topics, posts, users and categories to our records. URLs contain the host from the request."""

from __future__ import annotations

from typing import Any

from upstreams.model.archetypes import author, byline, comment, post
from upstreams.model.errors import NotFound
from upstreams.model.fields import any_true, joined
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import RecordMap, record_map
from upstreams.model.fields.readers import Reader, of
from upstreams.model.steps import segment

_LIKE = 2
"""The number of the action type "like" in Discourse."""
_PICTURE = "240"
"""The width of avatars in pixels."""
_HOST = read.given("host")


def _first(found: list[str]) -> str | None:
    return found[0] if found else None


def _on(host: str | None, address: str | None) -> str | None:
    """Return a URL in full, because Discourse may omit its host or its scheme."""
    if address is None or not address.startswith("/"):
        return address
    return f"https:{address}" if address.startswith("//") else f"https://{host}{address}"


def _picture(template: str | None, host: str | None) -> str | None:
    return _on(host, template and template.replace("{size}", _PICTURE))


def _profile(host: str | None, username: str | None) -> str | None:
    return username and f"https://{host}/u/{segment(username)}"


def _topic(host: str | None, slug: str | None, number: str | None) -> str | None:
    return number and f"https://{host}/t/{slug or '-'}/{number}"


def _place(topic: str | None, number: int | None) -> str | None:
    return f"{topic}/{number}" if topic and number else None


def _category(host: str | None, slug: str | None, number: str | None) -> str | None:
    return number and f"https://{host}/c/{slug or '-'}/{number}"


def _reply_count(posts: int | None) -> int | None:
    """Return the number of replies, which are all posts but the first one."""
    return posts - 1 if posts else None


def _tags(found: Any) -> list[str] | None:
    """Return the names of the tags. Discourse sends a tag as a text or as an object."""
    if not isinstance(found, list):
        return None
    names = (one.get("name") if isinstance(one, dict) else one for one in found)
    return [name for name in names if isinstance(name, str) and name]


def _likes(actions: Any) -> int | None:
    entries = actions if isinstance(actions, list) else []
    counts = (one.get("count") for one in entries if isinstance(one, dict) and one.get("id") == _LIKE)
    return next((count for count in counts if type(count) is int and count >= 0), None)


def _user(of_what: str = "id") -> RecordMap:
    """Return the map that reads an account from an object. `of_what` names the member with its id."""
    return record_map(
        byline,
        id=read.ident(of_what),
        username=read.text("username"),
        display_name=read.text("name"),
        avatar_url=of(_picture, read.text("avatar_template"), _HOST),
        url=of(_profile, _HOST, read.text("username")),
    )


def _topic_at(slug: str, number: str) -> Reader:
    return of(_topic, _HOST, read.text(slug), read.ident(number))


byline_of = _user()
found_topic_of = record_map(
    post,
    id=read.ident("id"),
    url=_topic_at("slug", "id"),
    text=read.text("title"),
    author=read.NEVER,
    comments=of(_reply_count, read.count("posts_count")),
    pinned=read.flag("pinned"),
    published_at=read.instant("created_at"),
    ext={
        "tags": of(_tags, "tags"),
        "category_id": read.ident("category_id"),
        "last_posted_at": read.instant("last_posted_at"),
        "closed": read.flag("closed"),
    },
)
"""A topic in the results of a search."""
listed_topic_of = found_topic_of.with_fields(
    author=record_map(byline, id=of(_first, read.each("posters", read.ident("user_id")))).here(),
    thumbnail_url=of(_on, _HOST, read.text("image_url")),
    views=read.count("views"),
    likes=read.count("like_count"),
)
"""A topic in a list. Its author is its first poster. The body lists accounts separately."""
topic_of = listed_topic_of.with_fields(
    text=of(joined, read.text("title"), of(_first, read.each("post_stream.posts", read.html("cooked")))),
    author=byline_of.at("details.created_by"),
)
"""A topic that was requested individually, with the text of its first post."""
_DELETED = of(any_true, read.flag("user_deleted"), read.instant("deleted_at"))
comment_of = record_map(
    comment,
    id=read.ident("id"),
    url=of(_place, _topic_at("topic_slug", "topic_id"), read.count("post_number")),
    parent_id=read.NEVER,
    post_id=read.ident("topic_id"),
    text=read.unless(_DELETED, read.html("cooked")),
    author=_user("user_id").here(unless=_DELETED),
    likes=of(_likes, "actions_summary"),
    replies_count=read.count("reply_count"),
    deleted=_DELETED,
    published_at=read.instant("created_at"),
)
"""A post in a topic. A deleted post has no text and no author.

Its parent is given only as a position in the topic.
"""
numbered_comment_of = comment_of.with_fields(parent_id=read.ident("reply_to_post_number"))
"""A post whose parent is still given as a position in the topic."""


def _unless_topic(number: str | None, place: int | None) -> str | None:
    if place == 1:
        raise NotFound("This post is the topic itself.")
    return number


def _parent_of_reply(topic: str | None, answered: str | None) -> str | None:
    """Return the id of the topic if the post replies to it.

    For another parent, only its position is known, so return None.
    """
    return topic if answered in (None, "1") else None


lone_comment_of = comment_of.with_fields(
    id=of(_unless_topic, read.ident("id"), read.count("post_number")),
    parent_id=of(_parent_of_reply, read.ident("topic_id"), read.ident("reply_to_post_number")),
)
"""A post that was requested individually."""
action_of = comment_of.with_fields(
    id=read.ident("post_id"),
    url=of(_place, _topic_at("slug", "topic_id"), read.count("post_number")),
    text=read.unless(read.flag("deleted"), read.html("excerpt")),
    author=_user("user_id").here(unless=read.flag("deleted")),
    likes=read.NEVER,
    replies_count=read.NEVER,
    deleted=read.flag("deleted"),
)
"""A reply in an account's list of actions, with an excerpt of its text."""
found_post_of = comment_of.with_fields(
    text=read.html("blurb"),
    author=byline_of.with_fields(id=read.NEVER).here(),
    likes=read.count("like_count"),
    replies_count=read.NEVER,
    deleted=read.NEVER,
)
"""A post in the results of a search, with the matching part of its text and without the account's number."""
member_of = byline_of.with_fields(author)
profile_of = byline_of.with_fields(
    author,
    bio=read.html("bio_cooked", "bio_raw"),
    posts_count=read.count("post_count"),
    private=read.flag("profile_hidden"),
    joined_at=read.instant("created_at"),
    location=read.text("location"),
    external_url=read.text("website"),
    ext={
        "last_seen_at": read.instant("last_seen_at"),
        "profile_views": read.count("profile_view_count"),
        "trust_level": read.count("trust_level"),
        "title": read.text("title"),
    },
).inside("user")
category_of = record_map(
    author,
    id=read.ident("id"),
    username=read.text("slug"),
    display_name=read.text("name"),
    avatar_url=of(_on, _HOST, read.text("uploaded_logo.url")),
    bio=read.html("description"),
    posts_count=read.count("post_count"),
    url=of(_category, _HOST, read.text("slug"), read.ident("id")),
    private=read.flag("read_restricted"),
    ext={"topic_count": read.count("topic_count")},
)
