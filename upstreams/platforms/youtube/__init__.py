"""YouTube: channels, videos, comments, playlists and searches, from its API with the operator's key.

Without a key, feeds provide channels and the latest videos in channels and playlists, and oEmbed provides videos.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from upstreams.model.archetypes import AUTHOR, COMMENT, COMMENT_LIST, POST, POST_LIST
from upstreams.model.budgets import Budget
from upstreams.model.calls import Get, Pages, listing, made, single
from upstreams.model.endpoint import Endpoint, Fallback, Platform, Read
from upstreams.model.fields.maps import Rows
from upstreams.model.paging import ByToken, Once
from upstreams.model.paging.many import many
from upstreams.model.params import Param
from upstreams.model.refusals import Refusals
from upstreams.platforms.youtube import reads
from upstreams.platforms.youtube.params import (
    CHANNEL_ID,
    CHANNEL_URL,
    EXTRAS,
    HANDLE,
    HASHTAG,
    HOSTS,
    KIND,
    LANGUAGE,
    PLAYLIST,
    QUERY,
    REGION,
    SORT_BY,
    UPLOADED,
    VIDEO_ID,
    VIDEO_URL,
)
from upstreams.platforms.youtube.reads import FOUND, ITEMS, ONE_CHANNEL, VIDEO_PARTS
from upstreams.platforms.youtube.records import channel_of, comment_of, thread_of, video_of
from upstreams.platforms.youtube.refusals import judge

VIDEO_IDS = Param(
    "ids",
    "Up to 50 video ids, separated by commas.",
    "D-lhorsDlUQ,hDeuSfo_Ys0",
    required=True,
    length_max=1_000,
    pattern=rf"{VIDEO_ID}(?:,{VIDEO_ID}){{0,49}}",
    problem="must be up to 50 comma-separated ids, such as D-lhorsDlUQ,hDeuSfo_Ys0",
)
ORDER = Param("order", "Sort order of the comments.", "newest", default="top", choices=("top", "newest"))
PARENT = Param(
    "continuationToken",
    "The comment's id.",
    "UgyZ1jqkHKYvi1-ruOZ4AaABAg",
    required=True,
    pattern=r"[\w.-]{6,200}",
    problem="must be a comment's id, such as UgyZ1jqkHKYvi1-ruOZ4AaABAg",
)
_COMMENT_FORMS = (rf"{HOSTS}/watch/?\?(?:[^#]*&)?lc=([\w.-]+)(?:[&#].*)?",)
COMMENT_ID = replace(PARENT, name="id", description="The comment's id, or its URL.", forms=_COMMENT_FORMS)
_KEY = ("key",)
_FEW = "Without the operator's key or quota, only the last 15 videos are returned, with fewer fields."
_COMMENTS = ByToken("pageToken", "nextPageToken", size="maxResults", size_max=100)


def _quota_fallback(read: Read) -> tuple[Fallback, ...]:
    """Return the fallback for a node whose key may run out of quota. A node without a key uses `read` directly."""
    return (Fallback(source="web", read=read, needs=_KEY),)


def _of_channel(*, resource: str, summary: str, sort: Param, letters: tuple[str, str]) -> Endpoint:
    """Return an endpoint for a list of a channel's videos."""
    params = (CHANNEL_ID, HANDLE, CHANNEL_URL, sort, *([EXTRAS] if resource == "channel/videos" else []))
    read, fed = partial(reads.of_channel, *letters), partial(reads.fed_of_channel, *letters)
    return _videos(
        resource=resource, summary=summary, read=read, params=(*params, *ITEMS.params()), one_of=ONE_CHANNEL, fed=fed
    )


def _videos(
    *,
    resource: str,
    summary: str,
    read: Read,
    params: tuple[Param, ...] = (),
    one_of: tuple[tuple[str, ...], ...] = (),
    needs: tuple[str, ...] = (),
    fed: Read | None = None,
) -> Endpoint:
    """Return an endpoint for a list of videos with all their data. `fed` reads the list from a feed instead."""
    return Endpoint(
        resource=resource,
        summary=summary,
        archetype=POST_LIST,
        read=read,
        params=params,
        one_of=one_of,
        needs=needs,
        description=_FEW if fed else "",
        fallbacks=_quota_fallback(fed) if fed else (),
        record=video_of,
        never=() if fed else ("total",),
        role="profile_posts" if resource == "channel/videos" else None,
    )


def _spelled(known: dict[str, str]) -> Callable[[str | None], str | None]:
    return lambda choice: known.get(choice or "")


_COMMENT_CALL = partial(Get, "/comments", part="snippet", textFormat="plainText")


