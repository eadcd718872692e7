"""Endpoints that collect `limit` items: where a walk starts and ends, what failing pages do, and fallbacks."""

from __future__ import annotations

from functools import partial

import httpx
import pytest
import trio

from limits.errors import CircuitOpen, LimitError, Throttled
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import LONG_S, SILENCE, Scripted, http_answer
from tests.fakes.shelf import (
    LIMIT_MAX,
    MANY,
    Shelf,
    begun,
    cursor_of,
    distinct,
    elsewhere,
    on,
    page_of,
    places,
    site_over,
    walked,
)
from upstreams.fetching.plan import Conduct, Walked
from upstreams.fetching.walk import run_plan
from upstreams.model.endpoint import Fallback
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.steps import Call

trio_run = run_virtually

# Ends


async def test_surplus_of_the_last_page_starts_the_next_walk() -> None:
    shelf = distinct(4, 4, 4)
    first = await walked(site_over(shelf), 6)
    assert (places(first), cursor_of(first), first.pages_used) == ([0, 1, 2, 3, 4, 5], {"p": 1, "skip": 2}, 2)
    second = await walked(site_over(shelf), 6, cursor_of(first))
    assert (places(second), cursor_of(second), second.pages_used) == ([6, 7, 8, 9, 10, 11], None, 2)


async def test_surplus_duplicates_on_the_last_page_are_not_continued() -> None:
    shelf = Shelf([["a", "b", "a", "b"]])
    fetched = await walked(site_over(shelf), 2)
    assert (places(fetched), cursor_of(fetched)) == ([0, 1], None)


async def test_shrunk_page_is_skipped() -> None:
    shelf = distinct(2, 4)
    fetched = await walked(site_over(shelf), 4, {"p": 0, "skip": 3})
    assert (places(fetched), fetched.pages_used) == ([2, 3, 4, 5], 1)


async def test_walk_that_used_all_reserved_pages_has_no_warning() -> None:
    """The walk read all its reserved pages. Pages may be short, and `has_more` reports that the list continues."""
    shelf = distinct(*[1] * 20)
    ready = begun(site_over(shelf), 8)
    fetched = await run_plan(ready, Conduct(ready.reach.pages_max, on), LONG_S)
    assert (places(fetched), cursor_of(fetched)) == ([0, 1, 2, 3], {"p": 4})
    assert (fetched.whole, fetched.shortfall, fetched.pages_used) == (True, "", 4)


async def test_walk_limited_by_credits_reports_the_shortfall() -> None:
    shelf = distinct(*[1] * 20)
    ready = begun(site_over(shelf), 8)
    fetched = await run_plan(ready, Conduct(ready.reach.pages_needed, on), LONG_S)
    shortfall = "2 of 8 items were collected: the credits ran out after page 2"
    assert (places(fetched), cursor_of(fetched), fetched.whole) == ([0, 1], {"p": 2}, False)
    assert (fetched.shortfall, fetched.failure) == (shortfall, None)


@pytest.mark.parametrize(("sizes", "limit"), [((4, 4), 8), ((4, 4), 20), ((4, 4, 4), 8), ((2,), 4), ((0,), 4)])
async def test_walk_to_the_end_of_the_list_is_whole(sizes: tuple[int, ...], limit: int) -> None:
    fetched = await walked(site_over(distinct(*sizes)), limit, pages_max=2)
    assert len(places(fetched)) == min(sum(sizes), limit)
    assert (fetched.whole, fetched.shortfall) == (True, "")


async def test_stopped_walk_ends_after_its_page() -> None:
    shelf = distinct(4, 4, 4, 4)
    told: list[Walked] = []

    async def twice(walked: Walked) -> bool:
        await trio.lowlevel.checkpoint()
        told.append(walked)
        return len(told) < 2

    fetched = await walked(site_over(shelf), 16, wants_more=twice)
    assert told == [Walked(1, 4, 16), Walked(2, 8, 16)]
    assert (len(places(fetched)), cursor_of(fetched), fetched.pages_used) == (8, {"p": 2}, 2)
    assert fetched.shortfall == "8 of 16 items were collected: the walk was stopped early"
    assert not fetched.whole
    rest = await walked(site_over(shelf), 16, cursor_of(fetched))
    assert places(rest) == list(range(8, 16))


