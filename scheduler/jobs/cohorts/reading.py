"""The posts of one member, read page by page within the limits of the query: time window, pages and items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final, Literal, NamedTuple, Protocol

import trio

from events.instants import iso, unix
from limits.errors import CircuitOpen
from scheduler.jobs.cohorts.matching import Keywords
from scheduler.jobs.holds import HELD_BACK, patiently
from scheduler.recipes import GatheringFailed, RecipePage
from upstreams.model.archetypes import Record
from upstreams.model.params import State

PAGE_S: Final = 30.0
EXCERPT: Final = 1_000
"""The maximum length of a text excerpt in a result, in characters."""

MemberStatus = Literal["complete", "partial", "not_found", "unsupported", "failed"]


class QueryWindow(NamedTuple):
    """The limits of a query for each member."""

    date_from: float
    date_to: float | None
    items_max: int
    pages_max: int


class MatchedPost(NamedTuple):
    """A post that contains a keyword."""

    content_id: str | None
    canonical_url: str | None
    matched_keywords: list[str]
    published_at: str
    retrieved_at: str
    text_excerpt: str


@dataclass(slots=True)
class MemberPosts:
    """The matching posts of a member, and how far the member was read. Only the functions of this module change it."""

    status: MemberStatus = "partial"
    window_complete: bool = False
    """Whether all posts of the time window were read."""
    oldest_at: float | None = None
    pages: int = 0
    pages_used: int = 0
    """The number of pages that had posts. Only these pages are charged."""
    error: str | None = None
    """The error code of the page that failed."""
    matches: list[MatchedPost] = field(default_factory=list)


class PagesOfMember(Protocol):
    """Reads the pages of a member's posts."""

    def __call__(self, state: State | None, *, timeout_s: float) -> Awaitable[RecipePage]:
        """Like `RecipePages.page`, for the member's recipe."""
        ...


async def read_member(
    pages: PagesOfMember, keywords: Keywords, window: QueryWindow, *, now: Callable[[], float]
) -> MemberPosts:
    """Return the matching posts of a member. If the member's source fails, the error is recorded, not raised."""
    found, seen, state = MemberPosts(), set[str](), None
    while found.pages < window.pages_max and not found.window_complete and len(found.matches) < window.items_max:
        try:
            page = await _page(pages, state)
        except GatheringFailed as exc:
            found.error = next((str(leg.get("error")) for leg in exc.legs), "UPSTREAM_ERROR")
            break
        found.pages += 1
        found.pages_used += bool(page.records)
        await _take(found, page.records, keywords, window, seen=seen, retrieved_at=iso(now()))
        state = page.next
        found.window_complete = found.window_complete or state is None
        if len(found.matches) > window.items_max:
            del found.matches[window.items_max :]
            found.window_complete = False
    found.status = _status(found)
    return found


async def _page(pages: PagesOfMember, state: State | None) -> RecipePage:
    """Read a page. Retry later if the source asks for a pause or its circuit breaker is open."""
    return await patiently(partial(pages, state, timeout_s=PAGE_S), on=(*HELD_BACK, CircuitOpen))


async def _take(
    found: MemberPosts,
    posts: Sequence[Record],
    keywords: Keywords,
    window: QueryWindow,
    *,
    seen: set[str],
    retrieved_at: str,
) -> None:
    """Add the matching posts of a page, and skip posts that were already added.

    Posts without a date are skipped too, because they may be outside the window.
    """
    dated = [(post, at) for post in posts if (at := _instant(post["published_at"])) is not None]
    for post, at in dated:
        await trio.lowlevel.checkpoint()
        found.oldest_at = at if found.oldest_at is None else min(at, found.oldest_at)
        if at < window.date_from or (window.date_to is not None and at >= window.date_to):
            continue
        if post["id"] in seen:
            continue
        seen.add(post["id"])
        text = post["content"]["text"] or ""
        if names := await keywords.found_in(text):
            excerpt = await excerpt_of(text, keywords)
            told = MatchedPost(post["id"], post["url"], names, post["published_at"], retrieved_at, excerpt)
            found.matches.append(told)
    found.window_complete = passes([at for post, at in dated if not post["flags"]["pinned"]], window.date_from)


def passes(instants: Sequence[float], date_from: float) -> bool:
    """Return whether a page has reached posts that are older than `date_from`.

    A page sorted newest first has reached them if its last post is older. On any other page, all posts must be older.
    """
    if not instants:
        return False
    is_sorted = all(newer >= older for newer, older in pairwise(instants))
    return (instants[-1] if is_sorted else max(instants)) < date_from


async def excerpt_of(text: str, keywords: Keywords) -> str:
    """Return the first part of a text that contains a keyword, or the whole text if it is short."""
    if len(text) <= EXCERPT:
        return text
    half = EXCERPT // 2
    for begin in range(0, len(text), half):
        part = text[begin : begin + EXCERPT]
        if await keywords.found_in(part):
            return part
    return text[:EXCERPT]


def _instant(text: object) -> float | None:
    try:
        return unix(text) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _status(found: MemberPosts) -> MemberStatus:
    if found.pages:
        return "complete" if found.window_complete and found.error is None else "partial"
    return "not_found" if found.error == "RESOURCE_NOT_FOUND" else "failed"
