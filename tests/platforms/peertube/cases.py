"""PeerTube's recordings as cases, compared with a table of the fields.

`storyboards.json` belongs to no endpoint, because it has no text of a video.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, each, ident, table, utc
from upstreams.model.archetypes import author, byline, collection, comment, cue, post, transcript
from upstreams.model.errors import NotFound
from upstreams.model.fields import plain

_SITE = "https://framatube.org"
_API = "framatube.org/api/v1"
_SEPIA = "sepiasearch.org/api/v1/search"
_VIDEO_ID = "kkGMgK9ZtnKfYAgnEtQxbv"


def _avatar(row: Json) -> str | None:
    pictures = row.get("avatars") or [{}]
    path = pictures[-1].get("path")
    return pictures[-1].get("fileUrl") or (path and f"{_SITE}{path}")


def image(*names: str) -> Any:
    """Return the first URL or path of an image. A path is relative to the instance."""

    def read(row: Json) -> str | None:
        found = next((row[name] for name in names if row.get(name)), None)
        return f"{_SITE}{found}" if found and found.startswith("/") else found

    return read


_BYLINE: dict[str, Any] = {
    "id": ident("id"),
    "username": "name",
    "display_name": "displayName",
    "avatar_url": _avatar,
    "url": "url",
}
BYLINE = table(byline, **_BYLINE)
ACCOUNT = table(
    author,
    **_BYLINE,
    bio=lambda row: plain(at(row, "description")),
    followers="followersCount",
    following="followingCount",
    joined_at=utc("createdAt"),
    ext={"host": "host", "owner": "ownerAccount.name"},
)
_VIDEO: dict[str, Any] = {
    "id": "uuid",
    "url": "url",
    "text": lambda row: "\n\n".join(filter(None, (row["name"], row["description"] or row["truncatedDescription"]))),
    "author": below("account", BYLINE),
    "thumbnail_url": image("previewUrl", "thumbnailUrl", "previewPath", "thumbnailPath"),
    "duration_seconds": "duration",
    "views": "views",
    "likes": "likes",
    "comments": "comments",
    "nsfw": "nsfw",
    "published_at": utc("publishedAt"),
}
_EXT: dict[str, Any] = {
    "language": "language.id",
    "category": "category.label",
    "dislikes": "dislikes",
    "channel": "channel.name",
    "channel_url": "channel.url",
    "is_live": "isLive",
}
VIDEO = table(post, **_VIDEO, ext=_EXT)


def _media(row: Json) -> list[str]:
    return each("files", "fileUrl")(row) or each("streamingPlaylists", "playlistUrl")(row)


WHOLE_VIDEO = table(post, **_VIDEO, media_urls=_media, ext={**_EXT, "tags": "tags"})
PLAYLIST = table(
    collection,
    id="uuid",
    url="url",
    kind=lambda _row: "playlist",
    title="displayName",
    description="description",
    owner=below("ownerAccount", BYLINE),
    items_count="videosLength",
    image_url=image("thumbnailUrl", "thumbnailPath"),
    released_at=utc("createdAt"),
    ext={"channel": "videoChannel.name", "channel_url": "videoChannel.url"},
)
COMMENT = table(
    comment,
    id=ident("id"),
    url="url",
    parent_id=lambda row: str(row.get("inReplyToCommentId") or _VIDEO_ID),
    post_id=lambda _row: _VIDEO_ID,
    text=lambda row: plain(at(row, "text")),
    author=below("account", BYLINE),
    replies_count="totalReplies",
    deleted="isDeleted",
    published_at=utc("createdAt"),
)


def replies(node: Json) -> list[Json]:
    """Return the replies below a comment."""
    return [{**COMMENT(child["comment"]), "replies": replies(child)} for child in node["children"]]


def rows(read: Any) -> Any:
    """Return the rows of a list."""
    return lambda body: [read(row) for row in body["data"]]


_AVATARS = [{"width": 48, "path": "/avatars/48.png"}, {"width": 120, "path": "/avatars/120.png"}]
_ELSEWHERE = [{"width": 120, "fileUrl": "https://tube.example.org/avatars/120.png"}]
_ACCOUNT: Json = {
    "id": 7,
    "name": "ada",
    "displayName": "Ada",
    "url": "https://tube.example.org/accounts/ada",
    "host": "tube.example.org",
    "avatars": _AVATARS,
    "description": "Writes parsers.",
    "followersCount": 12,
    "followingCount": 3,
    "createdAt": "2023-05-01T10:00:00.250Z",
    "ownerAccount": {"name": "ada"},
}
_ROW: Json = {
    "uuid": "d0e7b4a2-0000-4000-8000-000000000001",
    "url": "https://tube.example.org/videos/watch/d0e7b4a2",
    "name": "Parsers",
    "description": "All the way *down*.",
    "truncatedDescription": "All the way",
    "account": _ACCOUNT,
    "channel": {"name": "parsers", "url": "https://tube.example.org/video-channels/parsers"},
    "previewUrl": "https://tube.example.org/previews/1.jpg",
    "thumbnailUrl": "https://tube.example.org/thumbnails/1.jpg",
    "previewPath": "/previews/1.jpg",
    "thumbnailPath": "/thumbnails/1.jpg",
    "duration": 113,
    "views": 90,
    "likes": 5,
    "dislikes": 1,
    "comments": 2,
    "nsfw": False,
    "isLive": False,
    "publishedAt": "2023-05-01T10:00:00.250Z",
    "language": {"id": "en"},
    "category": {"label": "Science"},
    "tags": ["parsers"],
    "files": [{"fileUrl": "https://tube.example.org/1.mp4"}],
    "streamingPlaylists": [{"playlistUrl": "https://tube.example.org/1.m3u8"}],
}
_COMMENT: Json = {
    "id": 34,
    "url": "https://tube.example.org/comments/34",
    "text": "<p>Why <em>not</em>?</p>",
    "inReplyToCommentId": 33,
    "account": _ACCOUNT,
    "totalReplies": 1,
    "isDeleted": False,
    "createdAt": "2023-05-01T12:00:00.000Z",
}
_PLAYLIST: Json = {
    "uuid": "d0e7b4a2-0000-4000-8000-000000000002",
    "url": "https://tube.example.org/video-playlists/d0e7b4a2",
    "displayName": "Parsing",
    "description": "In order.",
    "ownerAccount": _ACCOUNT,
    "videoChannel": {"name": "parsers", "url": "https://tube.example.org/video-channels/parsers"},
    "videosLength": 4,
    "thumbnailUrl": "https://tube.example.org/thumbnails/2.jpg",
    "thumbnailPath": "/thumbnails/2.jpg",
    "createdAt": "2023-05-01T10:00:00.000Z",
}

_WORDS = b"WEBVTT\n\n00:01.000 --> 00:02.500\nWhat is it?\n\n1:00:02.500 --> 1:00:04.000\na &lt; b"
_FILE = "/lazy-static/video-captions/ada-fr.vtt"
_TRACK: Json = {
    "language": {"id": "fr", "label": "French"},
    "automaticallyGenerated": False,
    "captionPath": _FILE,
    "fileUrl": f"{_SITE}{_FILE}",
}
_TRACKS = {"total": 2, "data": [{**_TRACK, "automaticallyGenerated": True, "fileUrl": f"{_SITE}/x"}, _TRACK]}


def _milliseconds(clock: str) -> int:
    hours, minutes, seconds = ([0, 0, 0] + [float(one) for one in clock.split(":")])[-3:]
    return round((hours * 3_600 + minutes * 60 + seconds) * 1_000)


def said(tracks: Json, words: Any) -> Json:
    """Return the text of the first track that a person wrote. In this recording, each cue is one line."""
    track = next(one for one in tracks["data"] if not one["automaticallyGenerated"])
    lines = (words if isinstance(words, str) else words.decode()).splitlines()
    timed = [(line.split(" --> "), lines[place + 1]) for place, line in enumerate(lines) if "-->" in line]
    language = track["language"]["id"]
    cues = [
        cue(text=plain(text), language=language, start_ms=_milliseconds(start), end_ms=_milliseconds(end))
        for (start, end), text in timed
    ]
    known = [one["language"]["id"] for one in tracks["data"]]
    ext = {"language": language, "languages": known, "automatic": False}
    return transcript(transcript=" ".join(one["text"] for one in cues), transcripts=cues, ext=ext)


def listed(*items: Json) -> Json:
    """Return a page after which the list continues."""
    return {"total": 50, "data": list(items)}


def _case(resource: str, path: str, body: Any, read: Any, *, has_more: bool | None = None, **params: Any) -> Case:
    told = body if isinstance(body, str) else "a body made by hand"
    return Case(f"{resource}: {told}", resource, params, {f"{_API}{path}": body}, read, has_more)


def _of_name(resource: str, path: str, body: Any, read: Any, *, has_more: bool | None = None) -> Case:
    handle = path.split("/")[2]
    params: Json = {"handle": handle} if has_more is None else {"handle": handle, "limit": 12}
    return _case(resource, path, body, read, has_more=has_more, **params)


def _of_video(resource: str, path: str, body: Any, read: Any, **more: Any) -> Case:
    return _case(resource, f"/videos/{_VIDEO_ID}{path}", body, read, id=_VIDEO_ID, **more)


_ADA, _CHANNEL, _THREADS = "/accounts/framasoft", "/video-channels/lqdn_channel@video.lqdn.fr", "/comment-threads"
CASES: tuple[Case, ...] = (
    *(
        Case(
            resource, resource, {"query": "parsers"}, {f"sepiasearch.org/api/v1/search/{path}": listed(row)}, rows(read)
        )
        for resource, path, row, read in (
            ("search", "videos", {**_ROW, "account": {**_ACCOUNT, "avatars": _ELSEWHERE}}, VIDEO),
            ("search/channels", "video-channels", {**_ACCOUNT, "avatars": _ELSEWHERE}, ACCOUNT),
        )
    ),
    *(
        _case("trending", "/videos", file, rows(VIDEO), has_more=True, limit=12)
        for file in ("trending_p1.json", "trending_p2.json", listed(_ROW))
    ),
    _of_video("video", "", "video__whatispeertube.json", WHOLE_VIDEO),
    _of_video("video", "", _ROW, WHOLE_VIDEO),
    *(
        _of_video("video/comments", _THREADS, file, rows(COMMENT), limit=12, has_more=has_more)
        for file, has_more in (
            ("comments_default_p1.json", True),
            ("comments_nested.json", True),
            ("comments_deleted.json", False),
            ("comments_deleted_2.json", False),
            ("comment_threads__p2.json", True),  # the first page has the same path and differs only in its query
            (listed(_COMMENT), True),
        )
    ),
    *(
        _case(
            "video/comment",
            f"/videos/{_VIDEO_ID}{_THREADS}/34293",
            body,
            lambda body: {**COMMENT(body["comment"]), "replies": replies(body)},
            id=f"{_VIDEO_ID}/34293",
        )
        for body in (
            "comment_thread__one.json",
            {"comment": _COMMENT, "children": [{"comment": _COMMENT, "children": []}]},
        )
    ),
    *(
        _of_video("video/comment/replies", f"{_THREADS}/34293", body, replies, comment_id="34293")
        for body in ("comment_thread__one.json", {"children": [{"comment": _COMMENT, "children": []}]})
    ),
    Case(
        "video/transcript",
        "video/transcript",
        {"id": _VIDEO_ID},
        {f"{_API}/videos/{_VIDEO_ID}/captions": _TRACKS, f"framatube.org{_FILE}": _WORDS},
        said,
    ),
    Case(
        "a video without captions",
        "video/transcript",
        {"id": _VIDEO_ID},
        {f"{_API}/videos/{_VIDEO_ID}/captions": "captions__empty.json"},
        refused=NotFound,
        reason="no_captions",
    ),
    _of_name("profile", _ADA, "account__framasoft.json", ACCOUNT),
    _of_name("profile", _ADA, _ACCOUNT, ACCOUNT),
    *(
        _of_name("profile/posts", f"{_ADA}/videos", body, rows(VIDEO), has_more=True)
        for body in ("account_videos_p1.json", "account_videos_p2.json", listed(_ROW))
    ),
    *(
        _of_name("profile/channels", f"{_ADA}/video-channels", body, rows(ACCOUNT), has_more=True)
        for body in (
            "account_channels__framasoft.json",
            "account_channels_p1.json",
            "account_channels_p2.json",
            listed(_ACCOUNT),
        )
    ),
    _of_name("channel", "/video-channels/chatsceptique@skeptikon.fr", "channel__chatsceptique.json", ACCOUNT),
    _of_name("channel", _CHANNEL, "channel__laquadrature.json", ACCOUNT),
    _of_name("channel", _CHANNEL, _ACCOUNT, ACCOUNT),
    *(
        _of_name("channel/videos", f"{_CHANNEL}/videos", body, rows(VIDEO), has_more=True)
        for body in ("channel_videos__p1.json", "channel_videos__p2.json", listed(_ROW))
    ),
    _of_name(
        "channel/playlists", f"{_CHANNEL}/video-playlists", "channel_playlists.json", rows(PLAYLIST), has_more=False
    ),
    _of_name("channel/playlists", f"{_CHANNEL}/video-playlists", listed(_PLAYLIST), rows(PLAYLIST), has_more=True),
    *(
        _case(
            "playlist",
            "/video-playlists/96b0ee2b-a5a7-4794-8769-58d8ccb79ab7",
            body,
            PLAYLIST,
            id="96b0ee2b-a5a7-4794-8769-58d8ccb79ab7",
        )
        for body in ("b_playlist.json", _PLAYLIST)
    ),
)