@pytest.mark.parametrize(("sizes", "limit"), [((4, 4), 8), ((4, 4, 4), 8), ((3, 5), 8), ((4, 3), 8)])
async def test_stopping_on_the_last_page_changes_nothing(sizes: tuple[int, ...], limit: int) -> None:
    async def until_the_second(walked: Walked) -> bool:
        await trio.lowlevel.checkpoint()
        return walked.pages < 2

    fetched = await walked(site_over(distinct(*sizes)), limit, wants_more=until_the_second)
    assert (fetched.whole, fetched.shortfall) == (True, "")


def test_unusable_values_are_refused_before_any_call() -> None:
    shelf = distinct(4)
    with pytest.raises(InvalidArgument):
        begun(site_over(shelf, per_page=MANY), LIMIT_MAX + 1)
    assert shelf.asked == []


async def test_upstream_time_is_summed_over_pages() -> None:
    shelf = distinct(4, 4, 4)
    shelf.latency_s = 2.0

    async def slowly(_walked: Walked) -> bool:
        await trio.sleep(5.0)
        return True

    fetched = await walked(site_over(shelf), 12, wants_more=slowly)
    assert trio.current_time() == 3 * 7.0
    assert fetched.took_s == 6.0, "time in the callback is not upstream time"


async def test_page_warnings_are_kept() -> None:
    shelf = distinct(4, 4, 4)
    shelf.warnings = {0: "a", 2: "b"}
    assert page_of(await walked(site_over(shelf), 12)).warnings == ("a", "b")


# Pages that fail

FAILURES: dict[str, tuple[Scripted, type[UpstreamError]]] = {
    "broken": (http_answer(status=500), UpstreamFailed),
    "refused": (http_answer(status=400), UpstreamFailed),
    "gone": (http_answer(status=404), NotFound),
    "throttled": (http_answer(status=429), UpstreamThrottled),
    "cut": (httpx.ReadError("cut"), UpstreamFailed),
    "not to be read": (http_answer(b"<html>"), UpstreamFailed),
    "of another shape": (http_answer({"rows": None, "next": None}), UpstreamFailed),
    "silent until the deadline": (SILENCE, UpstreamFailed),
}
every_failure = pytest.mark.parametrize(("failing", "refusal"), FAILURES.values(), ids=FAILURES.keys())


@every_failure
@pytest.mark.parametrize("number", [0, 1, 2, 3])
async def test_failed_page_ends_the_walk_with_earlier_items(
    failing: Scripted, refusal: type[UpstreamError], number: int
) -> None:
    shelf = distinct(4, 4, 4, 4, 4)
    shelf.fails_at, shelf.failing = number, failing
    collecting = partial(walked, site_over(shelf), 14, deadline_at=50.0)
    if number == 0:
        with pytest.raises(refusal):
            await collecting()
        return
    fetched = await collecting()
    assert (places(fetched), fetched.pages_used) == (list(range(4 * number)), number)
    reason = f"page {number + 1} could not be read ({fetched.failure})"
    assert fetched.shortfall == f"{4 * number} of 14 items were collected: {reason}"
    assert fetched.whole, "no other source could return more"
    assert isinstance(fetched.failure, refusal)
    shelf.fails_at = -1
    rest = await walked(site_over(shelf), 14, cursor_of(fetched))
    assert places(rest) == list(range(4 * number, min(20, 4 * number + 14)))


