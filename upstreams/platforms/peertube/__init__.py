"""PeerTube: videos, comments, channels, playlists and accounts on any instance, and a search over many instances."""

from __future__ import annotations

from upstreams.content import CAPTIONS
from upstreams.model.archetypes import (
    AUTHOR,
    AUTHOR_LIST,
    COLLECTION,
    COLLECTION_LIST,
    COMMENT,
    COMMENT_LIST,
    POST,
    POST_LIST,
    TRANSCRIPT,
)
from upstreams.model.calls import Get, Pages, listing, made, single
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound, UnexpectedBody
from upstreams.model.fields import flag, ident, obj, part, rows, text
from upstreams.model.paging import ByOffset
from upstreams.model.params import AT_HOST, Args, Host, Param, at_host, forms_at_host
from upstreams.model.paths import Located, call_from_answer
from upstreams.model.refusals import Pace, Refusals, Remaining
from upstreams.model.steps import Missing, Page, Single, Steps
from upstreams.platforms.peertube.records import (
    author_of,
    comment_of,
    playlist_of,
    replies_of,
    transcript_of,
    video_of,
    whole_video_of,
)

INSTANCE = Host("instance", default="framatube.org")
SEARCHED = Host(
    "instance", default="sepiasearch.org", description="The host to search (default: an index of many instances)."
)
QUERY = Param("query", "Search query.", "structured concurrency", required=True)


def _name(what: str, example: str, mark: str) -> Param:
    return Param(
        "handle",
        f"The {what} name on the instance, or name@host for another host.",
        example,
        required=True,
        strip="@",
        fold=True,
        forms=forms_at_host(f"{mark}/"),
        pattern=rf"\w+(?:[\w.-]*\w)?{AT_HOST}",
        problem=f"must be a name, such as {example}",
    )


ACCOUNT = made(at_host, _name("account's", "framasoft", "(?:a|accounts)"))
CHANNEL = made(at_host, _name("channel's", "joinpeertube", "(?:c|video-channels)"))
_ID = r"(?:\d{1,18}|[A-Za-z0-9]{22}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})"
"""The id of a video: a number, a short UUID or a full UUID."""


def _located(what: str, example: str, path: str) -> Located:
    """Return the parameters that identify a subject: its URL, or its id on the instance."""
    address = f"https://framatube.org/{example}"
    url = Param(
        "url",
        f"The {what}'s URL, on any host.",
        address,
        type="url",
        forms=(rf"([^/]+)/(?:{path})/({_ID})(?:[/;].*)?",),
        pattern=rf"[^/]+/{_ID}",
        problem=f"must be the URL of a {what}, such as {address}",
    )
    name = Param(
        "id", f"The {what}'s id on the instance, in any of its forms.", example.rpartition("/")[2], pattern=_ID
    )
    return Located(INSTANCE, url, name)


