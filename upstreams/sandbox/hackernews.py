"""The stand-in for Hacker News: Algolia's search, items and users, and Firebase's lists, items and users.

Names and queries fail as everywhere (`missing`, `throttled`, `broken`); items have numbers only, of which 404 does not
exist, 429 is throttled and 500 is broken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from upstreams.sandbox.invent import EPOCH_S, paragraph, person, seeded, sentence
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, route

_ALGOLIA = "hn.algolia.com"
_FIREBASE = "hacker-news.firebaseio.com"
_ROWS = 45
"""Rows of every list: three pages of the default size."""
_FOUND = 245
"""Results of every search: three pages of those that collect-until-N walks."""
_GONE, _ABSENT = 40, 404
"""The place in Firebase's lists of an item that no longer exists, and its number."""
_BY_DATE = {"story": "newstories", "job": "jobstories"}
"""Tag of Algolia's -> the list of Firebase's that has the newest of them too."""
_A_COMMENT, _ITS_STORY = 2_921_983, 2_921_557
"""The number of a comment of Firebase's documentation, and its story."""
_REPLIES_FROM = 100
_BOUND = re.compile(r"created_at_i([<>])=?(\d+)")
"""A bound of the time of results, in Unix seconds."""
_COMMENTS_FROM = 90_000_000_000
"""Numbers above it are comments: this, a thousand times their story's number, and their place in its thread."""

Json = dict[str, Any]


def _refused(subject: str) -> SandboxReply | None:
    if "missing" in subject or subject == "404":
        return SandboxReply({"status": 404, "error": "Not Found"}, 404)
    if "throttled" in subject or subject == "429":
        return SandboxReply("Too Many Requests", 429, {"retry-after": "30"})
    if "broken" in subject or subject == "500":
        return SandboxReply(
            "<html><body><h1>500 Internal Server Error</h1></body></html>", 500, {"content-type": "text/html"}
        )
    return None


def _name(*subject: object) -> str:
    return person(seeded("hackernews", *subject)).lower().replace(" ", "_")


def _place_of(item_id: int) -> tuple[int, int] | None:
    """The story of a comment, and its place in that thread; None for a story."""
    if item_id == _A_COMMENT:
        return _ITS_STORY, 1
    return divmod(item_id - _COMMENTS_FROM, 1_000) if item_id >= _COMMENTS_FROM else None


def _comment_id(story_id: int, place: int) -> int:
    return _A_COMMENT if (story_id, place) == (_ITS_STORY, 1) else _COMMENTS_FROM + story_id * 1_000 + place


def _item_time(item_id: int) -> int:
    """Later items have higher numbers; a comment comes minutes after its story."""
    if found := _place_of(item_id):
        return _item_time(found[0]) + 60 * found[1]
    return EPOCH_S + item_id % 100_000_000


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _story(item_id: int, about: str = "") -> Json:
    """Return a story in neither API's names; every tenth asks, and has a text in place of a link."""
    rng = seeded("hackernews", item_id)
    asks = item_id % 10 == 0
    title = f"{about and f'{about}: '}{sentence(rng).rstrip('.')}"
    return {
        "title": f"Ask HN: {title}?" if asks else title,
        "by": _name(item_id, "by"),
        "points": rng.randrange(1, 900),
        "comments": 3 * _threads(item_id),
        "link": None if asks else f"https://example.com/{item_id}",
        "words": f"{paragraph(rng)}<p>It isn&#x27;t <i>all</i>." if asks else None,
    }


def _threads(story_id: int) -> int:
    return seeded("hackernews", story_id, "threads").randrange(21, _ROWS)


# Algolia


def _hit(item_id: int, about: str = "", at: int | None = None) -> Json:
    """A story as a search finds it: with the words of the query, at an instant that was asked for."""
    story, at = _story(item_id, about), _item_time(item_id) if at is None else at
    hit = {
        "_highlightResult": {"title": {"matchLevel": "none", "matchedWords": [], "value": story["title"]}},
        "_tags": ["story", f"author_{story['by']}", f"story_{item_id}"],
        "author": story["by"],
        "children": [_comment_id(item_id, 1)],
        "created_at": _iso(at),
        "created_at_i": at,
        "num_comments": story["comments"],
        "objectID": str(item_id),
        "points": story["points"],
        "story_id": item_id,
        "title": story["title"],
        "updated_at": _iso(at + 3_600),
    }
    return {**hit, "url": story["link"]} if story["link"] else {**hit, "story_text": story["words"]}


