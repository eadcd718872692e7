"""YouTube's recordings as cases, compared with a table of the fields, and handmade bodies.

These recordings belong to no endpoint: `innertube_*` and `transcript_*` (the site's own interface), `supplier_*`,
`v3_captions_*`, `v3_subscriptions_empty.json`, `v3_playlists__unknown_empty.json`,
`v3_error__403_subscriptionForbidden.json` and `v3_error_permission.json`. Of `oembed/*`, only YouTube's are used.
`test_traps.py` reads the rows of
`v3_channels__multi.json`, `v3_commentThreads__channel*`, `v3_search__*token.json` and the error of
`v3_error__400_missing_filter.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, rows, table, utc
from upstreams.content import FEED
from upstreams.model.archetypes import author, byline, comment, post
from upstreams.model.errors import NotFound, UpstreamThrottled

_API, _FEED, _OEMBED = "www.googleapis.com/youtube/v3", "www.youtube.com/feeds/videos.xml", "www.youtube.com/oembed"
_KEY = {"key": "k3y"}
_WATCH, _CHANNEL = "https://www.youtube.com/watch?v=", "https://www.youtube.com/channel/"


def behind(begin: str, path: str) -> Any:
    """Return the text that follows a URL prefix."""
    return lambda row: None if at(row, path) is None else begin + at(row, path)


def whole(path: str) -> Any:
    """Return a number that is sent as text."""
    return lambda row: None if at(row, path) is None else int(at(row, path))


def seconds(row: Json) -> int | None:
    """Return the seconds of a duration such as `PT1H2M3S`."""
    left, total = (at(row, "contentDetails.duration") or "").removeprefix("PT"), 0
    for unit, worth in (("H", 3_600), ("M", 60), ("S", 1)):
        number, found, rest = left.partition(unit)
        total, left = (total + int(number) * worth, rest) if found else (total, left)
    return total if at(row, "contentDetails.duration") else None


def texts(*paths: str, read: Callable[[str], str] = str) -> Any:
    """Join texts with a blank line between them."""
    return lambda row: "\n\n".join(read(found) for path in paths if (found := at(row, path))) or None


def named(id_at: str, name_at: str) -> Any:
    """Return the channel that a row names."""
    read = table(byline, id=id_at, display_name=name_at, url=behind(_CHANNEL, id_at))
    return lambda row: read(row) if at(row, id_at) or at(row, name_at) else None


CHANNEL = table(
    author,
    id="id",
    username=lambda row: (at(row, "snippet.customUrl") or "").lstrip("@") or None,
    display_name="snippet.title",
    avatar_url="snippet.thumbnails.high.url",
    bio="snippet.description",
    followers=whole("statistics.subscriberCount"),
    posts_count=whole("statistics.videoCount"),
    url=behind(_CHANNEL, "id"),
    joined_at=utc("snippet.publishedAt"),
    location="snippet.country",
    ext={"views": whole("statistics.viewCount")},
)
VIDEO = table(
    post,
    id="id",
    url=behind(_WATCH, "id"),
    text=lambda row: (
        texts("localized.title", "localized.description")(row["snippet"])
        or texts("title", "description")(row["snippet"])
    ),
    author=named("snippet.channelId", "snippet.channelTitle"),
    thumbnail_url="snippet.thumbnails.high.url",
    duration_seconds=seconds,
    views=whole("statistics.viewCount"),
    likes=whole("statistics.likeCount"),
    comments=whole("statistics.commentCount"),
    nsfw=lambda row: (
        None
        if at(row, "contentDetails.contentRating") is None
        else "ytRating" in row["contentDetails"]["contentRating"]
    ),
    published_at=utc("snippet.publishedAt"),
    ext={
        "language": lambda row: at(row, "snippet.defaultAudioLanguage") or at(row, "snippet.defaultLanguage"),
        "tags": "snippet.tags",
        "category_id": "snippet.categoryId",
        "live": "snippet.liveBroadcastContent",
    },
)
_ITEM_ID = "snippet.resourceId.videoId"
ITEM = table(
    post,
    id=_ITEM_ID,
    url=behind(_WATCH, _ITEM_ID),
    text=texts("snippet.title", "snippet.description"),
    author=named("snippet.videoOwnerChannelId", "snippet.videoOwnerChannelTitle"),
    thumbnail_url="snippet.thumbnails.high.url",
    published_at=utc("contentDetails.videoPublishedAt"),
)
FOUND = table(
    post,
    id="id.videoId",
    url=behind(_WATCH, "id.videoId"),
    text=texts("snippet.title", "snippet.description", read=lambda text: unescape(text).strip()),
    author=named("snippet.channelId", "snippet.channelTitle"),
    thumbnail_url="snippet.thumbnails.high.url",
    published_at=utc("snippet.publishedAt"),
    ext={"live": "snippet.liveBroadcastContent"},
)
COMMENT = table(
    comment,
    id="id",
    url=lambda row: f"{_WATCH}{at(row, 'snippet.videoId')}&lc={row['id']}" if at(row, "snippet.videoId") else None,
    parent_id="snippet.parentId",
    post_id="snippet.videoId",
    text="snippet.textOriginal",
    author=table(
        byline,
        id="snippet.authorChannelId.value",
        display_name="snippet.authorDisplayName",
        avatar_url="snippet.authorProfileImageUrl",
        url="snippet.authorChannelUrl",
    ),
    likes="snippet.likeCount",
    published_at=utc("snippet.publishedAt"),
)


def thread(row: Json) -> Json:
    """Return a comment with its first replies."""
    top = COMMENT(row["snippet"]["topLevelComment"])
    counted = {"likes": top["engagement"]["likes"], "replies": row["snippet"]["totalReplyCount"]}
    return {
        **top,
        "parent_id": top["post_id"],
        "engagement": counted,
        "replies": [COMMENT(one) for one in at(row, "replies.comments") or []],
    }


ENTRY = table(
    post,
    id="extra.yt.videoId",
    url=behind(_WATCH, "extra.yt.videoId"),
    text=texts("title", "extra.media.group.description"),
    author=table(
        byline, id=lambda row: row["author_url"].removeprefix(_CHANNEL), display_name="author", url="author_url"
    ),
    thumbnail_url="extra.media.group.thumbnail.url",
    views=whole("extra.media.group.community.statistics.views"),
    likes=whole("extra.media.group.community.starRating.count"),
    published_at=utc("published_at"),
)
HEAD = table(
    author,
    id=lambda row: row["url"].removeprefix(_CHANNEL),
    display_name="title",
    url="url",
    joined_at=utc("published_at"),
)


def embed(video_id: str) -> Any:
    """Return the field table for a video from oEmbed."""
    by = table(byline, display_name="author_name", url="author_url")
    return table(
        post,
        id=lambda _row: video_id,
        url=lambda _row: _WATCH + video_id,
        text="title",
        author=by,
        thumbnail_url="thumbnail_url",
    )


def feed(read: Callable[[Json], Any]) -> Any:
    """Return the field table for a feed."""
    return lambda body: read(FEED.read(body.encode() if isinstance(body, str) else body, ""))


_PICTURE: Json = {"thumbnails": {"high": {"url": "https://i.example.com/high.jpg"}}}
_VIDEO: Json = {
    "id": "abcdefghijk",
    "snippet": {
        **_PICTURE,
        "title": "Parsers",
        "description": "All the way down.",
        "channelId": "UCada",
        "channelTitle": "Ada",
        "publishedAt": "2023-05-01T10:00:00Z",
        "defaultAudioLanguage": "en",
        "tags": ["parsers"],
        "categoryId": "28",
        "liveBroadcastContent": "none",
    },
    "contentDetails": {"duration": "PT1H2M3S", "contentRating": {"ytRating": "ytAgeRestricted"}},
    "statistics": {"viewCount": "4711", "likeCount": "40", "commentCount": "7"},
}
_CHANNEL_BODY: Json = {
    "pageInfo": {"totalResults": 1},
    "items": [
        {
            "id": "UCada0815",
            "snippet": {
                **_PICTURE,
                "title": "Ada",
                "description": "Writes parsers.",
                "customUrl": "@ada",
                "publishedAt": "2019-05-01T10:00:00Z",
                "country": "DE",
            },
            "statistics": {
                "viewCount": "4711",
                "subscriberCount": "40",
                "hiddenSubscriberCount": False,
                "videoCount": "7",
            },
        }
    ],
}
_REPLY: Json = {
    "id": "UgyReply",
    "snippet": {
        "parentId": "UgyTop",
        "videoId": "abcdefghijk",
        "textOriginal": "Indeed.",
        "textDisplay": "Indeed.",
        "authorChannelId": {"value": "UCgrace"},
        "authorDisplayName": "@grace",
        "authorProfileImageUrl": "https://i.example.com/grace.jpg",
        "authorChannelUrl": "http://www.youtube.com/@grace",
        "likeCount": 3,
        "publishedAt": "2023-05-02T10:00:00Z",
    },
}
_TOP: Json = {"id": "UgyTop", "snippet": {name: it for name, it in _REPLY["snippet"].items() if name != "parentId"}}
_THREAD: Json = {"snippet": {"topLevelComment": _TOP, "totalReplyCount": 1}, "replies": {"comments": [_REPLY]}}


def _item(video_id: str) -> Json:
    owner = {"videoOwnerChannelId": "UCada", "videoOwnerChannelTitle": "Ada"}
    said = {**_PICTURE, **owner, "title": "Parsers", "description": "Down.", "resourceId": {"videoId": video_id}}
    return {"snippet": said, "contentDetails": {"videoId": video_id, "videoPublishedAt": "2023-05-01T10:00:00Z"}}


def _hit(video_id: str) -> Json:
    return {"id": {"videoId": video_id}, "snippet": {**_VIDEO["snippet"], "title": "Isn&#39;t it"}}


def _counted(rows_of: list[Json]) -> Json:
    return {"pageInfo": {"totalResults": 40}, "nextPageToken": "CAUQAA", "items": rows_of}


def _cases(resource: str, params: Json, path: str, read: Any, *bodies: Any, **more: Any) -> Iterator[Case]:
    """Return cases that make one call with a key. For a list, each body is paired with whether the list continues."""
    for number, told in enumerate(bodies):
        body, has_more = told if isinstance(told, tuple) else (told, None)
        answers = {f"{_API}/{path}": body}
        name = f"{resource} {path} {number}"
        yield Case(name, resource, params, answers, read, has_more=has_more, credentials=_KEY, **more)


def _listed(resource: str, given: str, path: str, row: Callable[[str], Json]) -> Iterator[Case]:
    """Return cases for a list of two videos, whose details come from a second call."""
    for number, value in enumerate(("UCparsers", "UClexers")):
        video_id = f"abcdefghij{number}"
        facts = {"pageInfo": {"totalResults": 1}, "items": [{**_VIDEO, "id": video_id}]}
        answers = {f"{_API}/{path}": _counted([row(video_id)]), f"{_API}/videos": facts}
        name = f"{resource} by hand, {number}"
        yield Case(name, resource, {given: value}, answers, rows("items", VIDEO), has_more=True, credentials=_KEY)


def _fed(resource: str, name: str, read: Any, feeds: Any) -> Iterator[Case]:
    """Return cases that read a feed without a key."""
    for number, (value, body) in enumerate(feeds):
        yield Case(
            f"{resource} fed {number}", resource, {name: value}, {_FEED: body}, feed(read), without_credentials=True
        )


def first(read: Callable[[Json], Json]) -> Any:
    """Read the only row of a list."""
    return lambda body: read(body["items"][0])


ATOM = b"""<feed xmlns:yt="http://www.youtube.com/xml/schemas/2015" xmlns:media="http://search.yahoo.com/mrss/"
 xmlns="http://www.w3.org/2005/Atom"><title>Ada</title>
 <link rel="alternate" href="https://www.youtube.com/channel/UCada0815"/><published>2019-05-01T10:00:00+00:00</published>
 <entry><id>yt:video:abcdefghijk</id><yt:videoId>abcdefghijk</yt:videoId><title>Parsers</title>
 <author><name>Ada</name><uri>https://www.youtube.com/channel/UCada0815</uri></author>
 <published>2023-05-01T10:00:00+00:00</published><media:group>
 <media:thumbnail url="https://i.example.com/high.jpg"/><media:description>Down.</media:description>
 <media:community><media:starRating count="40"/><media:statistics views="4711"/></media:community>
 </media:group></entry></feed>"""
_FEEDS = (
    ("UCsXVk37bltHxD1rDPwtNM8Q", "rss_user_feed.json"),  # the description of one entry ends inside a tag
    ("UCsXVk37bltHxD1rDPwtNM8Q", "rss_channel_feed.json"),
    ("UCada0815", ATOM),
)

_CHANNEL_ID, _MORE, _NO_MORE = "UC_x5XG1OV2P6uZZ5FSM9Ttw", True, False
_BRIEF = {"includeExtras": "false"}
_ENTRIES = rows("items", ENTRY)
_UNKNOWN = "v3_channels__unknown_empty.json"
CASES: tuple[Case, ...] = (
    *_cases("channel", {"channelId": _CHANNEL_ID}, "channels", first(CHANNEL), "v3_channel_full.json", _CHANNEL_BODY),
    *_cases("channel", {"handle": "googledevelopers"}, "channels", first(CHANNEL), "v3_channels__single.json"),
    *_cases("channel", {"handle": "nobody"}, "channels", None, _UNKNOWN, refused=NotFound),
    *_listed("channel/videos", "channelId", "playlistItems", _item),
    *_listed("channel/shorts", "channelId", "playlistItems", _item),
    *_listed("playlist", "playlist_id", "playlistItems", _item),
    *_listed("search", "query", "search", _hit),
    *_listed("search/hashtag", "hashtag", "search", _hit),
    *_cases(
        "channel/videos",
        {"channelId": _CHANNEL_ID, **_BRIEF},
        "playlistItems",
        rows("items", ITEM),
        ("v3_playlistItems__p1.json", _MORE),
        ("v3_playlistItems__p2.json", _NO_MORE),
        total=13,
    ),
    *_cases(
        "search",
        {"query": "surfing", **_BRIEF},
        "search",
        rows("items", FOUND),
        ("v3_search__keywords_p1.json", _MORE),
        ("v3_search__keywords_p2.json", _MORE),
        ("v3_search__empty_with_total.json", _NO_MORE),
        ("v3_search__one_then_token.json", _MORE),
        ("v3_search__short_page_with_token.json", _MORE),
    ),
    *_cases("video", {"url": "D-lhorsDlUQ"}, "videos", first(VIDEO), "v3_videos__single.json"),
    *_cases("video", {"url": "abcdefghijk"}, "videos", first(VIDEO), {"items": [_VIDEO]}),
    *_cases("video", {"url": "invalid-id-"}, "videos", None, "v3_videos__unknown_empty.json", refused=NotFound),
    *_cases("video", {"url": "a_b_c_d"}, "videos", None, "v3_error__403_quotaExceeded.json", refused=UpstreamThrottled),
    *_cases("videos", {"ids": "abcdefghijk,abcdefghijl"}, "videos", rows("items", VIDEO), {"items": [_VIDEO]}),
    *_cases(
        "trending",
        {},
        "videos",
        rows("items", VIDEO),
        ("v3_videos__chart_p1.json", _MORE),
        ("v3_videos__chart_p2.json", _NO_MORE),
        (_counted([_VIDEO]), _MORE),
    ),
    *_cases(
        "video/comments",
        {"url": "F1UP7wRCPH8", "limit": 100},
        "commentThreads",
        lambda found: [thread(row) for row in found["items"]],
        ("v3_commentThreads__video_p1.json", _MORE),
        ("v3_commentThreads__video_p2.json", _NO_MORE),
        ("v3_commentThreads__video_100.json", _MORE),
        ({"items": [_THREAD]}, _NO_MORE),
    ),
    *_cases(
        "video/comment",
        {"id": "UgyTop.1"},
        "comments",
        lambda found: COMMENT(found["items"][0]),
        "v3_comments__parent_p1.json",
        {"items": [_REPLY]},
    ),
    *_cases(
        "video/comment/replies",
        {"continuationToken": "Ugw5zYU6n9pmIgAZWvN4AaABAg"},
        "comments",
        rows("items", COMMENT),
        ("v3_comments__parent_p1.json", _MORE),
        ("v3_comments__parent_p2.json", _NO_MORE),
        ({"items": [_REPLY]}, _NO_MORE),
    ),
    *_fed("channel", "channelId", HEAD, _FEEDS),
    *_fed("channel/videos", "channelId", _ENTRIES, _FEEDS[1:]),
    *_fed("channel/shorts", "channelId", _ENTRIES, _FEEDS[1:]),
    *_fed("playlist", "playlist_id", _ENTRIES, _FEEDS[1:]),
    Case(
        "no such feed",
        "channel",
        {"channelId": "UCnobody"},
        {_FEED: "rss_channel_feed_404.json"},
        refused=NotFound,
        without_credentials=True,
    ),
    *(
        Case(
            "a video by oEmbed",
            "video",
            {"url": "pO5L6vXtxsI"},
            {_OEMBED: body},
            embed("pO5L6vXtxsI"),
            without_credentials=True,
        )
        for body in (
            "oembed/youtube_1__200.json",
            "oembed/youtube_2__200.json",
            {
                "title": "Parsers",
                "author_name": "Ada",
                "author_url": "https://www.youtube.com/@ada",
                "thumbnail_url": "https://i.example.com/high.jpg",
            },
        )
    ),
)