VIDEO = _located("video", "w/kkGMgK9ZtnKfYAgnEtQxbv", r"w(?!/p/)|videos/watch(?!/playlist/)|videos/embed")
PLAYLIST = _located(
    "playlist",
    "w/p/96b0ee2b-a5a7-4794-8769-58d8ccb79ab7",
    r"w/p|video-playlists(?:/embed)?|videos/watch/playlist",
)
_THREAD_ID = rf"{_ID}/\d{{1,18}}"
THREAD = Located(
    INSTANCE,
    Param(
        "url",
        "The URL of a top-level comment on the video, on any host.",
        "https://framatube.org/w/kkGMgK9ZtnKfYAgnEtQxbv;threadId=34293",
        type="url",
        forms=(rf"([^/]+)/(?:w|videos/watch)/({_ID});threadId=(\d{{1,18}})(?:[/;].*)?",),
        pattern=rf"[^/]+/{_THREAD_ID}",
        problem="must be the URL of a comment, such as https://framatube.org/w/kkGMgK9ZtnKfYAgnEtQxbv;threadId=34293",
    ),
    Param(
        "id",
        "The video's id on the instance and the comment's number, as id/number.",
        "kkGMgK9ZtnKfYAgnEtQxbv/34293",
        pattern=_THREAD_ID,
        problem="must be a video's id and a comment's number, such as kkGMgK9ZtnKfYAgnEtQxbv/34293",
    ),
)
COMMENT_ID = Param("comment_id", "The number of the top-level comment.", "34293", required=True, pattern=r"\d{1,18}")
LANGUAGE = Param(
    "language",
    "The language of the captions, if there are several.",
    "de",
    fold=True,
    pattern=r"[a-z]{2,3}(?:-[a-z0-9]{2,4})*",
    problem="must be a language, such as de or pt-br",
)
_ACCESS_WORDS = ("private", "internal", "password", "authenticate", "blocklisted", "blacklisted")
"""Words in an error message that mean that access to a video is restricted."""
_PAGED = ByOffset("start", size="count", total="total")
_VIDEOS, _AUTHORS = Pages(video_of, _PAGED, at="data"), Pages(author_of, _PAGED, at="data")
_REPLIES = Get("/videos/{id}/comment-threads/{thread}", id=VIDEO.name, thread=COMMENT_ID)
_THREAD = Get("/videos/{id}/comment-threads/{thread}")
_CAPTIONS = Get("/videos/{id}/captions", id=VIDEO.name)
_NO_CAPTIONS = "no_captions"


def _replies(args: Args) -> Steps:
    answer = yield _REPLIES.at(args)
    return Page(replies_of(rows(obj(answer.body).get("children")), args.values))


def _comment(args: Args) -> Steps:
    video, _, thread = args.text("id").partition("/")
    answer = yield _THREAD.at(args, id=video, thread=thread)
    body, values = obj(answer.body), {**args.values, "id": video}
    record = comment_of(part(body, "comment"), values)
    return Single({**record, "replies": replies_of(rows(body.get("children")), values)})


def _transcript(args: Args) -> Steps:
    """Return the transcript of a video. Captions by people take precedence over automatic ones."""
    answer = yield _CAPTIONS.at(args)
    tracks = rows(obj(answer.body).get("data"))
    wanted = args.text_or_none("language") or ""
    of_language = [one for one in tracks if _matches_language(wanted, ident(part(one, "language"), "id") or "")]
    if not of_language:
        problem = "The video has no captions in this language." if tracks else "The video has no captions."
        raise NotFound(problem, reason=_NO_CAPTIONS)
    track = min(of_language, key=lambda one: flag(one, "automaticallyGenerated") is True)
    path = text(track, "captionPath")
    address = text(track, "fileUrl") or (path and f"https://{args.text('instance')}{path}")
    call = call_from_answer(address, source="files", accepts=CAPTIONS, optional=True)
    if call is None:
        raise UnexpectedBody("the caption track has no file URL")
    answer = yield call
    if isinstance(answer, Missing) and answer.failure is not None and not isinstance(answer.failure, NotFound):
        raise answer.failure
    if isinstance(answer, Missing) or not answer.body["cues"]:
        raise NotFound("The video's captions are empty.", reason=_NO_CAPTIONS)
    return Single(transcript_of(answer.body, track, tracks))


def _matches_language(wanted: str, language: str) -> bool:
    """Return whether a language is the requested one or one of its national variants: `en-gb` matches `en`."""
    return not wanted or language.lower() == wanted or language.lower().startswith(f"{wanted}-")


