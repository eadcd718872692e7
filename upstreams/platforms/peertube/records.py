"""Map PeerTube's objects to our records. Relative paths of pictures are resolved against the requested instance."""

from __future__ import annotations

from collections.abc import Mapping

from upstreams.model.archetypes import Record, author, byline, collection, comment, cue, post, transcript
from upstreams.model.fields import Json, flag, ident, joined, part, parts
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import Reader, of
from upstreams.model.params import Value

_LEVELS_MAX = 100
_INSTANCE = read.given("instance")


def _last(found: list[str]) -> str | None:
    return found[-1] if found else None


def _on(host: str | None, path: str | None) -> str | None:
    return f"https://{host}{path}" if host and path and path.startswith("/") else None


def _picture(host: str | None, *urls: str | None) -> str | None:
    """Return the first full URL. If there is none, use the last value, which is a path on the instance."""
    return next((address for address in urls[:-1] if address), None) or _on(host, urls[-1])


def _files(files: list[str], playlists: list[str]) -> list[str]:
    """Return the URLs of a video's files, or of its playlists, because newer videos have no other files."""
    return files or playlists


def _either(parent: str | None, video: Value | None) -> str | None:
    return parent or (None if video is None else str(video))


def _image(*addresses: str, path: tuple[str, ...]) -> Reader:
    return of(_picture, _INSTANCE, *map(read.text, addresses), read.text(*path))


_account_of = record_map(
    byline,
    id=read.ident("id"),
    username=read.text("name"),
    display_name=read.text("displayName"),
    avatar_url=read.either(
        of(_last, read.each("avatars", _image("fileUrl", "url", path=("path",)))),  # the largest picture is last
        _image("avatar.fileUrl", "avatar.url", path=("avatar.path",)),
    ),
    url=read.text("url"),
)
author_of = _account_of.with_fields(
    author,
    bio=read.html("description"),
    followers=read.count("followersCount"),
    following=read.count("followingCount"),
    joined_at=read.instant("createdAt"),
    ext={"host": read.text("host"), "owner": read.text("ownerAccount.name")},
)
"""An account or a channel. A channel has an owner."""
video_of = record_map(
    post,
    id=read.text("uuid"),
    url=read.text("url"),
    text=of(joined, read.text("name"), read.text("description", "truncatedDescription")),
    author=_account_of.at("account"),
    media_urls=read.NEVER,
    thumbnail_url=_image("previewUrl", "thumbnailUrl", path=("previewPath", "thumbnailPath")),
    duration_seconds=read.count("duration"),
    views=read.count("views"),
    likes=read.count("likes"),
    comments=read.count("comments"),
    nsfw=read.flag("nsfw"),
    published_at=read.instant("publishedAt"),
    ext={
        "language": read.text("language.id"),
        "category": read.text("category.label"),
        "dislikes": read.count("dislikes"),
        "channel": read.text("channel.name"),
        "channel_url": read.text("channel.url"),
        "is_live": read.flag("isLive"),
    },
)
"""A video in a list. Its text is Markdown."""
whole_video_of = video_of.with_fields(
    media_urls=of(
        _files, read.each("files", read.text("fileUrl")), read.each("streamingPlaylists", read.text("playlistUrl"))
    ),
    ext={"tags": read.texts("tags")},
)
playlist_of = record_map(
    collection,
    id=read.text("uuid"),
    url=read.text("url"),
    kind=read.always("playlist"),
    title=read.text("displayName"),
    description=read.text("description"),
    owner=_account_of.at("ownerAccount"),
    items_count=read.count("videosLength"),
    image_url=_image("thumbnailUrl", path=("thumbnailPath",)),
    released_at=read.instant("createdAt"),
    ext={"channel": read.text("videoChannel.name"), "channel_url": read.text("videoChannel.url")},
)
comment_of = record_map(
    comment,
    id=read.ident("id"),
    url=read.text("url"),
    parent_id=of(_either, read.ident("inReplyToCommentId"), read.given("id")),
    post_id=read.given("id"),
    text=read.html("text"),
    author=_account_of.at("account"),
    replies_count=read.count("totalReplies"),
    deleted=read.flag("isDeleted"),
    published_at=read.instant("createdAt"),
)
"""A comment. A deleted comment has no text and no author."""


def replies_of(children: list[Json], values: Mapping[str, Value], levels: int = _LEVELS_MAX) -> list[Record]:
    """Return the replies below a comment in a thread, each with its own replies."""
    pairs = ((child, child.get("comment")) for child in children if levels)
    return [
        {**comment_of(reply, values), "replies": replies_of(parts(child, "children"), values, levels - 1)}
        for child, reply in pairs
        if isinstance(reply, dict)
    ]


def transcript_of(captions: Json, track: Json, tracks: list[Json]) -> Record:
    """Return a video's transcript: the text of one track, and the languages of all tracks."""
    language = ident(part(track, "language"), "id")
    cues = [cue(language=language, **one) for one in captions["cues"]]
    known = [found for one in tracks if (found := ident(part(one, "language"), "id"))]
    ext = {"language": language, "languages": known, "automatic": flag(track, "automaticallyGenerated")}
    return transcript(transcript=" ".join(one["text"] for one in cues) or None, transcripts=cues, ext=ext)
