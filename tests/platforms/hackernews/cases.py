"""Hacker News' recordings as cases. The expected records come from a table of fields, not from the platform's code.

Firebase's recordings are single items and users, and no list is recorded, so the tests in this folder build the lists.
`firebase_maxitem.json`, the last item's number, belongs to no endpoint.
"""

from __future__ import annotations

from html import unescape
from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, table, utc
from upstreams.model import archetypes as make
from upstreams.model.errors import NotFound
from upstreams.model.fields import plain

_API = "hn.algolia.com/api/v1"


def first(*names: str) -> Any:
    """Return the value of the first of these members that is not empty."""
    return lambda item: next((item[name] for name in names if item.get(name) not in (None, "")), None)


def ident(*names: str) -> Any:
    return lambda item: None if (found := first(*names)(item)) is None else str(found)


def page_of(*names: str) -> Any:
    """Return the address of an item's page."""
    return lambda item: f"https://news.ycombinator.com/item?id={ident(*names)(item)}"


def byline(name: str | None) -> Json | None:
    """Return the author of an item as an account of which only the name is known."""
    of_name = table(make.byline, id=str, username=str, url="https://news.ycombinator.com/user?id={}".format)
    return None if name is None else of_name(name)


def _by(item: Json) -> Json | None:
    return byline(first("author", "by")(item))


def _title(name: str) -> Any:
    return lambda item: (found := first(name)(item)) and unescape(found)


def _words(item: Json) -> str | None:
    body = plain(first("story_text", "comment_text", "text")(item))
    return "\n\n".join(filter(None, (_title("title")(item), body))) or None


def seconds(item: Json) -> str | None:
    """Return Algolia's time of an item to the second, because all times here are whole seconds."""
    told = item.get("created_at")
    return told[:19] + "Z" if isinstance(told, str) else None


post = table(
    make.post,
    id=ident("objectID", "id"),
    url=page_of("objectID", "id"),
    text=_words,
    author=_by,
    likes=first("points", "score"),
    comments=first("num_comments", "descendants"),
    published_at=seconds,
    ext={
        "link": "url",
        "type": lambda item: item.get("type") or item["_tags"][0],
        "parent_id": ident("parent_id", "parent"),
        "story_id": ident("story_id"),
        "story_title": _title("story_title"),
    },
)
"""A hit or an item."""
author = table(
    make.author,
    id=first("username", "id"),
    username=first("username", "id"),
    bio=lambda user: plain(first("about")(user)),
    likes_count="karma",
    url=lambda user: f"https://news.ycombinator.com/user?id={first('username', 'id')(user)}",
    joined_at=seconds,
)
_COMMENT = table(
    make.comment,
    id=ident("id"),
    url=page_of("id"),
    parent_id=ident("parent_id", "parent"),
    post_id=ident("story_id"),
    text=lambda item: plain(item["text"]),
    author=_by,
    published_at=lambda item: seconds(item) or utc("time")(item),
)


def comment(item: Json) -> Json:
    """Return the Comment that the table defines, from an item that has an author and a text."""
    return {**_COMMENT(item), "replies": [comment(reply) for reply in item.get("children", ())]}


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