PLATFORM = Platform(
    slug="peertube",
    title="PeerTube",
    category="video",
    docs_url="https://docs.joinpeertube.org/api-rest-reference.html",
    terms_url="https://framasoft.org/en/cgu/",
    checked_on="2026-11-23",
    sources={"instance": "https://{instance}/api/v1", "files": "https://{file_host}"},
    social=True,
    common=(INSTANCE,),
    refusals=Refusals(
        message="detail|error",
        private={401: "", 403: _ACCESS_WORDS},
        absent={404: "", 410: "", 451: "", 403: "follow constraints"},
        bad={400: {"parameters: id": "id"}},
    ),
    rest=Remaining("x-ratelimit-remaining", "x-ratelimit-reset", window_s=60.0),
    pace=Pace(50, per_s=10),
    endpoints=(
        listing(
            resource="search",
            summary="Search for videos on many instances.",
            archetype=POST_LIST,
            call=Get("/search/videos", search=QUERY, sort="-match"),
            pages=_VIDEOS,
            params=(SEARCHED,),
        ),
        listing(
            resource="search/channels",
            summary="Search for channels on many instances.",
            archetype=AUTHOR_LIST,
            call=Get("/search/video-channels", search=QUERY),
            pages=_AUTHORS,
            params=(SEARCHED,),
        ),
        listing(
            resource="trending",
            summary="The most watched videos right now.",
            archetype=POST_LIST,
            call=Get("/videos", sort="-trending"),
            pages=_VIDEOS,
        ),
        single(
            resource="video",
            summary="One video.",
            archetype=POST,
            call=Get("/videos/{id}", id=VIDEO.name),
            record=whole_video_of,
            located=VIDEO,
        ),
        listing(
            resource="video/comments",
            summary="Top-level comments on a video, newest first.",
            archetype=COMMENT_LIST,
            call=Get("/videos/{id}/comment-threads", id=VIDEO.name),
            pages=Pages(comment_of, _PAGED, at="data"),
            located=VIDEO,
        ),
        Endpoint(
            resource="video/comment",
            summary="One top-level comment on a video, with its replies.",
            archetype=COMMENT,
            read=_comment,
            located=THREAD,
            never=("engagement.likes", "flags.pinned", "author.verified"),
        ),
        Endpoint(
            resource="video/comment/replies",
            summary="Replies to a comment, as a tree.",
            archetype=COMMENT_LIST,
            read=_replies,
            params=(COMMENT_ID,),
            located=VIDEO,
            never=("total", "engagement.likes", "flags.pinned", "author.verified"),
        ),
        Endpoint(
            resource="video/transcript",
            summary="A video's transcript, from its captions.",
            archetype=TRANSCRIPT,
            read=_transcript,
            params=(LANGUAGE,),
            tier="premium",
            located=VIDEO,
        ),
        single(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            call=Get("/accounts/{name}", name=ACCOUNT),
            record=author_of,
        ),
        listing(
            resource="profile/posts",
            summary="Videos by an account, newest first.",
            archetype=POST_LIST,
            call=Get("/accounts/{name}/videos", name=ACCOUNT),
            pages=_VIDEOS,
        ),
        listing(
            resource="profile/channels",
            summary="An account's channels.",
            archetype=AUTHOR_LIST,
            call=Get("/accounts/{name}/video-channels", name=ACCOUNT),
            pages=_AUTHORS,
        ),
        single(
            resource="channel",
            summary="One channel.",
            archetype=AUTHOR,
            call=Get("/video-channels/{name}", name=CHANNEL),
            record=author_of,
        ),
        listing(
            resource="channel/videos",
            summary="A channel's videos, newest first.",
            archetype=POST_LIST,
            call=Get("/video-channels/{name}/videos", name=CHANNEL),
            pages=_VIDEOS,
        ),
        listing(
            resource="channel/playlists",
            summary="A channel's playlists.",
            archetype=COLLECTION_LIST,
            call=Get("/video-channels/{name}/video-playlists", name=CHANNEL),
            pages=Pages(playlist_of, _PAGED, at="data"),
        ),
        single(
            resource="playlist",
            summary="One playlist.",
            archetype=COLLECTION,
            call=Get("/video-playlists/{id}", id=PLAYLIST.name),
            record=playlist_of,
            located=PLAYLIST,
        ),
    ),
)
