"""Discourse's recordings as cases, compared with a table of the fields.

These recordings belong to no endpoint: `api_gem_groups.json`, `api_gem_user_badges.json` (no archetype contains groups
and badges), `api_gem_search.json` (a format that forums no longer use), `post.json` (a single post, read as a row in
`test_traps.py`) and `topic_rss__2144.json` (a feed). The portions of posts, `topic_posts__*.json`, are answers to the
second call of `post/comments`. `test_traps.py` uses them with topics that are built from their numbers. The same
applies to the posts of `topic__1148.json`, whose list of numbers was invented by its source.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, ident, table, utc
from upstreams.model.archetypes import author, byline, comment, post
from upstreams.model.fields import plain

HOST = "forum.example.org"
_SITE = f"https://{HOST}"


def text(*paths: str) -> Any:
    """Return the text of the first of these HTML members that has any text."""
    return lambda row: plain(next((found for path in paths if (found := at(row, path))), None))


def absolute(path: str) -> Any:
    """Return the full form of a URL that may be a path on the forum."""

    def read(row: Json) -> str | None:
        found = at(row, path)
        return f"{_SITE}{found}" if found and found.startswith("/") else found

    return read


def _avatar(row: Json) -> str | None:
    found = absolute("avatar_template")(row)
    return found and found.replace("{size}", "240")


def _user(number: str = "id") -> dict[str, Any]:
    return {
        "id": ident(number),
        "username": "username",
        "display_name": "name",
        "avatar_url": _avatar,
        "url": lambda row: f"{_SITE}/u/{row['username']}" if row.get("username") else None,
    }


def _tags(row: Json) -> list[str] | None:
    found = row.get("tags")
    return None if found is None else [one["name"] if isinstance(one, dict) else one for one in found]


TOPIC: dict[str, Any] = {
    "id": ident("id"),
    "url": lambda row: f"{_SITE}/t/{row['slug']}/{row['id']}",
    "comments": lambda row: row["posts_count"] - 1,
    "pinned": "pinned",
    "published_at": utc("created_at"),
    "ext": {
        "tags": _tags,
        "category_id": ident("category_id"),
        "last_posted_at": utc("last_posted_at"),
        "closed": "closed",
    },
}
_LISTED: dict[str, Any] = {"thumbnail_url": absolute("image_url"), "views": "views", "likes": "like_count"}
BYLINE, MEMBER = table(byline, **_user()), table(author, **_user())
FOUND = table(post, **TOPIC, text="title")
ONE_TOPIC = table(
    post,
    **TOPIC,
    **_LISTED,
    text=lambda row: "\n\n".join(filter(None, (row["title"], text("post_stream.posts.0.cooked")(row)))),
    author=lambda row: BYLINE(row["details"]["created_by"]),
)


def topics(body: Json) -> list[Json]:
    """Return the topics in a list. Their authors are in a separate list of the body."""
    users = {user["id"]: BYLINE(user) for user in body.get("users", ())}

    def began(row: Json) -> Json:
        number = row["posters"][0]["user_id"]
        return users.get(number) or byline(id=str(number))

    read = table(post, **TOPIC, **_LISTED, text="title", author=began)
    return [read(row) for row in body["topic_list"]["topics"]]


def _deleted(row: Json) -> bool | None:
    marks = [row[name] for name in ("user_deleted", "deleted_at") if row.get(name) is not None]
    return any(marks) if marks else None


def _likes(row: Json) -> int | None:
    return next((action["count"] for action in row["actions_summary"] if action["id"] == 2), None)


_REPLY: dict[str, Any] = {
    "id": ident("id"),
    "url": lambda row: f"{_SITE}/t/{row['topic_slug']}/{row['topic_id']}/{row['post_number']}",
    "post_id": ident("topic_id"),
    "text": lambda row: None if _deleted(row) else text("cooked")(row),
    "author": lambda row: None if _deleted(row) else table(byline, **_user("user_id"))(row),
    "likes": _likes,
    "replies_count": "reply_count",
    "deleted": _deleted,
    "published_at": utc("created_at"),
}
REPLY = table(comment, **_REPLY)
ACTION = table(
    comment,
    id=ident("post_id"),
    url=lambda row: f"{_SITE}/t/{row['slug']}/{row['topic_id']}/{row['post_number']}",
    post_id=ident("topic_id"),
    text=lambda row: None if row.get("deleted") else text("excerpt")(row),
    author=lambda row: None if row.get("deleted") else table(byline, **_user("user_id"))(row),
    deleted="deleted",
    published_at=utc("created_at"),
)
PROFILE = table(
    author,
    **_user(),
    bio=text("bio_cooked", "bio_raw"),
    posts_count="post_count",
    private="profile_hidden",
    joined_at=utc("created_at"),
    location="location",
    external_url="website",
    ext={
        "last_seen_at": utc("last_seen_at"),
        "profile_views": "profile_view_count",
        "trust_level": "trust_level",
        "title": "title",
    },
)
CATEGORY = table(
    author,
    id=ident("id"),
    username="slug",
    display_name="name",
    avatar_url=absolute("uploaded_logo.url"),
    bio=text("description"),
    posts_count="post_count",
    url=lambda row: f"{_SITE}/c/{row['slug']}/{row['id']}",
    private="read_restricted",
    ext={"topic_count": "topic_count"},
)


def replies(limit: int) -> Any:
    """Return the posts in a topic, except the first one."""

    def read(topic: Json, *portions: Json) -> list[Json]:
        posts = {one["id"]: one for body in (topic, *portions) for one in body["post_stream"]["posts"]}
        ids = {one["post_number"]: str(one["id"]) for one in posts.values()}
        wanted = [posts[one] for one in topic["post_stream"]["stream"][1 : limit + 1] if one in posts]
        ids |= dict.fromkeys((None, 1), str(wanted[0]["topic_id"]))
        return [{**REPLY(one), "parent_id": ids.get(one["reply_to_post_number"])} for one in wanted]

    return read


_ADA: Json = {
    "id": 7,
    "username": "ada",
    "name": "Ada",
    "avatar_template": "/user_avatar/forum.example.org/ada/{size}/1.png",
}
_TOPIC: Json = {
    "id": 7070,
    "slug": "parsers",
    "title": "Parsers & more",
    "posts_count": 3,
    "image_url": "/uploads/70.png",
    "views": 40,
    "like_count": 5,
    "pinned": False,
    "closed": False,
    "tags": [{"id": 1, "name": "parsers"}],
    "category_id": 3,
    "created_at": "2023-05-01T10:00:00.250Z",
    "last_posted_at": "2023-05-02T10:00:00.000Z",
    "posters": [{"user_id": 7}, {"user_id": 8}],
}
_POST: Json = {
    **{name: value for name, value in _ADA.items() if name != "id"},
    "id": 702,
    "user_id": 7,
    "topic_id": 7070,
    "topic_slug": "parsers",
    "post_number": 3,
    "reply_to_post_number": 2,
    "reply_count": 1,
    "cooked": "<p>Why <em>not</em>?</p>",
    "actions_summary": [{"id": 2, "count": 4}],
    "user_deleted": False,
    "deleted_at": None,
    "created_at": "2023-05-01T12:00:00.000Z",
}
_SECOND: Json = {**_POST, "id": 701, "post_number": 2, "reply_to_post_number": None}
_OPENING: Json = {**_POST, "id": 700, "post_number": 1, "reply_to_post_number": None}
_WHOLE: Json = {
    **_TOPIC,
    "details": {"created_by": _ADA},
    "post_stream": {"posts": [_OPENING, _SECOND], "stream": [700, 701, 702]},
}
_LIST: Json = {"users": [_ADA], "topic_list": {"topics": [_TOPIC], "more_topics_url": "/latest?page=1"}}
_USER: Json = {
    **_ADA,
    "bio_cooked": "<p>Writes parsers.</p>",
    "bio_raw": "Writes parsers.",
    "post_count": 12,
    "profile_hidden": False,
    "location": "London",
    "website": "https://ada.example.org",
    "profile_view_count": 30,
    "trust_level": 2,
    "title": "Regular",
    "created_at": "2020-05-01T10:00:00.000Z",
    "last_seen_at": "2023-05-01T10:00:00.000Z",
}


def found_posts(body: Json) -> list[Json]:
    """Return the posts that a search found. Their topics are in a separate list of the body."""
    slugs = {one["id"]: one["slug"] for one in body["topics"]}
    read = table(
        comment,
        **{name: one for name, one in _REPLY.items() if name not in ("replies_count", "deleted")}
        | {
            "text": text("blurb"),
            "likes": "like_count",
            "author": table(byline, **_user() | {"id": lambda _row: None}),
        },
    )
    return [read({**one, "topic_slug": slugs.get(one["topic_id"], "-")}) for one in body["posts"]]


_ACTION: Json = {**_POST, "post_id": 702, "slug": "parsers", "excerpt": "Why not&hellip;", "deleted": False}
_KEPT = ("username", "name", "avatar_template", "id", "topic_id", "post_number", "created_at")
_FOUND: Json = {**{name: _POST[name] for name in _KEPT}, "blurb": "&hellip;why <em>not</em>&hellip;", "like_count": 4}
_GROUPED: Json = {"topics": [_TOPIC], "posts": [_FOUND], "grouped_search_result": {"more_full_page_results": True}}
_CATEGORY: Json = {
    "id": 3,
    "slug": "tools",
    "name": "Tools",
    "description": "All <b>tools</b>.",
    "uploaded_logo": {"url": "/uploads/3.png"},
    "post_count": 50,
    "topic_count": 9,
    "read_restricted": False,
}


def _case(resource: str, path: str, body: Any, read: Any, *, has_more: bool | None = None, **params: Any) -> Case:
    told = body if isinstance(body, str) else "a body made by hand"
    return Case(f"{resource}: {told}", resource, {"host": HOST, **params}, {f"{HOST}{path}": body}, read, has_more)


def rows(path: str, read: Any) -> Any:
    """Return the rows of a list."""
    return lambda body: [read(row) for row in at(body, path)]


_CATEGORIES = rows("category_list.categories", CATEGORY)
_MEMBERS, _MEMBERS_PATH = rows("members", MEMBER), "/groups/mygroup/members.json"
_LATEST, _ACTIONS = rows("latest_posts", REPLY), rows("user_actions", ACTION)


def _lone(body: Json) -> Json:
    """Return a post that replies to the topic itself."""
    return {**REPLY(body), "parent_id": str(body["topic_id"])}


CASES: tuple[Case, ...] = (
    _case("posts", "/latest.json", "latest_topics.json", topics, has_more=False),
    _case("posts", "/latest.json", "latest_topics_pinned.json", topics, has_more=False),
    _case("posts", "/latest.json", "latest_topics_empty.json", topics, has_more=False),
    _case("posts", "/latest.json", _LIST, topics, has_more=True),
    _case("posts/top", "/top.json", _LIST, topics),
    _case("category/posts", "/c/-/3131.json", _LIST, topics, category="3131"),
    _case("profile/posts", "/topics/created-by/ada.json", _LIST, topics, handle="ada"),
    _case("post", "/t/1148.json", "topic__1148.json", ONE_TOPIC, id="1148"),
    _case("post", "/t/7070.json", _WHOLE, ONE_TOPIC, id="7070"),
    _case("post/comments", "/t/7070.json", _WHOLE, replies(1), has_more=True, id="7070", limit=1),
    Case(
        "posts of a second portion",
        "post/comments",
        {"host": HOST, "id": "7070"},
        {f"{HOST}/t/7070.json": _WHOLE, f"{HOST}/t/7070/posts.json": {"post_stream": {"posts": [_POST]}}},
        replies(20),
        has_more=False,
        total=2,
    ),
    _case("comment", "/posts/7010.json", {**_SECOND, "id": 7010}, _lone, id="7010"),
    _case("comment", "/posts/by_number/7070/200.json", _SECOND, _lone, url=f"https://{HOST}/t/parsers/7070/200"),
    _case("comments", "/posts.json", "posts_latest_json.json", _LATEST, has_more=True),
    *(
        _case("comments", "/posts.json", {"latest_posts": [{**_POST, **more}]}, _LATEST)
        for more in ({}, {"user_deleted": True}, {"deleted_at": "2023-05-01T12:00:00.000Z"})
    ),
    _case("categories", "/categories.json", "api_gem_categories.json", _CATEGORIES, has_more=False, limit=80),
    _case("categories", "/categories.json", {"category_list": {"categories": [_CATEGORY]}}, _CATEGORIES, limit=80),
    _case("profile", "/u/ada.json", "api_gem_user.json", lambda body: PROFILE(body["user"]), handle="ada"),
    _case("profile", "/u/ada.json", {"user": _USER}, lambda body: PROFILE(body["user"]), handle="ada"),
    _case("profile/comments", "/user_actions.json", "api_gem_replies.json", _ACTIONS, handle="ada"),
    *(
        _case("profile/comments", "/user_actions.json", {"user_actions": [one]}, _ACTIONS, handle="ada")
        for one in (_ACTION, {**_ACTION, "deleted": True})
    ),
    _case(
        "group/members", _MEMBERS_PATH, "api_gem_members_0.json", _MEMBERS, has_more=True, group="mygroup", limit=100
    ),
    _case(
        "group/members", _MEMBERS_PATH, "api_gem_members_1.json", _MEMBERS, has_more=False, group="mygroup", limit=100
    ),
    _case("group/members", _MEMBERS_PATH, {"members": [_ADA]}, _MEMBERS, has_more=False, group="mygroup"),
    _case("search", "/search.json", _GROUPED, rows("topics", FOUND), has_more=True, query="parsers"),
    _case("search/comments", "/search.json", _GROUPED, found_posts, has_more=True, query="parsers"),
)
