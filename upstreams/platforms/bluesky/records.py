"""Bluesky's views as our records: pure functions from one upstream object to one record."""

from __future__ import annotations

from upstreams.model.archetypes import Record, author, byline, comment, post
from upstreams.model.fields import Json, count, instant, part, parts, text, texts, total_of

_SITE = "https://bsky.app/profile"
_UNVERIFIED_HANDLE = "handle.invalid"
"""The text in place of a handle whose domain no longer points to the account: it names nobody."""
_VERIFIED = {"valid": True, "invalid": False, "none": False}
_ADULT = frozenset(("porn", "sexual", "nudity", "graphic-media"))


def _address(actor: Json) -> str | None:
    handle = text(actor, "handle")
    name = handle if handle != _UNVERIFIED_HANDLE else None
    name = name or text(actor, "did")
    return f"{_SITE}/{name}" if name else None


def _verified(actor: Json) -> bool | None:
    """Whether an account is verified; a status that is new to us tells nothing."""
    return _VERIFIED.get(text(part(actor, "verification"), "verifiedStatus") or "")


def _identity(actor: Json) -> Record:
    """The fields that an account has wherever it is named."""
    did = text(actor, "did")
    return {
        "id": did and did.removeprefix("did:"),
        "username": text(actor, "handle"),
        "display_name": text(actor, "displayName"),
        "avatar_url": text(actor, "avatar"),
        "verified": _verified(actor),
        "url": _address(actor),
    }


def author_of(actor: Json) -> Record:
    """An account; only the call for one profile carries its counts and website."""
    return author(
        **_identity(actor),
        bio=text(actor, "description"),
        followers=count(actor, "followersCount"),
        following=count(actor, "followsCount"),
        posts_count=count(actor, "postsCount"),
        joined_at=instant(actor, "createdAt"),
        external_url=text(actor, "website"),
    )


def _byline_of(actor: Json) -> Record | None:
    return byline(**_identity(actor)) if actor else None


def id_of(view: Json) -> str | None:
    """The record key at the end of a post's at:// URI."""
    uri = text(view, "uri")
    return uri and uri.rpartition("/")[2]


def _post_address(view: Json) -> str | None:
    account, key = _address(part(view, "author")), id_of(view)
    return f"{account}/post/{key}" if account and key else None


def _media_of(embed: Json) -> tuple[list[str], str | None]:
    """The addresses of images and video, and the one that previews them; a quote with media holds it one level down."""
    if not embed:
        return [], None
    media = part(embed, "media") or embed
    pictures = [*parts(media, "images"), *parts(media, "items")]
    addresses = (*(text(picture, "fullsize") for picture in pictures), text(media, "playlist"))
    previews = (
        text(media, "thumbnail"),
        *(text(picture, "thumb", "thumbnail") for picture in pictures[:1]),
        text(part(media, "external"), "thumb"),
    )
    return [address for address in addresses if address], next(filter(None, previews), None)


def _link_of(embed: Json) -> str | None:
    return text(part(part(embed, "media") or embed, "external"), "uri")


def _adult(view: Json) -> bool | None:
    """Whether a label that still holds marks the post; None when the view carries no labels at all."""
    if not isinstance(view.get("labels"), list):
        return None
    return any(label.get("val") in _ADULT and label.get("neg") is not True for label in parts(view, "labels"))


def feed_post_of(row: Json) -> Record:
    """A row of an author's feed: a post and why it is there, as a repost or pinned to the top."""
    return post_of(part(row, "post"), part(row, "reason"))


def post_of(view: Json, reason: Json | None = None) -> Record:
    """A post; `shares` counts reposts and quotes, whose parts are in `ext`."""
    record, embed, why = part(view, "record"), part(view, "embed"), reason or {}
    reposts, quotes, langs = count(view, "repostCount"), count(view, "quoteCount"), texts(record, "langs")
    media_urls, thumbnail_url = _media_of(embed)
    return post(
        id=id_of(view),
        url=_post_address(view),
        text=text(record, "text"),
        author=_byline_of(part(view, "author")),
        media_urls=media_urls,
        thumbnail_url=thumbnail_url,
        likes=count(view, "likeCount"),
        comments=count(view, "replyCount"),
        shares=total_of((reposts, quotes)),
        saves=count(view, "bookmarkCount"),
        pinned=True if text(why, "$type") == "app.bsky.feed.defs#reasonPin" else None,
        nsfw=_adult(view),
        published_at=instant(record, "createdAt"),
        ext={
            "uri": text(view, "uri"),
            "cid": text(view, "cid"),
            "language": langs[0] if langs else None,
            "langs": langs,
            "indexed_at": instant(view, "indexedAt"),
            "reposts": reposts,
            "quotes": quotes,
            "link": _link_of(embed),
            "reply_to": text(part(part(record, "reply"), "parent"), "uri"),
            "reposted_by": text(part(why, "by"), "handle", "did"),
            "reposted_at": instant(why, "indexedAt"),
        },
    )


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
        url=_post_address(view),
        parent_id=parent_id,
        post_id=post_id,
        text=text(part(view, "record"), "text"),
        author=_byline_of(part(view, "author")),
        likes=count(view, "likeCount"),
        replies_count=count(view, "replyCount"),
        published_at=instant(part(view, "record"), "createdAt"),
        replies=replies_of(parts(node, "replies"), id_of(view), post_id, levels - 1),
    )
