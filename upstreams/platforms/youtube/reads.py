"""YouTube's reads with more than one call. One additional call returns the full data of up to 50 videos.

Without a key, feeds are read instead. A channel's lists are playlists, whose ids are the channel's id with other first
letters.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from limits.errors import LimitError
from upstreams.content import FEED
from upstreams.model.archetypes import Record
from upstreams.model.calls import Get, Pages, made
from upstreams.model.errors import InvalidArgument, NotFound, UnexpectedBody, UpstreamError
from upstreams.model.fields.maps import Rows
from upstreams.model.paging import ByToken, Whole
from upstreams.model.paging.many import many
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Missing, Page, Single, Steps
from upstreams.platforms.youtube.params import CHANNEL_ID, CHANNEL_URL, HANDLE, LANGUAGE, VIDEO_URL
from upstreams.platforms.youtube.records import (
    channel_feed_of,
    channel_of,
    embed_of,
    entry_of,
    found_of,
    item_of,
    video_of,
)

_WITHOUT_API = "YouTube's API is unavailable. Its public pages supplied this data; they list only the last 15 videos."
ONE_CHANNEL = (("channelId", "handle", "url"),)
_DAYS_BEFORE = {"this_week": 6, "this_month": 29, "this_year": 364}
"""The length of each period in days before today. Periods start at midnight, so that every page belongs to the same
search."""

ITEMS = ByToken("pageToken", "nextPageToken", size="maxResults", size_max=50, total="pageInfo.totalResults")
FOUND = ByToken("pageToken", "nextPageToken", size="maxResults", size_max=50, empty_ends=True)
_LISTED, _SEARCHED = Pages(item_of, ITEMS, at="items"), Pages(found_of, FOUND, at="items")
_ENTRIES, _COUNTED = Pages(entry_of, Whole(size_max=50), at="items"), "pageInfo.totalResults"
_VIDEOS, _CHANNELS = Rows(video_of, "items", (_COUNTED,)), Rows(channel_of, "items", (_COUNTED,))


def _id_of(channel_id: str | None, address: str | None) -> str | None:
    return channel_id or (address if address and not address.startswith(("@", "user/")) else None)


def _handle_of(handle: str | None, address: str | None) -> str | None:
    return handle or (address[1:] if address and address.startswith("@") else None)


def _user_of(address: str | None) -> str | None:
    return address.removeprefix("user/") if address and address.startswith("user/") else None


VIDEO_PARTS = "snippet,statistics,contentDetails"
_CHANNEL = Get(
    "/channels",
    part="snippet,statistics",
    id=made(_id_of, CHANNEL_ID, CHANNEL_URL),
    forHandle=made(_handle_of, HANDLE, CHANNEL_URL),
    forUsername=made(_user_of, CHANNEL_URL),
).via(accepts=_CHANNELS)
_VIDEO = Get("/videos", part=VIDEO_PARTS, id=VIDEO_URL, hl=LANGUAGE).via(accepts=_VIDEOS)
_VIDEO_DATA = Get("/videos", part=VIDEO_PARTS).via(accepts=_VIDEOS)
VIDEOS = many(VIDEO_URL, 50, Get("/videos", part=VIDEO_PARTS, hl=LANGUAGE), _VIDEOS, needs=("key",))
CHANNELS = many(CHANNEL_ID, 50, Get("/channels", part="snippet,statistics"), _CHANNELS, needs=("key",))
_PLAYLIST = Get("/playlistItems", part="snippet,contentDetails")
_SEARCH = Get("/search", part="snippet", type="video").via("search")
_FEED = Get("/feeds/videos.xml").via("web", accepts=FEED)
_OEMBED = Get("/oembed", format="json").via("web", accepts=embed_of)


def _has_key(args: Args) -> bool:
    return "key" in args.credentials


def _known_id(args: Args) -> str:
    """Return the channel's id from the request.

    Raises InvalidArgument for a handle, because looking it up requires a key.
    """
    address = args.text_or_none("url")
    found = _id_of(args.text_or_none("channelId"), address)
    if found is None:
        name = "url" if address else "handle"
        problem = "can be looked up only with the operator's YouTube key; send the channelId"
        raise InvalidArgument(name, problem, reason="capability_missing")
    return found


def channel(args: Args) -> Steps:
    """Return one channel. Without a key, its feed is read."""
    if not _has_key(args):
        return (yield from fed_channel(args))
    answer = yield _CHANNEL.at(args)
    return Single(_first(_CHANNELS, args, answer))


def fed_channel(args: Args) -> Steps:
    """Return one channel from its feed."""
    answer = yield _FEED.at(args, channel_id=_known_id(args))
    return Single(channel_feed_of.read(answer.body), _warnings(args))


def _warnings(args: Args) -> tuple[str, ...]:
    """Return the warning that an answer replaces the API's answer. A node without a key needs no warning."""
    return (_WITHOUT_API,) if _has_key(args) else ()


def video(args: Args) -> Steps:
    """Return one video. Without a key, oEmbed is read."""
    if not _has_key(args):
        return (yield from embedded(args))
    answer = yield _VIDEO.at(args)
    return Single(_first(_VIDEOS, args, answer))