@pytest.mark.parametrize("refusal", [CircuitOpen, Throttled])
async def test_blocked_source_ends_the_walk_like_a_failed_page(refusal: type[LimitError]) -> None:
    shelf = distinct(4, 4, 4)
    site = site_over(shelf)

    async def block_main_source(_walked: Walked) -> bool:
        if refusal is CircuitOpen:
            site.sources["main"].breaker.isolate()
        else:
            shelf.fails_at, shelf.failing = 2, http_answer(status=429)
            with pytest.raises(UpstreamThrottled):
                await site.call(Call("/rows", {"page": 2, "size": 1}), LONG_S)
        return True

    fetched = await walked(site, 12, wants_more=block_main_source)
    assert (places(fetched), cursor_of(fetched), fetched.pages_used) == ([0, 1, 2, 3], {"p": 1}, 1)
    with pytest.raises(refusal):
        await walked(site, 12, cursor_of(fetched))


@every_failure
async def test_failure_without_items_is_raised(failing: Scripted, refusal: type[UpstreamError]) -> None:
    shelf = distinct(0, 0, 4)
    shelf.fails_at, shelf.failing = 2, failing
    with pytest.raises(refusal):
        await walked(site_over(shelf), 8, deadline_at=50.0)
    assert [asked.page for asked in shelf.asked] == [0, 1, 2]


async def test_bug_in_a_read_is_raised() -> None:
    shelf = distinct(4, 4)
    shelf.fails_at, shelf.failing = 1, ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await walked(site_over(shelf), 8)


# Other sources

OWN_READ = Fallback(source="other", read=elsewhere)
MIRROR = Fallback(source="other")


async def test_walk_that_starts_at_a_fallback_stays_there() -> None:
    shelf = distinct(4, 4, 4)
    shelf.only = "other"
    first = await walked(site_over(shelf, OWN_READ), 6)
    assert (first.source, first.rung_index) == ("other", 1)
    assert cursor_of(first) == {"elsewhere": 1, "rung": "other", "skip": 2}
    healthy = distinct(4, 4, 4)
    second = await walked(site_over(healthy, OWN_READ), 6, cursor_of(first))
    assert places(first) + places(second) == list(range(12))
    assert {asked.by for asked in healthy.asked} == {"other"}


async def test_failed_fallback_page_is_retried_at_that_fallback() -> None:
    shelf = distinct(4, 4, 4)
    shelf.only = "other"
    shelf.fails_at = 1
    first = await walked(site_over(shelf, OWN_READ), 12)
    assert (places(first), cursor_of(first)) == ([0, 1, 2, 3], {"elsewhere": 1, "rung": "other"})
    second = await walked(site_over(distinct(4, 4, 4), OWN_READ), 12, cursor_of(first))
    assert (places(second), second.rung_index) == (list(range(4, 12)), 1)


@pytest.mark.parametrize("source", ["main", "other"])
async def test_unfinished_first_page_continues_at_its_source(source: str) -> None:
    """The first page has more items than requested. Another source's first page could be different."""
    shelf, other_one = distinct(7, 4), distinct(7, 4)
    shelf.only = source
    other_one.only = "other" if source == "main" else "main"
    first = await walked(site_over(shelf, OWN_READ), 3)
    with pytest.raises(UpstreamFailed):
        await walked(site_over(other_one, OWN_READ), 3, cursor_of(first))
    second = await walked(site_over(shelf, OWN_READ), 3, cursor_of(first))
    assert places(first) + places(second) == list(range(6))


async def test_mirror_serves_any_page_of_a_walk() -> None:
    shelf = distinct(4, 4, 4)

    async def fail_main_source(walked: Walked) -> bool:
        await trio.lowlevel.checkpoint()
        if walked.pages == 1:
            shelf.only = "other"
        return True

    fetched = await walked(site_over(shelf, MIRROR), 12, wants_more=fail_main_source)
    assert (places(fetched), cursor_of(fetched), fetched.shortfall) == (list(range(12)), None, "")
    assert fetched.source == "main", "at the source where it began"


# Cancellation


async def test_cancelled_walk_leaves_nothing_running() -> None:
    shelf = distinct(4, 4, 4)

    async def check(_got_through: bool) -> None:
        await trio.lowlevel.checkpoint()
        assert shelf.exchange.running == 0

    assert await cancel_everywhere(lambda: walked(site_over(shelf), 12), check) >= 6
