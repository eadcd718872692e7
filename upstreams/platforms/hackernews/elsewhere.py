"""Hacker News' fallbacks: if Algolia or Firebase fails, data that both have is read from the other API.

Only Firebase knows how many comments an item has, and only Algolia knows which story an item belongs to. Fields that
the answering API lacks are null.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from upstreams.model.calls import Get, Pages
from upstreams.model.endpoint import Read
from upstreams.model.fields import Json, ident, obj
from upstreams.model.paging import ByPage
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Missing, Page, Single, Steps
from upstreams.platforms.hackernews.reads import (
    HANDLE,
    LEVELS_MAX,
    arrived,
    left_out,
    lone_comment_of,
    numbers,
    only_story,
)
from upstreams.platforms.hackernews.records import author_of, comment_of, post_of

_COMMENTS_MAX = 300
"""The maximum number of comments to read for one page, because each comment needs its own call."""


_NEWEST = Pages(post_of, ByPage("page", first=0, size="hitsPerPage", pages="nbPages"), at="hits")
_BY_DATE = Get("/search_by_date").via("algolia")
_USER = Get("/user/{name}.json", name=HANDLE).via("firebase")


def newest(tag: str) -> Read:
    """Return a read of the newest items of one kind from Algolia, which lists more of them than Firebase."""

    def read(args: Args) -> Steps:
        answer = yield _BY_DATE.at(args, _NEWEST, tags=tag)
        return _NEWEST.page(args, answer)

    return read


def profile(args: Args) -> Steps:
    """Return one account from Firebase."""
    answer = yield _USER.at(args)
    return Single(author_of(obj(answer.body)))


def story(args: Args) -> Steps:
    """Return one story, poll or job from Firebase."""
    item = yield from _story_asked_for(args)
    return Single(post_of(item))


def comment(args: Args) -> Steps:
    """Return one comment and its replies from Firebase, read item by item. Its story is unknown."""
    answer = yield _item(int(args.text("id")))
    item = obj(answer.body)
    threads = yield from _threads(_kids(item))
    return Single(lone_comment_of({**item, "children": threads.trees}), threads.warnings)


def _story_asked_for(args: Args) -> Generator[Call, Any, Json]:
    answer = yield _item(int(args.text("id")))
    return only_story(obj(answer.body))


def _item(item_id: int, *, optional: bool = False) -> Call:
    return Call(f"/item/{item_id}.json", source="firebase", optional=optional)


def comments(args: Args) -> Steps:
    """Return a story's comments from Firebase, read item by item.

    A page is a slice of the top-level comments, each with all its replies.
    """
    item = yield from _story_asked_for(args)
    start, end = args.position("o", 0), args.position("o", 0) + args.number("limit")
    top = list(dict.fromkeys(numbers(item.get("kids") or [])))
    if not top[start:end]:
        return Page([])
    threads = yield from _threads(top[start:end])
    return Page(
        [comment_of(thread, ident(item, "id"), LEVELS_MAX) for thread in threads.trees],
        next={"o": end} if end < len(top) else None,
        warnings=threads.warnings,
    )


class _Threads(NamedTuple):
    """Comments in the form in which Algolia sends them (replies under `children`), and warnings about missing ones."""

    trees: list[Json]
    warnings: tuple[str, ...]


def _threads(top: Sequence[int]) -> Generator[tuple[Call, ...], Any, _Threads]:
    """Read comments level by level, and each level in parallel. Every id is requested only once, so cycles end."""
    trees: list[Json] = []
    answers: list[Answer | Missing] = []
    seen = set(top)
    level = [(kid, trees) for kid in top]
    for _ in range(LEVELS_MAX):
        requested = level[: _COMMENTS_MAX - len(answers)]
        if not requested:
            break
        got = yield tuple(_item(kid, optional=True) for kid, _ in requested)
        answers += got
        following = level[len(requested) :]
        for (_, siblings), entry in zip(requested, (answer.body if answer else None for answer in got), strict=True):
            if isinstance(entry, dict):
                replies: list[Json] = []
                siblings.append({**entry, "children": replies})
                following += [(kid, replies) for kid in _kids(entry) if kid not in seen]
                seen.update(_kids(entry))
        level = following
    missing = left_out(len(answers) - len(arrived(answers)), answers)
    return _Threads(trees, missing + (_omission_warning(len(answers)) if level else ()))


def _omission_warning(requested: int) -> tuple[str, ...]:
    where = f"beyond the first {_COMMENTS_MAX} comments" if requested == _COMMENTS_MAX else f"below level {LEVELS_MAX}"
    return (f"replies {where} are left out",)


def _kids(item: Json) -> list[int]:
    """Return the ids of the replies to a comment.

    An unreadable list counts as empty, so the other comments can still be read.
    """
    kids = item.get("kids")
    return list(dict.fromkeys(numbers(kids))) if isinstance(kids, list) else []
