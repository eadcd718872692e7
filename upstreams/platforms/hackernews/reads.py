"""Hacker News' parameters and calls, and the reads that combine several calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from upstreams.model.archetypes import Record
from upstreams.model.calls import Get, Pages, made
from upstreams.model.endpoint import Read
from upstreams.model.errors import InvalidArgument, NotFound, UnexpectedBody, UpstreamFailed
from upstreams.model.fields import WHOLE_MAX, Json, ident, instant, obj, parts, rows, text
from upstreams.model.paging import ByPage
from upstreams.model.params import Args, Param, limit
from upstreams.model.steps import Answer, Call, Missing, Page, Single, Steps
from upstreams.platforms.hackernews.records import author_of, comment_of, post_of

_TAG = r"[\w-]+"
_ALL_OF = rf"(?:{_TAG}|\({_TAG}(?:,{_TAG})*\))"
_TAGS = re.compile(rf"{_ALL_OF}(?:,{_ALL_OF})*", re.ASCII)
LEVELS_MAX = 100
"""The maximum depth of replies. Our JSON encoder cannot nest much deeper."""


def _tagged(tags: str) -> str:
    if not _TAGS.fullmatch(tags):
        raise InvalidArgument("tags", "must be comma-separated tags, such as (story,poll),author_pg")
    return tags


def _searched(query: str) -> str | None:
    return query if query != "*" else None


def _path(sort: str) -> str:
    return "search_by_date" if sort == "recent" else "search"


def _numeric_filters(*values: str | int | None) -> str | None:
    since, until, points, comments = values
    bounds = (
        ("created_at_i>=", _seconds("since", since)),
        ("created_at_i<", _seconds("until", until)),
        ("points>=", points),
        ("num_comments>=", comments),
    )
    return ",".join(f"{field}{bound}" for field, bound in bounds if bound is not None) or None


def _seconds(name: str, value: str | int | None) -> int | None:
    if value is None:
        return None
    moment = instant({name: value}, name)
    if moment is None:
        raise InvalidArgument(name, "must be a date or a time, such as 2024-01-31 or 2024-01-31T12:00:00Z")
    return int(datetime.fromisoformat(moment).timestamp())


QUERY = Param("query", "Search query; * matches everything.", "structured concurrency", required=True)
TAGS = Param(
    "tags",
    "Kinds of items: story, comment, poll, job, show_hn, ask_hn, front_page, author_NAME, story_ID. "
    "A comma means AND, parentheses mean OR.",
    "(story,poll),author_pg",
    default="story",
)
SORT = Param("sort", "Sort order.", "recent", default="relevance", choices=("relevance", "recent"))
SINCE = Param("since", "Only items from this time or later, as a date or an ISO 8601 time.", "2024-01-31")
UNTIL = Param("until", "Only items from before this time.", "2024-02-29T12:00:00Z")
MIN_POINTS = Param("min_points", "Only items with at least this many points.", "100", type="integer", minimum=0)
MIN_COMMENTS = Param("min_comments", "Only items with at least this many comments.", "10", type="integer", minimum=0)
STORY_ID = Param(
    "id",
    "The story's number or URL.",
    "8863",
    required=True,
    length_max=200,
    forms=(r"news\.ycombinator\.com/item\?(?:.*&)?id=(\d+)(?:[&#].*)?",),
    pattern=r"\d{1,20}",
    problem="must be a story's number, such as 8863",
)
COMMENT_ID = Param(
    "id",
    "The comment's number or URL.",
    "2921983",
    required=True,
    length_max=200,
    forms=STORY_ID.forms,
    pattern=r"\d{1,20}",
    problem="must be a comment's number, such as 2921983",
)
HANDLE = Param("handle", "The account's name.", "pg", required=True, length_max=64, strip="@")
LIMIT = limit(100)
SEARCH = Get(
    "/{path}",
    path=made(_path, SORT),
    query=made(_searched, QUERY),
    tags=made(_tagged, TAGS),
    numericFilters=made(_numeric_filters, SINCE, UNTIL, MIN_POINTS, MIN_COMMENTS),
)
HITS = Pages(post_of, ByPage("page", first=0, size="hitsPerPage", pages="nbPages", total="nbHits"), at="hits")
ITEM = Get("/items/{id}", id=STORY_ID)
COMMENT = Get("/items/{id}", id=COMMENT_ID)
_USER = Get("/users/{name}", name=HANDLE)
_JOINED = Get("/user/{name}.json", name=HANDLE).via("firebase", optional=True)


def only_story(item: Json) -> Json:
    """Return the item. Raises NotFound for a comment or a poll option, whose numbers come from the same sequence.

    Raises UnexpectedBody for an object without a number. It must not be mistaken for a story without comments.
    """
    if ident(item, "id") is None:
        raise UnexpectedBody("expected an item, but the object has no valid id")
    if text(item, "type") in ("comment", "pollopt"):
        raise NotFound("This number does not belong to a story.")
    return item


def story_of(item: Json) -> Record:
    """Return a story, poll or job."""
    return post_of(only_story(item))


def lone_comment_of(item: Json) -> Record:
    """Return a comment that was requested by its number, with its replies."""
    if ident(item, "id") is None:
        raise UnexpectedBody("expected an item, but the object has no valid id")
    if text(item, "type") != "comment":
        raise NotFound("This number does not belong to a comment.")
    return comment_of(item, None, LEVELS_MAX)


def comments(args: Args) -> Steps:
    """Return a story's comments. A page is a slice of the top-level comments, each with all its replies."""
    answer = yield ITEM.at(args)
    item = only_story(obj(answer.body))
    start, end = args.position("o", 0), args.position("o", 0) + args.number("limit")
    threads = rows(item.get("children") or [], WHOLE_MAX)
    shown = threads[start:end]
    return Page(
        [comment_of(thread, ident(item, "id"), LEVELS_MAX) for thread in shown],
        next={"o": end} if end < len(threads) else None,
        warnings=(f"replies below level {LEVELS_MAX} are left out",) if _has_deeper_replies(shown) else (),
    )


