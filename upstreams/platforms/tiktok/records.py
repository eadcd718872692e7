"""The fields of TikTok's accounts and videos. Accounts have one form on the web and another one in the app.

Large numbers are rounded wherever they are numbers, so ids are read only from texts. The `url` and `create_time_utc` of
a video may belong to another video, so URLs are built, and times are read from `create_time`.
"""

from __future__ import annotations

from typing import Any

from upstreams.model.archetypes import author, byline, post
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of


def _seconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else round(milliseconds / 1000)


def _is_one(number: int | None) -> bool | None:
    return None if number is None else number == 1


def _is_verified(words: Any) -> bool | None:
    """Return whether the app shows a text next to the name, such as "Verified account"."""
    return bool(words) if isinstance(words, str) else None


_PAGE = "https://www.tiktok.com/@{}"
_byline_of = record_map(
    byline,
    id=read.ident("uid"),
    username=read.text("unique_id"),
    display_name=read.text("nickname"),
    avatar_url=read.first("avatar_larger.url_list"),
    verified=of(_is_verified, "custom_verify"),
    url=read.address(_PAGE, read.text("unique_id")),
)
author_of = record_map(
    author,
    id=read.ident("user.id"),
    username=read.text("user.uniqueId"),
    display_name=read.text("user.nickname"),
    avatar_url=read.text("user.avatarLarger"),
    bio=read.text("user.signature"),
    verified=read.flag("user.verified"),
    followers=read.count("stats.followerCount"),
    following=read.count("stats.followingCount"),
    posts_count=read.count("stats.videoCount"),
    likes_count=read.count("stats.heartCount"),
    url=read.address(_PAGE, read.text("user.uniqueId")),
    private=read.flag("user.privateAccount"),
    joined_at=read.instant("user.createTime"),
    external_url=read.text("user.bioLink.link"),
    ext={"sec_uid": read.text("user.secUid")},
)
video_of = record_map(
    post,
    id=read.ident("aweme_id"),
    url=read.address("https://www.tiktok.com/@{}/video/{}", read.text("author.unique_id"), read.ident("aweme_id")),
    text=read.text("desc"),
    author=_byline_of.at("author"),
    thumbnail_url=read.first("video.cover.url_list"),
    duration_seconds=of(_seconds, read.count("video.duration")),
    views=read.count("statistics.play_count"),
    likes=read.count("statistics.digg_count"),
    comments=read.count("statistics.comment_count"),
    shares=read.count("statistics.share_count"),
    saves=read.count("statistics.collect_count"),
    pinned=of(_is_one, read.number("is_top")),
    deleted=read.flag("status.is_delete"),
    published_at=read.instant("create_time"),
    ext={"language": read.text("desc_language"), "region": read.text("region"), "music_id": read.ident("music.id_str")},
)
