"""The stand-in for Hacker News: Algolia's search, items and users, and Firebase's lists, items and users.

Names and queries fail as in all stand-ins (`missing`, `throttled`, `broken`). Items have only numbers: item 404 does
not exist, 429 is throttled and 500 is broken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from zlib import crc32

from upstreams.sandbox.hackernews.invented import (
    REPLIES_FROM,
    ROWS,
    Json,
    account_of,
    comment_id,
    comment_of,
    iso,
    item_time,
    place_of,
    replies_of,
    story_of,
    threads_of,
)
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, route

_ALGOLIA = "hn.algolia.com"
_FIREBASE = "hacker-news.firebaseio.com"
_FOUND = 245
"""The number of results of every search: three pages of a walk that collects items."""
_GONE, _ABSENT = 40, 404
"""The position of the deleted item in Firebase's lists, and its item number."""
_BY_DATE = {"story": "newstories", "job": "jobstories"}
"""Maps Algolia's tags to Firebase's list with the same newest items."""
_BOUND = re.compile(r"created_at_i([<>])=?(\d+)")
"""A limit on the time of results, in Unix seconds."""


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


# Algolia


def _hit(item_id: int, about: str = "", at: int | None = None) -> Json:
    """Return a story as a search result, with the words of the query and the requested time."""
    story, at = story_of(item_id, about), item_time(item_id) if at is None else at
    hit = {
        "_highlightResult": {"title": {"matchLevel": "none", "matchedWords": [], "value": story["title"]}},
        "_tags": ["story", f"author_{story['by']}", f"story_{item_id}"],
        "author": story["by"],
        "children": [comment_id(item_id, 1)],
        "created_at": iso(at),
        "created_at_i": at,
        "num_comments": story["comments"],
        "objectID": str(item_id),
        "points": story["points"],
        "story_id": item_id,
        "title": story["title"],
        "updated_at": iso(at + 3_600),
    }
    return {**hit, "url": story["link"]} if story["link"] else {**hit, "story_text": story["words"]}


def _comment_hit(story_id: int) -> Json:
    comment, story = comment_of(story_id, 1, ()), story_of(story_id)
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
    """Return a page of hits, newest first. Pages are counted from 0. Sorting by relevance has the same order."""
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
    """Return the time of a result.

    Results are evenly spaced, from the end of the requested span; None without a span.
    """
    bounds = dict(_BOUND.findall(request.query.get("numericFilters", "")))
    if not {">", "<"} <= bounds.keys():
        return None
    since, until = int(bounds[">"]), int(bounds["<"])
    return until - 1 - (place + 1) * (until - since - 1) // (_FOUND + 1)


def _found(query: str, tags: str) -> list[int]:
    """Return the items that match a search; without a query, the existing items of Firebase's list."""
    subject = f"{query} {tags}"
    if "missing" in subject:
        return []
    if not query and tags in _BY_DATE:
        return [item_id for item_id in _items_of(_BY_DATE[tags]) if item_id != _ABSENT]
    newest = 30_000_000 + crc32(subject.encode()) % 10_000_000
    return [newest - 7 * place for place in range(_FOUND)]


def _item(request: SandboxRequest) -> SandboxReply:
    if (refused := _refused(request.found["id"])) is not None:
        return refused
    item_id = int(request.found["id"])
    if found := place_of(item_id):
        return SandboxReply(comment_of(*found, replies_of(found[1]) if found[1] < REPLIES_FROM else ()))
    story, at, threads = story_of(item_id), item_time(item_id), threads_of(item_id)
    body = {
        "id": item_id,
        "created_at": iso(at),
        "created_at_i": at,
        "type": "story",
        "author": story["by"],
        "title": story["title"],
        "url": story["link"],
        "text": story["words"],
        "points": story["points"],
        "parent_id": None,
        "story_id": item_id,
        "children": [comment_of(item_id, place, replies_of(place)) for place in range(1, threads + 1)],
        "options": [],
    }
    return SandboxReply(body)


def _user(request: SandboxRequest) -> SandboxReply:
    """Return Algolia's user, without the creation time that Firebase has."""
    name = request.found["name"]
    user = account_of(name)
    return _refused(name) or SandboxReply({"username": name, "about": user["about"], "karma": user["karma"]})


# Firebase


def _items_of(listed: str) -> list[int]:
    newest = 31_000_000 + crc32(listed.encode()) % 1_000_000 * 10
    return [newest - 9 * place if place != _GONE else _ABSENT for place in range(ROWS)]


def _listed(request: SandboxRequest) -> SandboxReply:
    return SandboxReply(_items_of(request.found["list"]))


def _firebase_item(request: SandboxRequest) -> SandboxReply:
    item_id = int(request.found["id"])
    if (refused := _refused(request.found["id"])) is not None:
        return SandboxReply(None) if refused.status == 404 else refused
    if found := place_of(item_id):
        return SandboxReply(_firebase_comment(*found))
    story = story_of(item_id)
    body = {
        "by": story["by"],
        "descendants": story["comments"],
        "id": item_id,
        "kids": [comment_id(item_id, place) for place in range(1, threads_of(item_id) + 1)],
        "score": story["points"],
        "time": item_time(item_id),
        "title": story["title"],
        "type": "story",
        **({"dead": True} if item_id % 29 == 0 else {}),
    }
    return SandboxReply({**body, "url": story["link"]} if story["link"] else {**body, "text": story["words"]})


def _firebase_comment(story_id: int, place: int) -> Json:
    """Return a comment from the threads of `comment_of`.

    Comments at positions above a hundred are replies to comments at lower positions.
    """
    comment = comment_of(story_id, place, ())
    parent = story_id if place < REPLIES_FROM else comment_id(story_id, place % REPLIES_FROM)
    body = {"id": comment["id"], "parent": parent, "time": comment["created_at_i"], "type": "comment"}
    if place < REPLIES_FROM:
        body["kids"] = [comment_id(story_id, reply) for reply in replies_of(place)]
    words = {"by": comment["author"], "text": comment["text"]}
    return {**body, "deleted": True} if comment["author"] is None else {**body, **words}


def _firebase_user(request: SandboxRequest) -> SandboxReply:
    name = request.found["name"]
    if (refused := _refused(name)) is not None:
        return SandboxReply(None) if refused.status == 404 else refused
    return SandboxReply(account_of(name))


def _numbered(host: str, pattern: str, answer: Callable[[SandboxRequest], SandboxReply]) -> SandboxRoute:
    """Return a route that answers 404 unless the item is a number."""

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
