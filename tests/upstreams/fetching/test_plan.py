"""The interface that a plain read and a walk share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import LONG_S
from tests.fakes.shelf import PER_PAGE, SPARE_PAGES, distinct, on, page_of, site_over
from upstreams.fetching.plan import ONE_PAGE, Conduct, Plan, Walked, prepare
from upstreams.fetching.site import Site
from upstreams.fetching.walk import run_plan
from upstreams.model.errors import NotFound
from upstreams.model.params import Args
from upstreams.model.steps import Call, Steps

trio_run = run_virtually


def begun(site: Site, *, limit: int, walks: bool) -> Plan:
    (endpoint,) = site.platform.endpoints
    return prepare(site, endpoint if walks else replace(endpoint, collect=None), Args({"limit": limit}))


def test_plain_read_takes_one_page_and_walk_as_many_as_needed() -> None:
    site = site_over(distinct(4, 4, 4))
    plain, walk = (begun(site, limit=2 * PER_PAGE, walks=walks) for walks in (False, True))
    assert (plain.reach, plain.limit) == (ONE_PAGE, None)
    assert (walk.reach, walk.limit) == ((2, 2 + SPARE_PAGES), 2 * PER_PAGE)


@pytest.mark.parametrize(("walks", "pages"), [(False, 1), (True, 2)])
async def test_reads_and_walks_report_billed_pages(walks: bool, pages: int) -> None:
    shelf = distinct(4, 4, 4)
    planned = begun(site_over(shelf), limit=2 * PER_PAGE, walks=walks)
    fetched = await run_plan(planned, Conduct(planned.reach.pages_max), LONG_S)
    assert (fetched.pages_used, len(shelf.asked)) == (pages, pages)
    assert len(page_of(fetched).records) == pages * 4


@pytest.mark.parametrize("walks", [False, True])
async def test_dismissed_plan_makes_no_call(walks: bool) -> None:
    shelf = distinct(4)
    planned = begun(site_over(shelf), limit=PER_PAGE, walks=walks)
    planned.dismiss()
    assert shelf.asked == []


@pytest.mark.parametrize("walks", [False, True])
async def test_known_refusal_is_raised_on_run(walks: bool) -> None:
    def forbidden(_args: Args) -> Steps:
        raise NotFound("The value is forbidden.")
        yield Call("/never")

    site = site_over(shelf := distinct(4))
    (endpoint,) = site.platform.endpoints
    endpoint = replace(endpoint, read=forbidden, collect=endpoint.collect if walks else None)
    planned = prepare(site, endpoint, Args({"limit": PER_PAGE}))
    assert isinstance(planned.refusal, NotFound)
    with pytest.raises(NotFound, match="forbidden"):
        await run_plan(planned, Conduct(planned.reach.pages_max), LONG_S)
    assert shelf.asked == []


async def test_stopping_walk_ends_after_its_page() -> None:
    """`wants_more` is called before each further page. A progress callback therefore also receives the last page."""
    shelf, told = distinct(4, 4, 4), list[Walked]()

    async def wants_more(walked: Walked) -> bool:
        told.append(walked)
        return await on(walked)

    planned = begun(site_over(shelf), limit=3 * PER_PAGE, walks=True)
    fetched = await run_plan(planned, Conduct(9, wants_more, lambda: len(shelf.asked) == 2), LONG_S)
    assert len(page_of(fetched).records) == 2 * PER_PAGE
    assert (len(told), fetched.whole, fetched.pages_used) == (2, False, 2)
    assert "the walk was stopped early" in fetched.shortfall
