"""Lemmy's recordings of versions 3 and 4 of its API as cases, compared with a table of the fields.

`piefed_post_list.json` is from different software, and `v3_real_site.json` (about the instance itself) belongs to no
endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, ident, table, utc
from upstreams.model.archetypes import author, byline, comment, post
from upstreams.model.errors import NotFound, UpstreamThrottled

_V3, _V4 = "lemmy.world/api/v3", "lemmy.world/api/v4"


def first(*paths: str) -> Any:
    """Return the value of the first of these members that exists."""
    return lambda row: next((found for path in paths if (found := at(row, path)) is not None), None)


def made_at(of_what: str) -> Any:
    """Return the time of publication, whose name depends on the version."""
    return lambda row: utc(f"{of_what}.published")(row) or utc(f"{of_what}.published_at")(row)


def either(*paths: str) -> Any:
    """Return whether one of these flags is set."""
    return lambda row: any(found) if (found := [at(row, path) for path in paths if at(row, path) is not None]) else None


def unless_deleted(source: Any) -> Any:
    """Return the text of a comment, or None if it was deleted."""
    read = source if callable(source) else lambda row: at(row, source)
    return lambda row: None if row["comment"].get("deleted") or row["comment"].get("removed") else read(row)


def _parent(row: Json) -> str:
    above = row["comment"]["path"].split(".")[-2]
    return str(row["comment"]["post_id"]) if above == "0" else above


PERSON: dict[str, Any] = {
    "id": ident("id"),
    "username": "name",
    "display_name": "display_name",
    "avatar_url": "avatar",
    "url": first("actor_id", "ap_id"),
}
POST = table(
    post,
    id=ident("post.id"),
    url="post.ap_id",
    text=lambda row: "\n\n".join(filter(None, (at(row, "post.name"), at(row, "post.body")))) or None,
    author=below("creator", table(byline, **PERSON)),
    thumbnail_url="post.thumbnail_url",
    likes=first("counts.score", "post.score"),
    comments=first("counts.comments", "post.comments"),
    pinned="post.featured_community",
    deleted=either("post.deleted", "post.removed"),
    nsfw="post.nsfw",
    published_at=made_at("post"),
    ext={
        "link": "post.url",
        "upvotes": first("counts.upvotes", "post.upvotes"),
        "downvotes": first("counts.downvotes", "post.downvotes"),
        "community": "community.name",
        "community_url": first("community.actor_id", "community.ap_id"),
    },
)
COMMENT = table(
    comment,
    id=ident("comment.id"),
    url="comment.ap_id",
    parent_id=_parent,
    post_id=ident("comment.post_id"),
    text=unless_deleted("comment.content"),
    author=unless_deleted(below("creator", table(byline, **PERSON))),
    likes=first("counts.score", "comment.score"),
    replies_count=first("counts.child_count", "comment.child_count"),
    deleted=either("comment.deleted", "comment.removed"),
    published_at=made_at("comment"),
)
ACCOUNT = table(
    author,
    **{
        name: (lambda row, read=read: read(row["person"]) if callable(read) else at(row["person"], read))
        for name, read in PERSON.items()
    },
    bio="person.bio",
    posts_count=first("counts.post_count", "person.post_count"),
    joined_at=made_at("person"),
    ext={
        "comment_count": first("counts.comment_count", "person.comment_count"),
        "bot_account": "person.bot_account",
        "banned": either("person.banned", "banned"),
    },
)
COMMUNITY = table(
    author,
    id=ident("community.id"),
    username="community.name",
    display_name="community.title",
    avatar_url="community.icon",
    bio="community.description",
    followers=first("counts.subscribers", "community.subscribers"),
    posts_count=first("counts.posts", "community.posts"),
    url=first("community.actor_id", "community.ap_id"),
    joined_at=made_at("community"),
    ext={
        "comment_count": first("counts.comments", "community.comments"),
        "active_monthly": first("counts.users_active_month", "community.users_active_month"),
        "nsfw": "community.nsfw",
    },
)


def rows(name: str, read: Callable[[Any], Json]) -> Any:
    """Return the rows of a list from either version. If there are several answers, only the last one counts."""
    return lambda *bodies: [read(row) for row in bodies[-1].get(name, bodies[-1].get("items"))]


_PERSON: Json = {
    "id": 7,
    "name": "ada",
    "display_name": "Ada",
    "avatar": "https://cdn.example.com/ada.png",
    "bio": "Writes parsers.",
    "actor_id": "https://lemmy.example.org/u/ada",
    "published": "2023-05-01T10:00:00.250000Z",
    "bot_account": False,
    "banned": False,
    "deleted": False,
}
_COMMUNITY: Json = {
    "id": 3,
    "name": "parsers",
    "title": "Parsers",
    "icon": "https://cdn.example.com/parsers.png",
    "description": "All about *parsers*.",
    "actor_id": "https://lemmy.example.org/c/parsers",
    "published": "2023-04-01T10:00:00Z",
    "nsfw": False,
    "deleted": False,
}
_POST: Json = {
    "id": 70,
    "name": "Parsers",
    "body": "All the way *down*.",
    "url": "https://example.com/parsers",
    "thumbnail_url": "https://cdn.example.com/70.png",
    "ap_id": "https://lemmy.example.org/post/70",
    "published": "2023-05-02T10:00:00Z",
    "featured_community": False,
    "deleted": False,
    "removed": False,
    "nsfw": False,
}
_COMMENT: Json = {
    "id": 34,
    "post_id": 70,
    "path": "0.12.34",
    "content": "Why *not*?",
    "ap_id": "https://lemmy.example.org/comment/34",
    "published": "2023-05-02T11:00:00Z",
    "deleted": False,
    "removed": False,
}
_COUNTS: Json = {
    "score": 3,
    "upvotes": 5,
    "downvotes": 2,
    "comments": 4,
    "child_count": 1,
    "post_count": 6,
    "comment_count": 9,
    "subscribers": 40,
    "posts": 11,
    "users_active_month": 8,
}
_BY: Json = {"creator": _PERSON, "community": _COMMUNITY, "counts": _COUNTS}
_ROWS: Json = {
    "posts": [{"post": _POST, **_BY}],
    "comments": [{"comment": _COMMENT, **_BY}],
    "users": [{"person": _PERSON, "counts": _COUNTS}],
    "communities": [{"community": _COMMUNITY, "counts": _COUNTS}],
}


def _listed(name: str, resource: str, call: str, body: Any, **more: Any) -> Case:
    """Return a case for a list from version 3 that has fewer rows than requested."""
    params = {"limit": 50, **more.pop("params", {})}
    kind = more.pop("kind")
    return Case(name, resource, params, {f"{_V3}{call}": body}, rows(kind, _READ[kind]), **more)


def _single(name: str, resource: str, params: Json, place: str, body: Any) -> Case:
    at_name, read = _SINGLES[resource]
    return Case(name, resource, params, {place: body}, lambda found: read(found[at_name]))


_READ = {"posts": POST, "comments": COMMENT, "users": ACCOUNT, "communities": COMMUNITY}
_SINGLES = {
    "post": ("post_view", POST),
    "comment": ("comment_view", COMMENT),
    "profile": ("person_view", ACCOUNT),
    "community": ("community_view", COMMUNITY),
}
_NEWER: Json = {
    "post": {**_POST, **_COUNTS, "published_at": _POST["published"]},
    "creator": {**_PERSON, "ap_id": _PERSON["actor_id"]},
    "community": {**_COMMUNITY, "ap_id": _COMMUNITY["actor_id"]},
}
for _part, _old in (("post", "published"), ("creator", "actor_id"), ("community", "actor_id")):
    del _NEWER[_part][_old]
_NAMED = {"handle": "ada@lemmy.example.org"}

CASES: tuple[Case, ...] = (
    _listed("posts", "posts", "/post/list", "v3_post_list.json", kind="posts", has_more=True),
    _listed("posts by hand", "posts", "/post/list", {**_ROWS, "next_page": "Pa1"}, kind="posts", has_more=True),
    *(
        Case("posts of 1.0", "posts", {}, {f"{_V4}/post/list": body}, rows("posts", POST), has_more=True)
        for body in ("b_v4_post_list.json", {"items": [_NEWER], "next_page": "P2"})
    ),
    Case(
        "posts of a server that is asked too often",
        "posts",
        {},
        {f"{_V3}/post/list": "v4_error__too_many_requests.json"},
        refused=UpstreamThrottled,
    ),
    _single("a post", "post", {"id": "10133939"}, f"{_V3}/post", "v3_real_post.json"),
    _single("a post by hand", "post", {"id": "70"}, f"{_V3}/post", {"post_view": _ROWS["posts"][0]}),
    Case("no such post", "post", {"id": "0"}, {f"{_V3}/post": "v3_error__couldnt_find_post.json"}, refused=NotFound),
    Case(
        "no such post in either version",
        "post",
        {"id": "0"},
        {f"{version}/post": "v4_error__not_found.json" for version in (_V3, _V4)},
        refused=NotFound,
    ),
    *(
        _listed(
            "comments", "post/comments", "/comment/list", body, kind="comments", params={"id": "180"}, has_more=False
        )
        for body in ("v3_comment_list.json", _ROWS)
    ),
    _single("a comment", "comment", {"id": "34"}, f"{_V3}/comment", {"comment_view": _ROWS["comments"][0]}),
    *(
        _single(
            f"a comment that was {how}",
            "comment",
            {"id": "34"},
            f"{_V3}/comment",
            {"comment_view": {**_ROWS["comments"][0], "comment": {**_COMMENT, how: True}}},
        )
        for how in ("deleted", "removed")
    ),
    _single("a comment of 1.0", "comment", {"id": "34"}, f"{_V4}/comment", {"comment_view": _ROWS["comments"][0]}),
    *(
        _single("an account", "profile", _NAMED, f"{_V3}/user", body)
        for body in ("v3_person_details.json", "v3_real_person.json", {"person_view": _ROWS["users"][0]})
    ),
    _single("an account of 1.0", "profile", _NAMED, f"{_V4}/person", "v4_person.json"),
    *(
        _listed(f"{kind} of an account", f"profile/{kind}", "/user", body, kind=kind, params=_NAMED)
        for kind in ("posts", "comments")
        for body in ("v3_real_person.json", _ROWS)
    ),
    _single(
        "a community",
        "community",
        {"name": "asklemmy"},
        f"{_V3}/community",
        {"community_view": _ROWS["communities"][0]},
    ),
    _listed("communities", "communities", "/community/list", _ROWS, kind="communities", has_more=False),
    _listed("posts by query", "search", "/search", _ROWS, kind="posts", params={"query": "parsers"}),
    *(
        _listed(f"{kind} by query", f"search/{kind}", "/search", _ROWS, kind=kind, params={"query": "parsers"})
        for kind in ("comments", "users", "communities")
    ),
)
