"""Map Bluesky's views to our records: pure functions from one upstream object to one record."""

from __future__ import annotations

from typing import Any

from upstreams.model.archetypes import Record, author, byline, comment, post
from upstreams.model.fields import Json, part, parts, text
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of

_SITE = "https://bsky.app/profile"
_UNVERIFIED_HANDLE = "handle.invalid"
"""The handle of every account whose domain no longer points to it. It does not identify an account."""
_VERIFIED = {"valid": True, "invalid": False, "none": False}
_ADULT = ("porn", "sexual", "nudity", "graphic-media")


def _key(uri: str | None) -> str | None:
    """Return the record key at the end of a post's at:// URI."""
    return uri and uri.rpartition("/")[2]


def _is_adult(labels: Any) -> bool | None:
    """Whether one of a post's current labels marks it as adult. None if the view contains no labels."""
    if not isinstance(labels, list):
        return None
    for label in labels:
        if isinstance(label, dict) and label.get("val") in _ADULT and label.get("neg") is not True:
            return True
    return False


_HANDLE, _DID, _URI = read.text("handle"), read.text("did"), read.text("uri")
_NAME = read.written(f"{{1}} if {{0}} is None or {{0}} == {_UNVERIFIED_HANDLE!r} else {{0}}", _HANDLE, _DID)
_PROFILE = read.address(f"{_SITE}/{{}}", _NAME)
byline_of = record_map(
    byline,
    id=read.written("{0} and {0}.removeprefix('did:')", _DID),
    username=_HANDLE,
    display_name=read.text("displayName"),
    avatar_url=read.text("avatar"),
    verified=read.choice("verification.verifiedStatus", _VERIFIED),
    url=_PROFILE,
)
"""The account fields that every view contains."""
author_of = byline_of.with_fields(
    author,
    bio=read.text("description"),
    followers=read.count("followersCount"),
    following=read.count("followsCount"),
    posts_count=read.count("postsCount"),
    joined_at=read.instant("createdAt"),
    external_url=read.text("website"),
)
"""An account. Only a request for a single profile returns its counts and website."""
_KEY = read.written("{0} and {0}.rpartition('/')[2]", _URI)
_PAGE = read.address("{}/post/{}", _PROFILE.inside("author"), _KEY)
_FULL, _SMALL = read.text("fullsize"), read.text("thumb", "thumbnail")
post_of = record_map(
    post,
    id=_KEY,
    url=_PAGE,
    text=read.text("record.text"),
    author=byline_of.at("author"),
    media_urls=read.gathered(
        read.each("embed.media?.images", _FULL),
        read.each("embed.media?.items", _FULL),
        read.text("embed.media?.playlist"),
    ),  # a quote with media nests the quote one level deeper
    thumbnail_url=read.either(
        read.text("embed.media?.thumbnail"),
        read.first("embed.media?.images", _SMALL),
        read.first("embed.media?.items", _SMALL),
        read.text("embed.media?.external.thumb"),
    ),
    likes=read.count("likeCount"),
    comments=read.count("replyCount"),
    shares=read.total(read.count("repostCount"), read.count("quoteCount")),
    saves=read.count("bookmarkCount"),
    nsfw=of(_is_adult, "labels"),
    published_at=read.instant("record.createdAt"),
    ext={
        "uri": _URI,
        "cid": read.text("cid"),
        "language": read.first("record.langs"),
        "langs": read.texts("record.langs"),
        "indexed_at": read.instant("indexedAt"),
        "reposts": read.count("repostCount"),
        "quotes": read.count("quoteCount"),
        "link": read.text("embed.media?.external.uri"),
        "reply_to": read.text("record.reply.parent.uri"),
        "reposted_by": read.always(None),
        "reposted_at": read.always(None),
    },
)
"""A post. `shares` is the sum of its reposts and quotes. `ext` contains both counts."""
feed_post_of = post_of.inside("post").with_fields(
    pinned=read.choice("reason.$type", {"app.bsky.feed.defs#reasonPin": True}),
    ext={
        "reposted_by": read.text("reason.by.handle", "reason.by.did"),
        "reposted_at": read.instant("reason.indexedAt"),
    },
)
"""A row of an author's feed: a post, and why the feed contains it (repost or pin)."""

_reply_of = record_map(
    comment,
    id=_KEY,
    url=_PAGE,
    text=read.text("record.text"),
    author=byline_of.at("author"),
    likes=read.count("likeCount"),
    replies_count=read.count("replyCount"),
    published_at=read.instant("record.createdAt"),
)
"""A reply in a thread, without its parent and its post, which depend on its position in the thread."""


lone_reply_of = _reply_of.with_fields(
    parent_id=of(_key, read.text("record.reply.parent.uri")), post_id=of(_key, read.text("record.reply.root.uri"))
)
"""A reply that was requested individually. If the post is not a reply, `parent_id` and `post_id` are null."""


def id_of(view: Json) -> str | None:
    """Return the record key of a post."""
    return _key(text(view, "uri"))


def replies_of(replies: list[Json], parent_id: str | None, post_id: str | None, levels: int) -> list[Record]:
    """Return the replies below a node in a thread, at most `levels` deep. Replies without a URI are omitted."""
    if levels < 1:
        return []
    readable = (reply for reply in replies if part(reply, "post") or text(reply, "uri"))
    return [_comment_of(reply, parent_id, post_id, levels) for reply in readable]


def _comment_of(node: Json, parent_id: str | None, post_id: str | None, levels: int) -> Record:
    view = part(node, "post")
    if not view:  # a #notFoundPost or #blockedPost, which has only a URI
        return comment(id=id_of(node), parent_id=parent_id, post_id=post_id, deleted=True)
    replies = replies_of(parts(node, "replies"), id_of(view), post_id, levels - 1)
    return {**_reply_of(view), "parent_id": parent_id, "post_id": post_id, "replies": replies}
