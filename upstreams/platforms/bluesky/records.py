"""Bluesky's views as our records: pure functions from one upstream object to one record."""

from __future__ import annotations

from typing import Any

from upstreams.model import readers as read
from upstreams.model.archetypes import Record, author, byline, comment, post
from upstreams.model.fields import Json, count, instant, part, parts, text, total_of
from upstreams.model.maps import record_map
from upstreams.model.readers import of

_SITE = "https://bsky.app/profile"
_UNVERIFIED_HANDLE = "handle.invalid"
"""The text in place of a handle whose domain no longer points to the account: it names nobody."""
_VERIFIED = {"valid": True, "invalid": False, "none": False}
_ADULT = frozenset(("porn", "sexual", "nudity", "graphic-media"))


def _number_of(did: str | None) -> str | None:
    return did and did.removeprefix("did:")


def _address(handle: str | None, did: str | None) -> str | None:
    name = handle if handle != _UNVERIFIED_HANDLE else None
    name = name or did
    return f"{_SITE}/{name}" if name else None


def _verified(status: str | None) -> bool | None:
    """Whether an account is verified; a status that is new to us tells nothing."""
    return _VERIFIED.get(status or "")


def _key(uri: str | None) -> str | None:
    """The record key at the end of a post's at:// URI."""
    return uri and uri.rpartition("/")[2]


def _post_address(handle: str | None, did: str | None, uri: str | None) -> str | None:
    account, key = _address(handle, did), _key(uri)
    return f"{account}/post/{key}" if account and key else None


def _media(embed: Json) -> Json:
    """The part of an embed that shows something: a quote with media holds it one level down."""
    return part(embed, "media") or embed


def _media_urls(embed: Any) -> list[str]:
    """The addresses of images and video."""
    if not isinstance(embed, dict):
        return []
    media = _media(embed)
    addresses = (*(text(picture, "fullsize") for picture in _pictures(media)), text(media, "playlist"))
    return [address for address in addresses if address]


def _preview(embed: Any) -> str | None:
    if not isinstance(embed, dict):
        return None
    media = _media(embed)
    first = [text(picture, "thumb", "thumbnail") for picture in _pictures(media)[:1]]
    return next(filter(None, (text(media, "thumbnail"), *first, text(part(media, "external"), "thumb"))), None)


def _pictures(media: Json) -> list[Json]:
    return [*parts(media, "images"), *parts(media, "items")]


def _link(embed: Any) -> str | None:
    return text(part(_media(embed), "external"), "uri") if isinstance(embed, dict) else None


def _is_adult(labels: Any) -> bool | None:
    """Whether a label that still holds marks the post; None when the view carries no labels at all."""
    if not isinstance(labels, list):
        return None
    held = (label for label in labels if isinstance(label, dict) and label.get("neg") is not True)
    return any(isinstance(value := label.get("val"), str) and value in _ADULT for label in held)


def _total(*counts: int | None) -> int | None:
    return total_of(counts)


def _first(entries: list[str] | None) -> str | None:
    return entries[0] if entries else None


def _is_pinned(kind: str | None) -> bool | None:
    return True if kind == "app.bsky.feed.defs#reasonPin" else None


_HANDLE, _DID, _URI = read.text("handle"), read.text("did"), read.text("uri")
byline_of = record_map(
    byline,
    id=of(_number_of, _DID),
    username=_HANDLE,
    display_name=read.text("displayName"),
    avatar_url=read.text("avatar"),
    verified=of(_verified, read.text("verification.verifiedStatus")),
    url=of(_address, _HANDLE, _DID),
)
"""The fields that an account has wherever it is named."""
author_of = byline_of.with_fields(
    author,
    bio=read.text("description"),
    followers=read.count("followersCount"),
    following=read.count("followsCount"),
    posts_count=read.count("postsCount"),
    joined_at=read.instant("createdAt"),
    external_url=read.text("website"),
)
"""An account; only the call for one profile carries its counts and website."""
post_of = record_map(
    post,
    id=of(_key, _URI),
    url=of(_post_address, read.text("author.handle"), read.text("author.did"), _URI),
    text=read.text("record.text"),
    author=byline_of.at("author"),
    media_urls=of(_media_urls, "embed"),
    thumbnail_url=of(_preview, "embed"),
    likes=read.count("likeCount"),
    comments=read.count("replyCount"),
    shares=of(_total, read.count("repostCount"), read.count("quoteCount")),
    saves=read.count("bookmarkCount"),
    nsfw=of(_is_adult, "labels"),
    published_at=read.instant("record.createdAt"),
    ext={
        "uri": _URI,
        "cid": read.text("cid"),
        "language": of(_first, read.texts("record.langs")),
        "langs": read.texts("record.langs"),
        "indexed_at": read.instant("indexedAt"),
        "reposts": read.count("repostCount"),
        "quotes": read.count("quoteCount"),
        "link": of(_link, "embed"),
        "reply_to": read.text("record.reply.parent.uri"),
        "reposted_by": read.always(None),
        "reposted_at": read.always(None),
    },
)
"""A post; `shares` counts reposts and quotes, whose parts are in `ext`."""
feed_post_of = post_of.inside("post").with_fields(
    pinned=of(_is_pinned, read.text("reason.$type")),
    ext={
        "reposted_by": read.text("reason.by.handle", "reason.by.did"),
        "reposted_at": read.instant("reason.indexedAt"),
    },
)
"""A row of an author's feed: a post and why it is there, as a repost or pinned to the top."""


def id_of(view: Json) -> str | None:
    """The record key of a post."""
    return _key(text(view, "uri"))


def replies_of(replies: list[Json], parent_id: str | None, post_id: str | None, levels: int) -> list[Record]:
    """The replies below a node of a thread, at most `levels` deep; one that is not even named tells of nothing."""
    if levels < 1:
        return []
    told = (reply for reply in replies if part(reply, "post") or text(reply, "uri"))
    return [_comment_of(reply, parent_id, post_id, levels) for reply in told]


def _comment_of(node: Json, parent_id: str | None, post_id: str | None, levels: int) -> Record:
    view = part(node, "post")
    if not view:  # a #notFoundPost or #blockedPost: of either only the URI is left
        return comment(id=id_of(node), parent_id=parent_id, post_id=post_id, deleted=True)
    return comment(
        id=id_of(view),
        url=_post_address(text(part(view, "author"), "handle"), text(part(view, "author"), "did"), text(view, "uri")),
        parent_id=parent_id,
        post_id=post_id,
        text=text(part(view, "record"), "text"),
        author=byline_of(part(view, "author")) if part(view, "author") else None,
        likes=count(view, "likeCount"),
        replies_count=count(view, "replyCount"),
        published_at=instant(part(view, "record"), "createdAt"),
        replies=replies_of(parts(node, "replies"), id_of(view), post_id, levels - 1),
    )