def _comment_hit(story_id: int) -> Json:
    comment, story = _comment(story_id, 1, ()), _story(story_id)
    return {
        "_highlightResult": {"comment_text": {"matchLevel": "none", "matchedWords": [], "value": comment["text"]}},
        "_tags": ["comment", f"author_{comment['author']}", f"story_{story_id}"],
        "author": comment["author"],
        "comment_text": comment["text"],
        "created_at": comment["created_at"],
        "created_at_i": comment["created_at_i"],
        "objectID": str(comment["id"]),
        "parent_id": story_id,
        "story_id": story_id,
        "story_title": story["title"],
        "story_url": story["link"],
    }


def _search(request: SandboxRequest) -> SandboxReply:
    """A page of hits, counted from 0; newest first, which is also the order of relevance here."""
    query = request.query.get("query", "")
    subject = f"{query} {request.query.get('tags', '')}"
    if "missing" not in subject and (refused := _refused(subject)) is not None:
        return refused
    size, page = min(request.number("hitsPerPage", 20), 1_000), request.number("page", 0)
    items = _found(query, request.query.get("tags", ""))
    total, first = len(items), page * size
    listed = list(enumerate(items[first : first + size], first))
    hits = [_hit(item_id, query, _asked_time(request, place)) for place, item_id in listed]
    if request.query.get("tags", "").startswith("comment"):
        hits = [_comment_hit(item_id) for _, item_id in listed]
    body = {
        "hits": hits,
        "hitsPerPage": size,
        "nbHits": total,
        "nbPages": -(-total // size),
        "page": page,
        "query": query,
    }
    return SandboxReply(body)


def _asked_time(request: SandboxRequest, place: int) -> int | None:
    """The instant of a result within the span that a request names, evenly from its end on; None: it names none."""
    bounds = dict(_BOUND.findall(request.query.get("numericFilters", "")))
    if not {">", "<"} <= bounds.keys():
        return None
    since, until = int(bounds[">"]), int(bounds["<"])
    return until - 1 - (place + 1) * (until - since - 1) // (_FOUND + 1)


def _found(query: str, tags: str) -> list[int]:
    """The items that a search finds; without a query those of Firebase's list that are still there."""
    subject = f"{query} {tags}"
    if "missing" in subject:
        return []
    if not query and tags in _BY_DATE:
        return [item_id for item_id in _items_of(_BY_DATE[tags]) if item_id != _ABSENT]
    newest = 30_000_000 + crc32(subject.encode()) % 10_000_000
    return [newest - 7 * place for place in range(_FOUND)]


def _comment(story_id: int, place: int, replies: tuple[int, ...], parent_id: int | None = None) -> Json:
    """A comment of a thread; the one in the fifth place was deleted."""
    item_id = _comment_id(story_id, place)
    rng, at, gone = seeded("hackernews", item_id), _item_time(item_id), place == 5
    return {
        "id": item_id,
        "created_at": _iso(at),
        "created_at_i": at,
        "type": "comment",
        "author": None if gone else _name(item_id, "by"),
        "title": None,
        "url": None,
        "text": None if gone else f"{sentence(rng)}<p>{paragraph(rng, 2)} It&#x27;s <i>fine</i>.",
        "points": None,
        "parent_id": parent_id or story_id,
        "story_id": story_id,
        "children": [_comment(story_id, reply, (), item_id) for reply in replies],
        "options": [],
    }


def _item(request: SandboxRequest) -> SandboxReply:
    if (refused := _refused(request.found["id"])) is not None:
        return refused
    item_id = int(request.found["id"])
    if found := _place_of(item_id):
        return SandboxReply(_comment(*found, _replies(found[1]) if found[1] < _REPLIES_FROM else ()))
    story, at, threads = _story(item_id), _item_time(item_id), _threads(item_id)
    body = {
        "id": item_id,
        "created_at": _iso(at),
        "created_at_i": at,
        "type": "story",
        "author": story["by"],
        "title": story["title"],
        "url": story["link"],
        "text": story["words"],
        "points": story["points"],
        "parent_id": None,
        "story_id": item_id,
        "children": [_comment(item_id, place, _replies(place)) for place in range(1, threads + 1)],
        "options": [],
    }
    return SandboxReply(body)


def _user(request: SandboxRequest) -> SandboxReply:
    """Algolia's user, without the time that Firebase's has."""
    name = request.found["name"]
    user = _account(name)
    return _refused(name) or SandboxReply({"username": name, "about": user["about"], "karma": user["karma"]})


def _account(name: str) -> Json:
    rng = seeded("hackernews", "user", name)
    link = '<a href="https:&#x2F;&#x2F;example.com">example.com</a>'
    return {
        "about": f"{person(rng)}. {sentence(rng)}<p>I&#x27;m at {link}",
        "created": EPOCH_S - rng.randrange(10 * 365 * 86_400),
        "id": name,
        "karma": rng.randrange(1, 90_000),
        "submitted": [rng.randrange(1, 40_000_000) for _ in range(3)],
    }


# Firebase


def _items_of(listed: str) -> list[int]:
    newest = 31_000_000 + crc32(listed.encode()) % 1_000_000 * 10
    return [newest - 9 * place if place != _GONE else _ABSENT for place in range(_ROWS)]


def _listed(request: SandboxRequest) -> SandboxReply:
    return SandboxReply(_items_of(request.found["list"]))


def _firebase_item(request: SandboxRequest) -> SandboxReply:
    item_id = int(request.found["id"])
    if (refused := _refused(request.found["id"])) is not None:
        return SandboxReply(None) if refused.status == 404 else refused
    if found := _place_of(item_id):
        return SandboxReply(_firebase_comment(*found))
    story = _story(item_id)
    body = {
        "by": story["by"],
        "descendants": story["comments"],
        "id": item_id,
        "kids": [_comment_id(item_id, place) for place in range(1, _threads(item_id) + 1)],
        "score": story["points"],
        "time": _item_time(item_id),
        "title": story["title"],
        "type": "story",
        **({"dead": True} if item_id % 29 == 0 else {}),
    }
    return SandboxReply({**body, "url": story["link"]} if story["link"] else {**body, "text": story["words"]})


def _firebase_comment(story_id: int, place: int) -> Json:
    """A comment of `_comment`'s threads: those above a hundred are the replies to one below."""
    comment = _comment(story_id, place, ())
    parent = story_id if place < _REPLIES_FROM else _comment_id(story_id, place % _REPLIES_FROM)
    body = {"id": comment["id"], "parent": parent, "time": comment["created_at_i"], "type": "comment"}
    if place < _REPLIES_FROM:
        body["kids"] = [_comment_id(story_id, reply) for reply in _replies(place)]
    words = {"by": comment["author"], "text": comment["text"]}
    return {**body, "deleted": True} if comment["author"] is None else {**body, **words}


def _replies(place: int) -> tuple[int, ...]:
    return (_REPLIES_FROM + place, 2 * _REPLIES_FROM + place)


def _firebase_user(request: SandboxRequest) -> SandboxReply:
    name = request.found["name"]
    if (refused := _refused(name)) is not None:
        return SandboxReply(None) if refused.status == 404 else refused
    return SandboxReply(_account(name))


def _numbered(host: str, pattern: str, answer: Callable[[SandboxRequest], SandboxReply]) -> SandboxRoute:
    """A route whose item has to be a number."""

    def numbered(request: SandboxRequest) -> SandboxReply:
        return answer(request) if request.found["id"].isdecimal() else SandboxReply({"error": "Not Found"}, 404)

    return route(host, pattern, numbered)


ROUTES: tuple[SandboxRoute, ...] = (
    route(_ALGOLIA, "/api/v1/search", _search),
    route(_ALGOLIA, "/api/v1/search_by_date", _search),
    route(_ALGOLIA, "/api/v1/users/{name}", _user),
    _numbered(_ALGOLIA, "/api/v1/items/{id}", _item),
    _numbered(_FIREBASE, "/v0/item/{id}.json", _firebase_item),
    route(_FIREBASE, "/v0/user/{name}.json", _firebase_user),
    route(_FIREBASE, "/v0/{list}.json", _listed),
)
