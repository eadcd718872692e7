"""Hacker News' reads: one generator a resource, from parameters to calls to records."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from upstreams.model.endpoint import Read
from upstreams.model.errors import InvalidArgument, NotFound, UnexpectedBody, UpstreamFailed
from upstreams.model.fields import Json, count, ident, instant, number, obj, parts, rows, text
from upstreams.model.maps import Rows
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Missing, Page, Single, Steps, segment
from upstreams.platforms.hackernews.records import author_of, comment_of, post_of

_TAG = r"[\w-]+"
_ALL_OF = rf"(?:{_TAG}|\({_TAG}(?:,{_TAG})*\))"
_TAGS = re.compile(rf"{_ALL_OF}(?:,{_ALL_OF})*", re.ASCII)
_NUMBER = re.compile(r"[0-9]+")
HITS = Rows(post_of, "hits", also=("page", "nbPages", "nbHits"))
_THREADS_MAX = 20_000
"""Comments at the top of a story: they come at once, and a page is a part of them."""
LEVELS_MAX = 100
"""Levels of replies that are read: what writes our answers as JSON does not nest much deeper."""


def search(args: Args) -> Steps:
    """Items that match a query, by relevance or newest first."""
    if not _TAGS.fullmatch(args.text("tags")):
        raise InvalidArgument("tags", "must be tags with commas between them, such as (story,poll),author_pg")
    page = args.position("p", 0)
    query = {
        "query": args.text("query") if args.text("query") != "*" else None,
        "tags": args.text("tags"),
        "numericFilters": _numeric_filters(args),
        "page": page,
        "hitsPerPage": args.number("limit"),
    }
    answer = yield Call("/search_by_date" if args.text("sort") == "recent" else "/search", query, accepts=HITS)
    return replace(hits_page(answer, page), total=count(HITS.members(answer.body), "nbHits"))


def hits_page(answer: Answer, page: int) -> Page:
    """Algolia's page number `page` of a search."""
    records, told = HITS.records(answer.body), HITS.members(answer.body)
    following = max(page, number(told, "page") or 0) + 1
    return Page(records, next={"p": following} if following < (number(told, "nbPages") or 0) else None)


def _numeric_filters(args: Args) -> str | None:
    bounds = (
        ("created_at_i>=", _seconds(args, "since")),
        ("created_at_i<", _seconds(args, "until")),
        ("points>=", args.values.get("min_points")),
        ("num_comments>=", args.values.get("min_comments")),
    )
    return ",".join(f"{field}{bound}" for field, bound in bounds if bound is not None) or None


def _seconds(args: Args, name: str) -> int | None:
    if name not in args.values:
        return None
    moment = instant({name: args.text(name)}, name)
    if moment is None:
        raise InvalidArgument(name, "must be a date or a time, such as 2024-01-31 or 2024-01-31T12:00:00Z")
    return int(datetime.fromisoformat(moment).timestamp())


def story_number(args: Args) -> str:
    """The `id` parameter, refused before any call where it is no number."""
    if not _NUMBER.fullmatch(args.text("id")):
        raise InvalidArgument("id", "must be a story's number, such as 8863")
    return args.text("id")


def only_story(item: Json) -> Json:
    """The item, refused where it is a comment or a poll's option: those have numbers too, but are no stories.

    Without a number it is no item: it must not pass for a story that nobody commented on.
    """
    if ident(item, "id") is None:
        raise UnexpectedBody("an item was due")
    if text(item, "type") in ("comment", "pollopt"):
        raise NotFound("This number is not a story's.")
    return item


def _story_asked_for(args: Args) -> Generator[Call, Any, Json]:
    """The item with its whole thread."""
    answer = yield Call(f"/items/{story_number(args)}")
    return only_story(obj(answer.body))


def story(args: Args) -> Steps:
    """One story, poll or job."""
    item = yield from _story_asked_for(args)
    return Single(post_of(item))


def comments(args: Args) -> Steps:
    """A story's comments; a page is a part of those at the top, each with its replies."""
    item = yield from _story_asked_for(args)
    start, end = args.position("o", 0), args.position("o", 0) + args.number("limit")
    threads = rows(item.get("children") or [], _THREADS_MAX)
    shown = threads[start:end]
    return Page(
        [comment_of(thread, ident(item, "id"), LEVELS_MAX) for thread in shown],
        next={"o": end} if end < len(threads) else None,
        warnings=(f"replies below level {LEVELS_MAX} are left out",) if _goes_deeper(shown) else (),
    )


def _goes_deeper(level: list[Json]) -> bool:
    for _ in range(LEVELS_MAX):
        level = [reply for entry in level for reply in parts(entry, "children")]
        if not level:
            return False
    return True


def handle_of(args: Args) -> str:
    """The `handle` parameter; an at sign before it is left out."""
    return args.text("handle").removeprefix("@")


def profile(args: Args) -> Steps:
    """One account; Algolia does not always tell when it was made, Firebase does."""
    name = segment(handle_of(args))
    answer = yield Call(f"/users/{name}")
    user = obj(answer.body)
    if instant(user, "created_at", "created_at_i") is None:
        other = yield Call(f"/user/{name}.json", source="firebase", optional=True)
        known = other.body if other and isinstance(other.body, dict) else {}
        user = {**user, "created": known.get("created")}
    return Single(author_of(user))


def listed(name: str) -> Read:
    """The read of one of Firebase's lists: the numbers of its items, then a page of the items side by side."""

    def read(args: Args) -> Steps:
        start, end = args.position("o", 0), args.position("o", 0) + args.number("limit")
        answer = yield Call(f"/{name}.json", source="firebase")
        listed_items = numbers(answer.body)
        asked = listed_items[start:end]
        if not asked:  # the list became shorter since the page before
            return Page([])
        answers = yield tuple(Call(f"/item/{item}.json", source="firebase", optional=True) for item in asked)
        items = arrived(answers)
        return Page(
            [post_of(item) for item in items],
            next={"o": end} if end < len(listed_items) else None,
            warnings=left_out(len(asked) - len(items), answers),
        )

    return read


def arrived(answers: Sequence[Answer | Missing]) -> list[Json]:
    """The items among the answers.

    Raises:
        UpstreamFailed: none came, and not because there are none.
    """
    items = rows([answer.body for answer in answers if isinstance(answer, Answer)])
    failed = next((answer for answer in answers if isinstance(answer, Missing) and not answer.absent), None)
    if failed is not None and not items:
        raise UpstreamFailed(failed.source, f"none of {len(answers)} items came: {failed.problem}")
    return items


def numbers(body: Any) -> list[int]:
    """The items' numbers that a list of Firebase's holds."""
    if not isinstance(body, list):
        raise UnexpectedBody(f"a list was due, {type(body).__name__} came")
    return [entry for entry in body if type(entry) is int]


def left_out(count: int, answers: Sequence[Answer | Missing]) -> tuple[str, ...]:
    """The warning that `count` of the asked items did not come, and why."""
    if not count:
        return ()
    problem = next((answer.problem for answer in answers if isinstance(answer, Missing)), "no such item")
    return (f"{count} of {len(answers)} items are left out: {problem}",)