def _has_deeper_replies(level: list[Json]) -> bool:
    for _ in range(LEVELS_MAX):
        level = [reply for entry in level for reply in parts(entry, "children")]
        if not level:
            return False
    return True


def profile(args: Args) -> Steps:
    """Return one account. Algolia sometimes lacks its creation time, so Firebase is read too."""
    answer = yield _USER.at(args)
    user = obj(answer.body)
    if instant(user, "created_at", "created_at_i") is None:
        other = yield _JOINED.at(args)
        known = other.body if other and isinstance(other.body, dict) else {}
        user = {**user, "created": known.get("created")}
    return Single(author_of(user))


def listed(name: str) -> Read:
    """Return a read of a list from Firebase.

    It reads the ids of the list's items, and then one page of items in parallel.
    """

    def read(args: Args) -> Steps:
        start, end = args.position("o", 0), args.position("o", 0) + args.number("limit")
        answer = yield Call(f"/{name}.json", source="firebase")
        listed_items = numbers(answer.body)
        requested = listed_items[start:end]
        if not requested:  # the list has become shorter since the previous page
            return Page([])
        answers = yield tuple(Call(f"/item/{item}.json", source="firebase", optional=True) for item in requested)
        items = arrived(answers)
        return Page(
            [post_of(item) for item in items],
            next={"o": end} if end < len(listed_items) else None,
            warnings=left_out(len(requested) - len(items), answers),
        )

    return read


def arrived(answers: Sequence[Answer | Missing]) -> list[Json]:
    """Return the items in these answers.

    Raises:
        UpstreamFailed: There is no item, and at least one call failed for another reason than "not found".
    """
    items = rows([answer.body for answer in answers if isinstance(answer, Answer)])
    failed = next((answer for answer in answers if isinstance(answer, Missing) and not answer.absent), None)
    if failed is not None and not items:
        raise UpstreamFailed(failed.source, f"all {len(answers)} items failed: {failed.problem}")
    return items


def numbers(body: Any) -> list[int]:
    """Return the ids of the items in one of Firebase's lists."""
    if not isinstance(body, list):
        raise UnexpectedBody(f"expected a list, got {type(body).__name__}")
    return [entry for entry in body if type(entry) is int]


def left_out(count: int, answers: Sequence[Answer | Missing]) -> tuple[str, ...]:
    """Return a warning that `count` of the requested items are missing, and why."""
    if not count:
        return ()
    problem = next((answer.problem for answer in answers if isinstance(answer, Missing)), "no such item")
    return (f"{count} of {len(answers)} items left out: {problem}",)
