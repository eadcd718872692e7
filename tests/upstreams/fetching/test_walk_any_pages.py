"""Walks over any pages return each item once, in order, without losses, and within the reserved number of pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.fakes.scripted_exchange import LONG_S
from tests.fakes.shelf import (
    PER_PAGE,
    SPARE_PAGES,
    Ids,
    Shelf,
    begun,
    cursor_of,
    on,
    page_of,
    places,
    site_over,
    walked,
)
from upstreams.fetching.plan import Conduct, Walked
from upstreams.fetching.walk import run_plan
from upstreams.model.errors import UpstreamFailed
from upstreams.model.params import State
from upstreams.model.steps import Fetched

WALKS_MAX = 500
FEW_IDS = st.none() | st.sampled_from([f"id{number}" for number in range(12)])
MANY_IDS = st.integers(0, 10**9).map(str)
PAGES = st.lists(st.lists(FEW_IDS | MANY_IDS, max_size=9), min_size=1, max_size=9)


@dataclass(slots=True)
class Progress:
    """The numbers that `wants_more` receives after each page."""

    told: list[Walked] = field(default_factory=list)

    async def __call__(self, walked: Walked) -> bool:
        await trio.lowlevel.checkpoint()
        self.told.append(walked)
        return True


@given(pages=PAGES, endless=st.booleans(), limit=st.integers(1, 12), pages_max=st.integers(1, 12))
@example(pages=[[]], endless=True, limit=1, pages_max=12)
@example(pages=[["a"]], endless=True, limit=12, pages_max=12)
@example(pages=[[None, None], [None]], endless=True, limit=12, pages_max=12)
@settings(deadline=None)
def test_walk_collects_items_once_in_order(pages: list[Ids], endless: bool, limit: int, pages_max: int) -> None:
    shelf, progress = Shelf(pages, endless=endless), Progress()

    async def run() -> Fetched:
        return await walked(site_over(shelf), limit, pages_max=pages_max, wants_more=progress)

    fetched = on_virtual_time(run)
    records = page_of(fetched).records
    known = [record["id"] for record in records if record["id"] is not None]
    assert len(records) <= limit
    assert len(known) == len(set(known)), "each item once"
    assert places(fetched) == sorted(set(places(fetched))), "in the upstream's order"
    assert [asked.page for asked in shelf.asked] == list(range(len(shelf.asked))), "each page once, in order"
    assert len(shelf.asked) <= pages_max
    assert {asked.size for asked in shelf.asked} == {min(limit, PER_PAGE)}, "all pages have one size"
    assert fetched.pages_used == len({page_at(shelf, place) for place in places(fetched)})
    assert progress.told == [
        Walked(number, sum(page_at(shelf, place) < number for place in places(fetched)), limit)
        for number in range(1, len(shelf.asked) + 1)
    ]
    if cursor_of(fetched) is not None and len(records) < limit:
        assert len(shelf.asked) == pages_max, "it stops early only if `wants_more` forbids more"
    assert page_of(fetched).total == 99


def page_at(shelf: Shelf, place: int) -> int:
    """Return the number of the page that contains this position in the list."""
    number = 0
    while place >= (length := len(shelf.pages[number % len(shelf.pages)])):
        place -= length
        number += 1
    return number


@given(
    pages=PAGES,
    limit=st.integers(1, 12),
    pages_max=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    failing=st.lists(st.integers(-1, 9), min_size=1, max_size=5),
)
@settings(deadline=None)
def test_consecutive_walks_return_the_whole_list(
    pages: list[Ids], limit: int, pages_max: list[int], failing: list[int]
) -> None:
    """Method: follow the cursors to the end of the list, while some pages fail.

    Each position in the list must have been returned once, or a walk that skipped it must have returned its id.
    """
    shelf = Shelf(pages)

    async def run() -> list[Fetched]:
        answers: list[Fetched] = []
        cursor: State | None = None
        for number in range(WALKS_MAX):
            # In every other walk no page fails, so that the last page is reached.
            shelf.fails_at = failing[number // 2 % len(failing)] if number % 2 else -1
            most = pages_max[number % len(pages_max)]
            try:
                fetched = await walked(site_over(shelf), limit, cursor, pages_max=most)
            except UpstreamFailed:
                continue
            answers.append(fetched)
            cursor = cursor_of(fetched)
            if cursor is None:
                return answers
        raise AssertionError("an endless list has no last page")

    accounted, before = 0, set[str | None]()
    for fetched in on_virtual_time(run):
        given_by_this: set[str | None] = set()
        for record in page_of(fetched).records:
            assert set(shelf.ids[accounted : record["place"]]) <= (before | given_by_this) - {None}, "no item is lost"
            assert record["place"] >= accounted, "no item is repeated"
            assert record["id"] == shelf.ids[record["place"]]
            accounted = record["place"] + 1
            given_by_this.add(record["id"])
        before = given_by_this if given_by_this else before
    assert set(shelf.ids[accounted:]) <= before - {None}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 40))
@settings(deadline=None)
def test_distinct_items_are_complete_for_any_limit(sizes: list[int], limit: int) -> None:
    """Walks in different requests also return each item once. The next walk starts at the item after the last one."""
    numbers = iter(range(10_000))
    shelf = Shelf([[str(next(numbers)) for _ in range(size)] for size in sizes])

    async def run() -> list[int]:
        found: list[int] = []
        cursor: State | None = None
        while True:
            fetched = await walked(site_over(shelf), limit, cursor)
            assert len(places(fetched)) == limit or cursor_of(fetched) is None
            found += places(fetched)
            cursor = cursor_of(fetched)
            if cursor is None:
                return found

    assert on_virtual_time(run) == list(range(sum(sizes)))


@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 29))
@settings(deadline=None)
def test_full_pages_fit_in_the_reserved_pages(limit: int, per_page: int, skip: int) -> None:
    """A walk reserves the smallest number of pages that it can need. They suffice if all pages are full."""
    size = min(limit, per_page)
    skip = min(skip, size - 1)
    numbers = iter(range(10_000))
    shelf = Shelf([[str(next(numbers)) for _ in range(size)] for _ in range((skip + limit) // size + 2)])

    async def run() -> Fetched:
        site = site_over(shelf, per_page=per_page)
        ready = begun(site, limit, {"skip": skip} if skip else None)
        assert ready.reach.pages_max == ready.reach.pages_needed + SPARE_PAGES
        fetched = await run_plan(ready, Conduct(ready.reach.pages_needed, on), LONG_S)
        assert len(shelf.asked) == ready.reach.pages_needed, "and not more than needed"
        return fetched

    fetched = on_virtual_time(run)
    assert places(fetched) == list(range(skip, skip + limit))
    assert (fetched.whole, fetched.shortfall) == (True, "")


def on_virtual_time(run: Callable[[], Any]) -> Any:
    return trio.run(run, clock=MockClock(autojump_threshold=0))