PLATFORM = Platform(
    slug="youtube",
    title="YouTube",
    category="video",
    docs_url="https://developers.google.com/youtube/v3/docs",
    terms_url="https://developers.google.com/youtube/terms/api-services-terms-of-service",
    checked_on="2026-11-23",
    hosts=("youtube.com", "youtube-nocookie.com", "youtu.be"),
    sources={
        "api": "https://www.googleapis.com/youtube/v3",
        "search": "https://www.googleapis.com/youtube/v3",  # searches have a separate quota
        "web": "https://www.youtube.com",
    },
    social=True,
    headers=lambda known: (("x-goog-api-key", known["key"]),) if "key" in known else (),
    refusals=Refusals(other=judge),
    pace=Budget(10_000, resets="America/Los_Angeles", costs={"/search": 100}, sources=("api", "search")),
    endpoints=(
        Endpoint(
            resource="channel",
            summary="One channel.",
            archetype=AUTHOR,
            read=reads.channel,
            params=(CHANNEL_ID, HANDLE, CHANNEL_URL),
            one_of=ONE_CHANNEL,
            description="Without the operator's key or quota, only id, name, URL and age are known.",
            fallbacks=_quota_fallback(reads.fed_channel),
            record=channel_of,
            role="profile",
            many=reads.CHANNELS,
        ),
        _of_channel(
            resource="channel/videos",
            summary="A channel's videos, newest first.",
            sort=Param(
                "sort",
                "Sort order: newest first, or most viewed full-length videos first.",
                "popular",
                default="latest",
                choices=("latest", "popular"),
            ),
            letters=("UU", "UULP"),
        ),
        _of_channel(
            resource="channel/shorts",
            summary="A channel's shorts, newest first.",
            sort=Param("sort", "Sort order of the shorts.", "popular", default="newest", choices=("newest", "popular")),
            letters=("UUSH", "UUPS"),
        ),
        Endpoint(
            resource="video",
            summary="One video.",
            archetype=POST,
            read=reads.video,
            params=(VIDEO_URL, LANGUAGE),
            description="Without the operator's key or quota, only title, channel and picture are known.",
            fallbacks=_quota_fallback(reads.embedded),
            record=video_of,
            many=reads.VIDEOS,
        ),
        listing(
            resource="videos",
            summary="Up to 50 videos by id.",
            archetype=POST_LIST,
            call=Get("/videos", part=VIDEO_PARTS, id=VIDEO_IDS),
            pages=Pages(video_of, Once(size="", size_max=50), at="items"),
            needs=_KEY,
        ),
        listing(
            resource="video/comments",
            summary="Comments on a video, each with its first replies.",
            archetype=COMMENT_LIST,
            call=Get(
                "/commentThreads",
                part="snippet,replies",
                textFormat="plainText",
                videoId=VIDEO_URL,
                order=made(_spelled({"top": "relevance", "newest": "time"}), ORDER),
            ),
            pages=Pages(thread_of, _COMMENTS, at="items"),
            needs=_KEY,
        ),
        single(
            resource="video/comment",
            summary="One comment on a video.",
            archetype=COMMENT,
            call=_COMMENT_CALL(id=COMMENT_ID),
            record=comment_of,
            at="items[0]",
            needs=_KEY,
            many=many(COMMENT_ID, 50, _COMMENT_CALL(maxResults=50), Rows(comment_of, "items"), needs=_KEY),
        ),
        listing(
            resource="video/comment/replies",
            summary="Replies to a comment.",
            archetype=COMMENT_LIST,
            call=_COMMENT_CALL(parentId=PARENT),
            pages=Pages(comment_of, _COMMENTS, at="items"),
            needs=_KEY,
        ),
        _videos(
            resource="playlist",
            summary="Videos in a playlist.",
            read=reads.playlist,
            params=(PLAYLIST, *ITEMS.params()),
            fed=reads.fed_playlist,
        ),
        _videos(
            resource="search",
            summary="Search for videos.",
            read=reads.search,
            params=(QUERY, UPLOADED, SORT_BY, REGION, EXTRAS, *FOUND.params()),
            needs=_KEY,
        ),
        _videos(
            resource="search/hashtag",
            summary="Videos with a hashtag.",
            read=reads.hashtag,
            params=(HASHTAG, KIND, *FOUND.params()),
            needs=_KEY,
        ),
        listing(
            resource="trending",
            summary="The most watched videos in a country now.",
            archetype=POST_LIST,
            call=Get("/videos", part=VIDEO_PARTS, chart="mostPopular", regionCode=REGION),
            pages=Pages(video_of, ITEMS, at="items"),
            needs=_KEY,
        ),
    ),
)