def embedded(args: Args) -> Steps:
    """Return one video from oEmbed."""
    if "language" in args.values:
        raise InvalidArgument(
            "language", "can be chosen only with the operator's YouTube key", reason="capability_missing"
        )
    answer = yield _OEMBED.at(args, url=f"https://www.youtube.com/watch?v={args.text('url')}")
    return Single(embed_of.read(answer.body, args.values), _warnings(args))


def _first(rows: Rows, args: Args, answer: Answer) -> Record:
    """Return the requested record. If it does not exist, the list in the answer is empty or missing."""
    is_none = rows.members(answer.body)[_COUNTED] == 0
    found = [] if is_none else rows.records(answer.body, 0, 1, args.values)
    if not found:
        raise NotFound("YouTube does not have this item.")
    return found[0]


def of_channel(latest: str, popular: str, args: Args) -> Steps:
    """Return one of a channel's lists, which is the playlist whose id starts with one of these prefixes."""
    if not _has_key(args):
        return (yield from fed_of_channel(latest, popular, args))
    named = args.text_or_none("channelId")
    channel_id = named or (yield from _looked_up(args))
    playlist_id = _list_of(channel_id, latest, popular, args)
    answer = yield replace(_PLAYLIST.at(args, _LISTED, playlistId=playlist_id), optional=True)
    if isinstance(answer, Missing):
        if answer.failure is not None and not _is_absent(answer.failure):
            raise answer.failure
        if named:
            yield from _looked_up(args)
        return Page([])
    return (yield from _with_video_data(_LISTED.page(args, answer), args))


def _looked_up(args: Args) -> Generator[Call, Any, str]:
    """Return the channel's id. Raises NotFound if YouTube has no channel with this handle."""
    answer = yield _CHANNEL.at(args)
    channel_id = _first(_CHANNELS, args, answer)["id"]
    if not isinstance(channel_id, str):
        raise UnexpectedBody("the channel has no id")
    return channel_id


def _is_absent(failure: UpstreamError | LimitError) -> bool:
    """Return whether the playlist is missing. A channel without shorts, or without videos, has no such playlist."""
    return isinstance(failure, NotFound) and failure.reason is None


def fed_of_channel(latest: str, popular: str, args: Args) -> Steps:
    """Return one of a channel's lists from the channel's feed."""
    return _from_feed(_list_of(_known_id(args), latest, popular, args), args)


def _list_of(channel_id: str, latest: str, popular: str, args: Args) -> str:
    return (popular if args.text("sort") == "popular" else latest) + channel_id.removeprefix("UC")


def playlist(args: Args) -> Steps:
    """Return a playlist's videos."""
    return (_listed if _has_key(args) else _from_feed)(args.text("playlist_id"), args)


def fed_playlist(args: Args) -> Steps:
    """Return a playlist's videos from its feed."""
    return _from_feed(args.text("playlist_id"), args)


def _listed(playlist_id: str, args: Args) -> Steps:
    answer = yield _PLAYLIST.at(args, _LISTED, playlistId=playlist_id)
    return (yield from _with_video_data(_LISTED.page(args, answer), args))


def _from_feed(playlist_id: str, args: Args) -> Steps:
    answer = yield _FEED.at(args, playlist_id=playlist_id)
    return replace(_ENTRIES.page(args, answer), warnings=_warnings(args))


def search(args: Args) -> Steps:
    """Return the videos that match a search query."""
    order = "viewCount" if args.text("sortBy") == "popular" else "relevance"
    since = _since(args)
    answer = yield _SEARCH.at(
        args, _SEARCHED, q=args.text("query"), order=order, publishedAfter=since, regionCode=args.text_or_none("region")
    )
    return (yield from _with_video_data(_SEARCHED.page(args, answer), args))


def hashtag(args: Args) -> Steps:
    """Return the videos with a hashtag."""
    length = "short" if args.text("type") == "shorts" else None
    answer = yield _SEARCH.at(args, _SEARCHED, q=f"#{args.text('hashtag')}", order="relevance", videoDuration=length)
    return (yield from _with_video_data(_SEARCHED.page(args, answer), args))


def _since(args: Args) -> str | None:
    """Return the start of the search period as ISO 8601, or None if no period was requested."""
    chosen = args.text_or_none("uploadDate")
    if chosen is None:
        return None
    today = datetime.fromtimestamp(args.now_at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (today - timedelta(days=_DAYS_BEFORE.get(chosen, 0))).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_video_data(page: Page, args: Args) -> Steps:
    """Return the page with the full data of its videos. Deleted and private videos are omitted."""
    ids = [str(one["id"]) for one in page.records if one["id"] is not None]
    if not ids or args.values.get("includeExtras") is False:
        return page
    answer = yield _VIDEO_DATA.at(args, id=",".join(ids))
    known = {one["id"]: one for one in _VIDEOS.records(answer.body, given=args.values)}
    return replace(page, records=[known[one] for one in ids if one in known])
