"""Map Telegram's pages to our records: account cards, and messages in a channel's preview."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from upstreams.content.amounts import duration, short_count
from upstreams.content.selection import attribute, every, markup, page, rows, words
from upstreams.model.archetypes import author, byline, post
from upstreams.model.fields import joined
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of

_STYLE_URL = re.compile(r"url\(\s*[\"']?(https?:[^\"')\s]+)")
_EXTRA = re.compile(
    r"(?P<count>no|\d[\d\s\u00a0]*) (?P<what>subscriber|member|monthly user)s?\b(?:, (?P<online>.*) online)?"
)
_KINDS = {"subscriber": "channel", "member": "group", "monthly user": "bot"}
"""Maps Telegram's word for an account's followers to the kind of account."""
_MEMBER = re.compile(r"https?://(?:t|telegram)\.me/(\w{4,32})/?")
_EDITED = re.compile(r"(?:^|>)[^<>]*\bedited\b[^<>]*<a ")

_ACCOUNT = {"card": attribute("class", ".tgme_page"), "title": words(".tgme_page_title > span")}
_MESSAGES = rows(
    ".tgme_widget_message[data-post]",
    place=attribute("data-post"),
    text=markup(".js-message_text"),
    poll=words(".tgme_widget_message_poll_question"),
    owner_name=words(".tgme_widget_message_owner_name"),
    owner_url=attribute("href", "a.tgme_widget_message_owner_name"),
    member_name=words(".tgme_widget_message_author .tgme_widget_message_author_name"),
    member_url=attribute("href", ".tgme_widget_message_author a.tgme_widget_message_author_name"),
    author_image=attribute("src", ".tgme_widget_message_user_photo img"),
    photos=every(attribute("style"), ".tgme_widget_message_photo_wrap"),
    videos=every(
        attribute("src"),
        "video.js-message_video, video.js-message_roundvideo, audio.js-message_voice",
    ),
    previews=every(
        attribute("style"),
        ".tgme_widget_message_photo_wrap, .tgme_widget_message_video_thumb, .tgme_widget_message_roundvideo_thumb, "
        ".link_preview_image, .link_preview_right_image",
    ),
    duration=words(".js-message_video_duration, .js-message_roundvideo_duration, .js-message_voice_duration"),
    views=words(".tgme_widget_message_views"),
    reactions=every(markup(), ".tgme_reaction:not(.tgme_reaction_paid)"),
    stars=markup(".tgme_reaction_paid"),
    published_at=attribute("datetime", ".tgme_widget_message_date time[datetime]"),
    signature=words(".tgme_widget_message_from_author"),
    forwarded_from=words(".tgme_widget_message_forwarded_from_name"),
    meta=markup(".tgme_widget_message_meta"),
    document=words(".tgme_widget_message_document_title"),
    link=attribute("href", "a.tgme_widget_message_link_preview"),
    location=attribute("href", "a.tgme_widget_message_location_wrap"),
)
CARD = page(
    **_ACCOUNT,
    extras=every(words(), ".tgme_page_extra"),
    description=markup(".tgme_page_description"),
    image=attribute("src", "img.tgme_page_photo_image"),
    verified=attribute("class", ".tgme_page_title .verified-icon"),
    preview=attribute("href", "a.tgme_page_context_link"),
)
"""An account's card."""
HISTORY = page(
    **_ACCOUNT,
    history=attribute("class", ".tgme_channel_history"),
    older=attribute("data-before", ".tme_messages_more"),
    items=_MESSAGES,
)
"""A preview page of a channel, or the channel's card if it has no preview."""
WIDGET = page(**_ACCOUNT, error=words(".tgme_widget_message_error"), items=_MESSAGES)
"""A message in its embedded form."""


def _extra(extras: Any) -> dict[str, str]:
    """Return the parts of the line that states an account's counts."""
    found = (_EXTRA.fullmatch(one.strip()) for one in extras or ())
    return next((one.groupdict() for one in found if one), {})


def _has(*whats: str) -> read.Reader:
    """Return a reader for one of an account's counts, which the card does not abbreviate."""

    def count(extras: Any) -> int | None:
        found = _extra(extras)
        if found.get("what") not in whats:
            return None
        return 0 if found["count"] == "no" else short_count(found["count"])

    return of(count, "extras")


