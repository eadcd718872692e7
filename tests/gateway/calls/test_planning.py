"""What a call reserves before it is made, and what it has used once it is answered (spec 4.3, 7.5; decisions 6)."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from gateway.calls.planning import Quote, begin, dismiss, price, used_by, walk_quote, walk_within
from tests.fakes.scripted_exchange import LONG_S, ScriptedExchange, source_over
from tests.fakes.shelf import PER_PAGE, SPARE_PAGES, Shelf, distinct, on, page_of, site_over
from upstreams.catalog import Catalog, Listing
from upstreams.fetching.fetch import Plan
from upstreams.fetching.site import Site
from upstreams.fetching.walk import Walk
from upstreams.model.archetypes import AUTHOR
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, InvalidCursor
from upstreams.model.params import Args
from upstreams.model.steps import Call, Fetched, Page, Single, Steps

ended: list[str] = []


def _read(args: Args) -> Steps:
    if args.text("name") == "nobody":
        raise InvalidArgument("name", "is nobody's")
    try:
        answer = yield Call("/one")
    finally:
        ended.append(args.text("name"))
    return Single(answer.body)


ONE = Platform("one", "One", {"one": "https://one.test"}, (Endpoint("x", "X.", AUTHOR, _read),), docs_url="")


def single() -> Listing:
    sources = {"one": source_over(ScriptedExchange(), name="one")}
    return Catalog([Site(ONE, sources, credentials={}, user_agent="sluice/1")]).all()[0]


def listing(shelf: Shelf) -> Listing:
    return Catalog([site_over(shelf)]).all()[0]


def begun(limit: int, shelf: Shelf | None = None) -> Walk:
    planned = begin(listing(shelf or distinct(4, 4, 4)), Args({"limit": limit}))
    assert isinstance(planned, Walk)
    return planned


def test_a_call_stands_at_its_first_call_and_nobody_was_asked() -> None:
    planned = begin(single(), Args({"name": "ada"}))
    assert isinstance(planned, Plan)
    assert planned.first == Call("/one")
    shelf = distinct(4)
    begun(4, shelf)
    assert shelf.asked == []


def test_a_value_that_no_call_could_answer_is_refused_before_any_call() -> None:
    with pytest.raises(InvalidArgument):
        begin(single(), Args({"name": "nobody"}))
    with pytest.raises(InvalidCursor):
        begin(listing(distinct(4)), Args({"limit": 3}, {"p": 0, "rung": "gone"}))


def test_a_read_that_was_only_tried_is_ended() -> None:
    ended.clear()
    planned = begin(single(), Args({"name": "ada"}))
    assert ended == []
    dismiss(planned)
    assert ended == ["ada"]
    walk = begun(4)
    dismiss(walk)
    with pytest.raises(StopIteration):
        next(walk.planned.steps)


def test_a_call_of_one_price_reserves_it_whatever_it_may_cost() -> None:
    planned = begin(single(), Args({"name": "ada"}))
    assert walk_quote(planned, 5, 99) is None
    assert price(planned, 5) == price(planned, 5, 1) == Quote(5, 5)


@given(st.integers(1, 500), st.sampled_from([0, 1, 5]), st.none() | st.integers(0, 1_000))
def test_a_walk_reserves_the_spare_pages_too_but_never_more_than_it_is_allowed(
    limit: int, cost: int, credits_max: int | None
) -> None:
    """Never fewer than the pages that `limit` needs: what is allowed less is refused elsewhere."""
    walk = begun(limit)
    needed = -(-limit // min(limit, PER_PAGE))
    quote = price(walk, cost, credits_max)
    assert quote == walk_quote(walk, cost, credits_max)
    assert quote.credits_least == needed * cost
    most = (needed + SPARE_PAGES) * cost
    if credits_max is None or credits_max >= most:
        assert quote.credits == most
    else:
        assert quote.credits == max(credits_max, quote.credits_least)


@pytest.mark.parametrize(("held", "cost", "pages"), [(3, 1, 3), (14, 5, 2), (15, 5, 3), (5, 5, 1), (0, 0, 4)])
async def test_a_walk_asks_for_as_many_pages_as_there_are_credits_for(
    held: int, cost: int, pages: int, autojump_clock: MockClock
) -> None:
    """Where pages cost nothing, as many as it may take."""
    shelf = distinct(*[1] * 20)
    fetched = await walk_within(begun(8, shelf), held, cost, deadline_at=trio.current_time() + LONG_S, go_on=on)
    assert len(shelf.asked) == pages
    assert len(page_of(fetched).records) == pages


def fetched(pages_used: int) -> Fetched:
    return Fetched(Page([]), pages_used=pages_used)


@given(st.integers(1, 200), st.integers(1, 200), st.sampled_from([0, 1, 5, 10]))
def test_a_walk_has_used_its_pages_and_never_more_than_was_held(pages: int, held_pages: int, cost: int) -> None:
    shelf = listing(distinct(4))
    held = held_pages * cost
    assert used_by(shelf, fetched(pages), credits_held=held, cost_credits=cost) == min(pages, held_pages) * cost
    assert used_by(single(), fetched(pages), credits_held=held, cost_credits=cost) == held
