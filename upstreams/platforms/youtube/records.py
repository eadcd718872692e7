"""Map resources of YouTube's API, feeds and oEmbed to our records."""

from __future__ import annotations

from typing import Any

from upstreams.content.amounts import duration
from upstreams.model.archetypes import author, byline, comment, post
from upstreams.model.fields import joined
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import Reader, of


def _watch(video_id: str | None) -> str | None:
    return video_id and f"https://www.youtube.com/watch?v={video_id}"


def _page(channel_id: str | None) -> str | None:
    return channel_id and f"https://www.youtube.com/channel/{channel_id}"


def _comment_page(video_id: str | None, comment_id: str | None) -> str | None:
    return f"https://www.youtube.com/watch?v={video_id}&lc={comment_id}" if video_id and comment_id else None


def _named(custom_url: str | None) -> str | None:
    return custom_url and custom_url.removeprefix("@")


def _unless_hidden(subscribers: int | None, hidden: Any) -> int | None:
    return None if hidden is True else subscribers


def _length(value: Any) -> int | None:
    """Return the length of a video in seconds, or None for a live or upcoming video."""
    return duration(value) or None


def _restricted(rating: Any) -> bool | None:
    """Return whether only adults may watch the video; None if the rating is missing."""
    return rating.get("ytRating") == "ytAgeRestricted" if isinstance(rating, dict) else None


def _channel_in(address: str | None) -> str | None:
    """Return the channel's id from its URL, because some feeds send the id without its first letters."""
    before, found, channel_id = (address or "").partition("/channel/")
    return channel_id if before and found and channel_id else None


def _author(id_at: str, name_at: str) -> Reader:
    channel_id = read.text(id_at)
    return record_map(byline, id=channel_id, display_name=read.text(name_at), url=of(_page, channel_id)).here()


_ID, _PUBLISHED = read.ident("id"), read.instant("snippet.publishedAt")
_PICTURE = read.text("snippet.thumbnails.high.url")
channel_of = record_map(
    author,
    id=_ID,
    username=of(_named, read.text("snippet.customUrl")),
    display_name=read.text("snippet.title"),
    avatar_url=_PICTURE,
    bio=read.text("snippet.description"),
    followers=of(_unless_hidden, read.count("statistics.subscriberCount"), "statistics.hiddenSubscriberCount"),
    posts_count=read.count("statistics.videoCount"),
    url=of(_page, _ID),
    joined_at=_PUBLISHED,
    location=read.text("snippet.country"),
    ext={"views": read.count("statistics.viewCount")},
)
channel_feed_of = record_map(
    author,
    id=of(_channel_in, read.text("url")),
    display_name=read.text("title"),
    url=read.text("url"),
    joined_at=read.instant("published_at"),
)
"""A channel, from the header of its feed."""
video_of = record_map(
    post,
    id=_ID,
    url=of(_watch, _ID),
    text=of(
        joined,
        read.text("snippet.localized.title", "snippet.title"),
        read.text("snippet.localized.description", "snippet.description"),
    ),
    author=_author("snippet.channelId", "snippet.channelTitle"),
    thumbnail_url=_PICTURE,
    duration_seconds=of(_length, "contentDetails.duration"),
    views=read.count("statistics.viewCount"),
    likes=read.count("statistics.likeCount"),
    comments=read.count("statistics.commentCount"),
    nsfw=of(_restricted, "contentDetails.contentRating"),
    published_at=_PUBLISHED,
    ext={
        "language": read.text("snippet.defaultAudioLanguage", "snippet.defaultLanguage"),
        "tags": read.texts("snippet.tags"),
        "category_id": read.ident("snippet.categoryId"),
        "live": read.text("snippet.liveBroadcastContent"),
    },
)
_ITEM_ID = read.text("contentDetails.videoId", "snippet.resourceId.videoId")
item_of = record_map(
    post,
    id=_ITEM_ID,
    url=of(_watch, _ITEM_ID),
    text=of(joined, read.text("snippet.title"), read.text("snippet.description")),
    author=_author("snippet.videoOwnerChannelId", "snippet.videoOwnerChannelTitle"),
    thumbnail_url=_PICTURE,
    published_at=read.instant("contentDetails.videoPublishedAt"),
)
"""A video in a playlist. `snippet.publishedAt` is the time when the video was added."""
_FOUND_ID = read.text("id.videoId")
found_of = record_map(
    post,
    id=_FOUND_ID,
    url=of(_watch, _FOUND_ID),
    text=of(joined, read.html("snippet.title"), read.html("snippet.description")),
    author=_author("snippet.channelId", "snippet.channelTitle"),
    thumbnail_url=_PICTURE,
    published_at=_PUBLISHED,
    ext={"live": read.text("snippet.liveBroadcastContent")},
)
"""A video in the results of a search. Its texts are HTML-escaped, and its description is shortened."""
entry_of = record_map(
    post,
    id=read.text("extra.yt.videoId"),
    url=of(_watch, read.text("extra.yt.videoId")),
    text=of(joined, read.text("title"), read.text("extra.media.group.description")),
    author=record_map(
        byline,
        id=of(_channel_in, read.text("author_url")),
        display_name=read.text("author"),
        url=read.text("author_url"),
    ).here(),
    thumbnail_url=read.text("image_url"),
    views=read.count("extra.media.group.community.statistics.views"),
    likes=read.count("extra.media.group.community.starRating.count"),
    published_at=read.instant("published_at"),
)
"""A video, from an entry of a feed."""
embed_of = record_map(
    post,
    id=read.given("url"),
    url=of(_watch, read.given("url")),
    text=read.text("title"),
    author=record_map(
        byline,
        id=of(_channel_in, read.text("author_url")),
        display_name=read.text("author_name"),
        url=read.text("author_url"),
    ).here(),
    thumbnail_url=read.text("thumbnail_url"),
)
"""A video from oEmbed."""
_VIDEO = read.text("snippet.videoId")
comment_of = record_map(
    comment,
    id=_ID,
    url=of(_comment_page, _VIDEO, _ID),
    parent_id=read.text("snippet.parentId"),
    post_id=_VIDEO,
    text=read.text("snippet.textOriginal", "snippet.textDisplay"),
    author=record_map(
        byline,
        id=read.text("snippet.authorChannelId.value"),
        display_name=read.text("snippet.authorDisplayName"),
        avatar_url=read.text("snippet.authorProfileImageUrl"),
        url=read.text("snippet.authorChannelUrl"),
    ).here(),
    likes=read.count("snippet.likeCount"),
    published_at=_PUBLISHED,
)
_TOP = "snippet.topLevelComment"
thread_of = comment_of.inside(_TOP).with_fields(
    parent_id=read.text(f"{_TOP}.snippet.videoId"),
    replies_count=read.count("snippet.totalReplyCount"),
    replies=read.each("replies.comments", comment_of.here()),
)
"""A comment with its first replies."""
