"""Hacker News' recordings as cases. The expected records come from a table of fields, not from the platform's code.

Firebase's recordings are single items and users, and no list is recorded, so the tests in this folder build the lists.
`firebase_maxitem.json`, the last item's number, belongs to no endpoint.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import unescape
from typing import Any

from tests.platforms.case import Case
from upstreams.model.errors import NotFound
from upstreams.model.fields import plain

Json = dict[str, Any]

_API = "hn.algolia.com/api/v1"


def first(item: Json, *names: str) -> Any:
    """Return the value of the first of these members that is not empty."""
    return next((item[name] for name in names if item.get(name) not in (None, "")), None)


def seconds(told: str | int | None) -> str | None:
    """Return a recorded time to the second, because all times here are whole seconds."""
    return told[:19] + "Z" if isinstance(told, str) else None


def byline(name: str | None) -> Json | None:
    """Return the author of an item as an account of which only the name is known."""
    if name is None:
        return None
    return {
        "id": name,
        "username": name,
        "display_name": None,
        "avatar_url": None,
        "verified": None,
        "url": f"https://news.ycombinator.com/user?id={name}",
    }


def post(item: Json) -> Json:
    """Return the Post that the table defines, from a hit or an item."""
    item_id = str(first(item, "objectID", "id"))
    title, words = first(item, "title"), plain(first(item, "story_text", "comment_text", "text"))
    parent, story = first(item, "parent_id", "parent"), first(item, "story_id")
    story_title = first(item, "story_title")
    return {
        "id": item_id,
        "url": f"https://news.ycombinator.com/item?id={item_id}",
        "content": {
            "text": "\n\n".join(piece for piece in (title and unescape(title), words) if piece),
            "media_urls": [],
            "thumbnail_url": None,
            "duration_seconds": None,
        },
        "author": byline(first(item, "author", "by")),
        "engagement": {
            "views": None,
            "likes": first(item, "points", "score"),
            "comments": first(item, "num_comments", "descendants"),
            "shares": None,
            "saves": None,
        },
        "flags": {"pinned": None, "deleted": None, "nsfw": None, "spoiler": None},
        "published_at": seconds(first(item, "created_at")),
        "ext": {
            "link": first(item, "url"),
            "type": item.get("type") or item["_tags"][0],
            "parent_id": parent and str(parent),
            "story_id": story and str(story),
            "story_title": story_title and unescape(story_title),
        },
    }


def author(user: Json) -> Json:
    """Return the Author that the table defines."""
    name = user.get("username") or user["id"]
    return {
        "id": name,
        "username": name,
        "display_name": None,
        "avatar_url": None,
        "bio": plain(first(user, "about")),
        "verified": None,
        "followers": None,
        "following": None,
        "posts_count": None,
        "likes_count": user["karma"],
        "url": f"https://news.ycombinator.com/user?id={name}",
        "private": None,
        "joined_at": seconds(user.get("created_at")),
        "location": None,
        "external_url": None,
        "ext": {},
    }


def comment(item: Json) -> Json:
    """Return the Comment that the table defines, from an item that has an author and a text."""
    item_id, story = str(item["id"]), first(item, "story_id")
    made = first(item, "created_at")
    return {
        "id": item_id,
        "url": f"https://news.ycombinator.com/item?id={item_id}",
        "parent_id": str(first(item, "parent_id", "parent")),
        "post_id": story and str(story),
        "text": plain(item["text"]),
        "author": byline(first(item, "author", "by")),
        "engagement": {"likes": None, "replies": None},
        "flags": {"pinned": None, "deleted": None},
        "published_at": seconds(made) or f"{datetime.fromtimestamp(item['time'], UTC):%Y-%m-%dT%H:%M:%SZ}",
        "replies": [comment(reply) for reply in item.get("children", ())],
    }


_SAID: Json = {
    "id": 90000008863002,
    "type": "comment",
    "author": "ada",
    "text": "Why <i>not</i>?",
    "parent_id": 8863,
    "story_id": 8863,
    "created_at": "2023-05-02T10:00:00.000Z",
    "children": [],
}


def _hits(body: Json) -> list[Json]:
    return [post(hit) for hit in body["hits"]]


def _found(file: str, tags: str, query: str = "*", *, total: int, sort: str = "relevance", limit: int = 1) -> Case:
    path = "search_by_date" if sort == "recent" else "search"
    return Case(
        f"{tags} by {sort}, {query}",
        "search",
        {"query": query, "tags": tags, "sort": sort, "limit": limit},
        {f"{_API}/{path}": f"algolia_{path}__{file}.json"},
        expected=_hits,
        has_more=True,
        total=total,
    )


CASES: tuple[Case, ...] = (
    _found("tags_ask_hn__page_2__query_apple", "(ask_hn)", "apple", total=849),
    _found("tags_comment", "(comment)", total=1_105_215),
    _found("tags_comment__query_apple", "(comment)", "apple", total=191_248),
    _found("tags_comment_author_pg", "(comment),author_pg", total=8_789),
    _found("tags_poll", "(poll)", total=1_183),
    _found("tags_poll_author_pg", "(poll),author_pg", total=11),
    _found("tags_story", "(story)", total=6_731_683),
    _found("tags_story__query_apple", "(story)", "apple", total=27_714),
    _found("tags_story_author_pg", "(story),author_pg", total=632),
    _found("tags_story_poll", "(story,poll)", total=6_754_704),
    _found("tags_story_poll__query_apple", "(story,poll)", "apple", total=27_717),
    _found("stories_2026", "story", sort="recent", limit=3, total=3_914_554),
    _found("tags_comment", "(comment)", sort="recent", total=1_366_190),
    _found("tags_comment__query_apple", "(comment)", "apple", sort="recent", total=106_472),
    _found("tags_poll__query_apple", "(poll)", "apple", sort="recent", total=17),
    _found("tags_story", "(story)", sort="recent", total=646_269),
    _found("tags_story__query_apple", "(story)", "apple", sort="recent", total=23_818),
    Case(
        "a comment by hand, with a reply",
        "comment",
        {"id": "90000008863002"},
        {
            f"{_API}/items/90000008863002": {
                **_SAID,
                "children": [{**_SAID, "id": 90000008863102, "parent_id": 90000008863002}],
            }
        },
        expected=comment,
    ),
    Case(
        "a comment that was deleted",
        "comment",
        {"id": "90000008863005"},
        {f"{_API}/items/90000008863005": {**_SAID, "id": 90000008863005, "author": None, "text": None}},
        expected=lambda item: {
            **comment({**item, "text": "-"}),
            "text": None,
            "author": None,
            "flags": {"pinned": None, "deleted": True},
        },
    ),
    Case(
        "a story is no comment",
        "comment",
        {"id": "7"},
        {f"{_API}/items/7": {"id": 7, "type": "story"}},
        refused=NotFound,
    ),
    Case(
        "a profile of the time when Algolia told when it was made",
        "profile",
        {"handle": "pg"},
        {f"{_API}/users/pg": "algolia_users_pg.json"},
        expected=author,
    ),
)