def _kind(extras: Any) -> str | None:
    return _KINDS.get(_extra(extras).get("what", ""))


def _online(extras: Any) -> int | None:
    return short_count(_extra(extras).get("online"))


def _is_present(found: Any) -> bool:
    return found is not None


def _address(*pieces: str | None) -> str | None:
    return f"https://t.me/{'/'.join(piece for piece in pieces if piece)}" if all(pieces) else None


def _channel(place: str | None) -> str | None:
    return (place or "").partition("/")[0] or None


def _username(member: str | None, url: str | None, place: str | None) -> str | None:
    """Return the name of the channel, or of the author in a group if the author's account is public."""
    if member is None:
        return _channel(place)
    found = _MEMBER.fullmatch(url or "")
    return found and found[1]


def _folded(member: str | None, url: str | None, place: str | None) -> str | None:
    """Return the author's name in lower case, which serves as the account's id."""
    name = _username(member, url, place)
    return name and name.lower()


def _page_of(member: str | None, url: str | None, owner_url: str | None) -> str | None:
    return owner_url if member is None else url


def _number(place: str | None) -> str | None:
    return (place or "").partition("/")[2] or None


def _pictures(styles: Any) -> Iterator[str]:
    return (found[1] for style in styles or () if (found := _STYLE_URL.search(style)))


def _media(styles: Any, videos: Any) -> list[str]:
    """Return the URLs of the pictures, followed by the URLs of videos and audio files."""
    return list(dict.fromkeys((*_pictures(styles), *(videos or ()))))


def _first_picture(styles: Any) -> str | None:
    return next(_pictures(styles), None)


def _reaction_count(inner: str) -> int | None:
    """Return the count in a reaction. It follows the reaction's symbol, which is markup."""
    return short_count(inner.rpartition(">")[2])


def _stars(inner: str | None) -> int | None:
    return None if inner is None else _reaction_count(inner)


def _sum(reactions: Any) -> int | None:
    """Return the sum of all reactions, or None if there are none, because the channel may have disabled them."""
    counts = [count for inner in reactions or () if (count := _reaction_count(inner)) is not None]
    return sum(counts) if counts else None


def _edited(meta: str | None) -> bool | None:
    return None if meta is None else _EDITED.search(meta) is not None


profile_of = record_map(
    author,
    id=read.given("handle"),
    username=read.given("handle"),
    display_name=read.text("title"),
    avatar_url=read.text("image"),
    bio=read.html("description"),
    verified=of(_is_present, "verified"),
    followers=_has("subscriber", "member"),
    url=of(_address, read.given("handle")),
    ext={
        "kind": of(_kind, "extras"),
        "monthly_users": _has("monthly user"),
        "online": of(_online, "extras"),
        "has_preview": of(_is_present, "preview"),
    },
)
"""An account, from its card."""
_MEMBERS = read.text("member_name"), read.text("member_url")
message_of = record_map(
    post,
    id=of(_number, read.text("place")),
    url=of(_address, read.text("place")),
    text=of(joined, read.text("poll"), read.html("text")),
    author=record_map(
        byline,
        id=of(_folded, *_MEMBERS, read.text("place")),
        username=of(_username, *_MEMBERS, read.text("place")),
        display_name=read.text("member_name", "owner_name"),
        avatar_url=read.text("author_image"),
        url=of(_page_of, *_MEMBERS, read.text("owner_url")),
    ).here(),
    media_urls=of(_media, "photos", "videos"),
    thumbnail_url=of(_first_picture, "previews"),
    duration_seconds=of(duration, "duration"),
    views=of(short_count, "views"),
    likes=of(_sum, "reactions"),
    published_at=read.instant("published_at"),
    ext={
        "stars": of(_stars, "stars"),
        "signature": read.text("signature"),
        "forwarded_from": read.text("forwarded_from"),
        "edited": of(_edited, read.text("meta")),
        "document": read.text("document"),
        "link_url": read.text("link"),
        "location_url": read.text("location"),
    },
)
"""A message in a channel, or by a member of a group."""
