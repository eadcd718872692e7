"""Bluesky's recordings as cases. The expected records come from a table of fields, not from the platform's code.

These recordings belong to no endpoint: `lexicons/*` (the interface's schemas), `_errors_reference.json`,
`did_doc.json`, `getRecord_post.json` (a post without its author and counts) and `getRepostedBy.json`. The rows of
`getProfiles__six.json` and `getQuotes.json` are read in the tests in this folder.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, table, utc
from upstreams.model import archetypes as make
from upstreams.model.errors import NotFound

_APPVIEW = "public.api.bsky.app/xrpc"
_RESOLVED = {f"{_APPVIEW}/com.atproto.identity.resolveHandle": "resolveHandle.json"}


def key_of(uri: str | None) -> str | None:
    """Return the last part of a URI."""
    return None if uri is None else uri.split("/")[-1]


def address(view: Json) -> str | None:
    """Return the URL of a post. A deleted post has no author."""
    handle = at(view, "author.handle")
    return handle and f"https://bsky.app/profile/{handle}/post/{key_of(view['uri'])}"


def first(*paths: str) -> Any:
    """Return the value at the first path that has one."""
    return lambda row: next((found for path in paths if (found := at(row, path)) is not None), None)


def _verified(actor: Json) -> bool | None:
    status = at(actor, "verification.verifiedStatus")
    return None if status is None else status == "valid"


_ACCOUNT: Json = {
    "id": lambda actor: actor["did"].replace("did:", "", 1),
    "username": "handle",
    "display_name": "displayName",
    "avatar_url": "avatar",
    "verified": _verified,
    "url": lambda actor: f"https://bsky.app/profile/{actor['handle']}",
}
author = table(
    make.author,
    **_ACCOUNT,
    bio="description",
    followers="followersCount",
    following="followsCount",
    posts_count="postsCount",
    joined_at=utc("createdAt"),
    external_url="website",
)
_BYLINE = table(make.byline, **_ACCOUNT)


def _media(row: Json) -> list[str]:
    media = first("post.embed.media", "post.embed")(row) or {}
    return [*(image["fullsize"] for image in media.get("images", [])), *filter(None, [media.get("playlist")])]


def _shares(row: Json) -> int | None:
    counts = [row["post"][name] for name in ("repostCount", "quoteCount") if name in row["post"]]
    return sum(counts) if counts else None


_POST = table(
    make.post,
    id=lambda row: key_of(row["post"]["uri"]),
    url=lambda row: address(row["post"]),
    text="post.record.text",
    author=below("post.author", _BYLINE),
    media_urls=_media,
    thumbnail_url=first(
        *(f"post.embed.{at}" for at in ("media.thumbnail", "media.images.0.thumb", "media.external.thumb")),
        *(f"post.embed.{at}" for at in ("thumbnail", "images.0.thumb", "external.thumb")),
    ),
    likes="post.likeCount",
    comments="post.replyCount",
    shares=_shares,
    saves="post.bookmarkCount",
    pinned=lambda row: (at(row, "reason.$type") or "").endswith("#reasonPin") or None,
    nsfw=lambda row: bool(
        {"porn", "sexual", "nudity", "graphic-media"} & {label["val"] for label in row["post"]["labels"]}
    ),
    published_at=utc("post.record.createdAt"),
    ext={
        "uri": "post.uri",
        "cid": "post.cid",
        "language": "post.record.langs.0",
        "langs": "post.record.langs",
        "indexed_at": utc("post.indexedAt"),
        "reposts": "post.repostCount",
        "quotes": "post.quoteCount",
        "link": first("post.embed.external.uri", "post.embed.media.external.uri"),
        "reply_to": "post.record.reply.parent.uri",
        "reposted_by": "reason.by.handle",
        "reposted_at": utc("reason.indexedAt"),
    },
)
_COMMENT = table(
    make.comment,
    id=lambda view: key_of(view["uri"]),
    url=address,
    text="record.text",
    author=below("author", _BYLINE),
    likes="likeCount",
    replies_count="replyCount",
    published_at=utc("record.createdAt"),
)


def post(view: Json, reason: Json | None = None) -> Json:
    """Return the Post that the table defines."""
    return _POST({"post": view, "reason": reason})


def comment(node: Json, parent_id: str | None, post_id: str | None) -> Json:
    """Return the Comment that the table defines, with its replies. A deleted comment has only its URI."""
    found = _COMMENT(node["post"] if "post" in node else {"uri": node["uri"]})
    replies = [comment(reply, found["id"], post_id) for reply in node.get("replies", [])]
    flags = {"pinned": None, "deleted": None if "post" in node else True}
    return {**found, "parent_id": parent_id, "post_id": post_id, "flags": flags, "replies": replies}


def comments(thread: Json) -> list[Json]:
    """Return the rows of a thread."""
    root = key_of(thread["post"]["uri"])
    return [comment(reply, root, root) for reply in thread["replies"]]


def _feed(body: Json) -> list[Json]:
    return [post(row["post"], row.get("reason")) for row in body["feed"]]


def _thread(_resolved: Json, body: Json) -> list[Json]:
    return comments(body["thread"])


def _likers(_resolved: Json, body: Json) -> list[Json]:
    return [author(like["actor"]) for like in body["likes"]]


def _profile_case(name: str, file: Any, **params: str) -> Case:
    return Case(name, "profile", params, {f"{_APPVIEW}/app.bsky.actor.getProfile": file}, expected=author)


def _feed_case(name: str, file: str) -> Case:
    answers = {f"{_APPVIEW}/app.bsky.feed.getAuthorFeed": file}
    return Case(name, "user/posts", {"handle": "alice.test"}, answers, expected=_feed, has_more=False)


def _of_post(name: str, resource: str, call: str, file: Any, **more: Any) -> Case:
    url = {"url": "https://bsky.app/profile/alice.test/post/3kaheyt6vpc22"}
    return Case(name, resource, url, {**_RESOLVED, f"{_APPVIEW}/app.bsky.feed.{call}": file}, **more)


_ACTOR: Json = {
    "did": "did:plc:ada",
    "handle": "ada.example.org",
    "displayName": "Ada",
    "avatar": "https://cdn.example.com/ada.png",
    "description": "Writes parsers.",
    "createdAt": "2023-05-01T10:00:00.250Z",
    "followersCount": 12,
    "followsCount": 7,
    "postsCount": 5,
    "website": "https://ada.example.org",
    "verification": {"verifiedStatus": "valid"},
}
_COUNTS = ("followersCount", "followsCount", "postsCount", "website")
_LISTED_ACTOR = {name: value for name, value in _ACTOR.items() if name not in _COUNTS}
"""Return an account in the form in which lists contain it."""
_IMAGES = {"images": [{"thumb": "https://cdn.example.com/1-small", "fullsize": "https://cdn.example.com/1"}]}
_VIDEO = {"playlist": "https://cdn.example.com/1.m3u8", "thumbnail": "https://cdn.example.com/1.jpg"}
_CARD = {"external": {"uri": "https://example.com/1", "thumb": "https://cdn.example.com/1-card"}}
_VIEW: Json = {
    "uri": "at://did:plc:ada/app.bsky.feed.post/3lada",
    "cid": "bafyrei3lada",
    "author": _ACTOR,
    "record": {
        "text": "Parsers, all the way down.",
        "langs": ["en"],
        "createdAt": "2023-05-01T10:00:00.250Z",
        "reply": {"parent": {"uri": "at://did:plc:bob/app.bsky.feed.post/3lbob"}},
    },
    "embed": {**_IMAGES, **_VIDEO, **_CARD},
    "labels": [{"val": "porn"}],
    "likeCount": 3,
    "replyCount": 2,
    "repostCount": 4,
    "quoteCount": 1,
    "bookmarkCount": 6,
    "indexedAt": "2023-05-01T10:00:01Z",
}
_REPLYING: Json = {
    **_VIEW,
    "record": {
        **_VIEW["record"],
        "reply": {**_VIEW["record"]["reply"], "root": {"uri": "at://did:plc:bob/app.bsky.feed.post/3lroot"}},
    },
}
_FIRST: Json = {**_VIEW, "record": {name: it for name, it in _VIEW["record"].items() if name != "reply"}}
_REPOST = {"$type": "app.bsky.feed.defs#reasonRepost", "by": _ACTOR, "indexedAt": "2023-05-02T10:00:00Z"}
_PIN = {"$type": "app.bsky.feed.defs#reasonPin"}
_PINNED = {**_VIEW, "uri": "at://did:plc:ada/app.bsky.feed.post/3ladb"}
_OWN_FEED = {"feed": [{"post": _VIEW, "reason": _REPOST}, {"post": _PINNED, "reason": _PIN}], "cursor": "3l"}
_THREAD = {"thread": {"post": _VIEW, "replies": [{"post": _VIEW, "replies": []}]}}
_SIGNED_IN = {"bsky.social/xrpc/com.atproto.server.createSession": {"accessJwt": "token"}}


def _lone(_resolved: Json, body: Json) -> Json:
    view = body["posts"][0]
    reply = view["record"]["reply"]
    return comment({"post": view}, key_of(reply["parent"]["uri"]), key_of(reply["root"]["uri"]))


CASES: tuple[Case, ...] = (
    _profile_case("one's own profile", "getProfile__own.json", handle="alice.test"),
    _profile_case("a profile with avatar and banner", "getProfile__avatar_banner.json", handle="@alice.test"),
    _profile_case("a profile of which little is known", "getProfile__other_sparse.json", handle="dan.test"),
    _profile_case("a verified profile by its DID", "public_profile__2025.json", user_id="plc:x7d6j54pm22ufehkes6jo4jf"),
    _feed_case("posts of an account, with quotes and images", "getAuthorFeed__1.json"),
    _feed_case("posts of an account, replies among them", "getAuthorFeed__2.json"),
    Case(
        "followers",
        "followers",
        {"handle": "alice.test"},
        {f"{_APPVIEW}/app.bsky.graph.getFollowers": "getFollowers.json"},
        expected=lambda body: [author(actor) for actor in body["followers"]],
        has_more=False,
    ),
    Case(
        "followed accounts of the live network",
        "following",
        {"user_id": "did:plc:kvwvcn5iqfooopmyzvb4qzba"},
        {f"{_APPVIEW}/app.bsky.graph.getFollows": "getFollows__bsky_social_2023.json"},
        expected=lambda body: [author(actor) for actor in body["follows"]],
        has_more=False,
    ),
    _of_post("likes of a post", "post/likes", "getLikes", "getLikes.json", expected=_likers, has_more=False),
    _of_post("likes of a reply", "post/likes", "getLikes", "getLikes__reply.json", expected=_likers, has_more=False),
    _of_post("a post", "post", "getPosts", "getPosts.json", expected=lambda _, body: post(body["posts"][0])),
    _of_post("a reply by hand", "comment", "getPosts", {"posts": [_REPLYING]}, expected=_lone),
    _of_post("a post is no reply", "comment", "getPosts", {"posts": [_FIRST]}, refused=NotFound),
    _of_post("a deep thread", "post/comments", "getPostThread", "getPostThread__deep.json", expected=_thread),
    _of_post("a thread of replies", "post/comments", "getPostThread", "getPostThread__deleted.json", expected=_thread),
    _of_post(
        "a thread without replies",
        "post/comments",
        "getPostThread",
        "getPostThread__embed_media_2023.json",
        expected=_thread,
        has_more=False,
    ),
    _of_post("a blocked root", "post/comments", "getPostThread", "getPostThread__blocked.json", refused=NotFound),
    _profile_case("a profile by hand", _ACTOR, handle="ada.example.org"),
    Case(
        "a feed by hand",
        "user/posts",
        {"handle": "ada.example.org"},
        {f"{_APPVIEW}/app.bsky.feed.getAuthorFeed": _OWN_FEED},
        expected=_feed,
    ),
    *(
        Case(
            f"{resource} by hand",
            resource,
            {"handle": "ada.example.org"},
            {f"{_APPVIEW}/app.bsky.graph.{call}": {rows: [_LISTED_ACTOR]}},
            expected=lambda body, rows=rows: [author(actor) for actor in body[rows]],
        )
        for resource, call, rows in (("followers", "getFollowers", "followers"), ("following", "getFollows", "follows"))
    ),
    _of_post("likes by hand", "post/likes", "getLikes", {"likes": [{"actor": _LISTED_ACTOR}]}, expected=_likers),
    _of_post("a thread by hand", "post/comments", "getPostThread", _THREAD, expected=_thread),
    _of_post("a post by hand", "post", "getPosts", {"posts": [_VIEW]}, expected=lambda _, body: post(body["posts"][0])),
    Case(
        "accounts by query, by hand",
        "search/users",
        {"query": "parsers"},
        {f"{_APPVIEW}/app.bsky.actor.searchActors": {"actors": [_ACTOR], "cursor": "2"}},
        expected=lambda body: [author(actor) for actor in body["actors"]],
        has_more=True,
    ),
    Case(
        "posts by query, by hand",
        "search",
        {"query": "parsers"},
        {**_SIGNED_IN, "bsky.social/xrpc/app.bsky.feed.searchPosts": {"posts": [_VIEW], "hitsTotal": 2}},
        expected=lambda _, body: [post(view) for view in body["posts"]],
        total=2,
        credentials={"identifier": "ada.test", "password": "abcd-efgh"},
    ),
)
