"""Legs take turns over keywords and platforms, so rows and credits are shared among all of them (decisions 19)."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler.jobs.discover.merging import sightings_of
from scheduler.jobs.discover.planning import PageRest, legs_in_turn, read_step, share_of_rows
from scheduler.jobs.discover.service import RunPatch
from scheduler.jobs.discover.spec import DiscoverSpec, PlannedSearch
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.discover.net import DiscoverDesk, Net, a_post, an_account, search
from tests.scheduler.jobs.discover.test_runs import again, pages_of

KEYWORDS = [f"k{n:02d}" for n in range(20)]


def spec_with(keywords: int, platforms: list[str]) -> DiscoverSpec:
    searches = tuple(
        PlannedSearch(
            f"{slug}/search{n}", slug, "post", "post", {}, is_ordered=False, takes_days=False, price_credits=1
        )
        for n, slug in enumerate(platforms)
    )
    return DiscoverSpec(tuple(f"k{n}" for n in range(keywords)), searches, "posts", 100)


@pytest.mark.parametrize("keywords", [1, 2, 3, 6, 20])
@pytest.mark.parametrize(
    "platforms", [["a"], ["a", "b"], list("abcdef"), ["a", "a", "b", "c"], list("abcdefghijklmnopqrstuvwxy")]
)
def test_every_prefix_of_the_turns_is_balanced(keywords: int, platforms: list[str]) -> None:
    spec = spec_with(keywords, platforms)
    turns = [spec.leg(number) for number in legs_in_turn(spec)]
    assert sorted(legs_in_turn(spec)) == list(range(1, spec.legs + 1))
    by_keyword, by_search = (
        Counter(dict.fromkeys(spec.keywords, 0)),
        Counter(dict.fromkeys((one.id for one in spec.searches), 0)),
    )
    for keyword, one in turns:
        by_keyword[keyword] += 1
        by_search[one.id] += 1
        for counts in (by_keyword, by_search):
            assert max(counts.values()) - min(counts.values()) <= 1
    first = [one.platform for _, one in turns[: len(set(platforms))]]
    assert len(set(first)) == min(len(first), len(set(platforms)))


def test_rest_step_name_round_trips() -> None:
    assert read_step(PageRest(12, 3, 2).name) == PageRest(12, 3, 2)


@pytest.mark.parametrize(("left", "steps", "share"), [(100, 20, 5), (100, 500, 1), (7, 2, 3), (0, 3, 1), (9, 0, 9)])
def test_step_share_is_an_equal_part_of_the_remaining_rows(left: int, steps: int, share: int) -> None:
    assert share_of_rows(left, steps) == share


@pytest.mark.critical
async def test_every_keyword_has_rows_when_a_run_is_full(desk: Desk) -> None:
    """Regression: a completed run over 20 keywords had rows for only the first 4."""
    net = Net({("one/search", one): [[a_post(f"{one}_{n}") for n in range(50)]] for one in KEYWORDS})
    desk_ = DiscoverDesk(desk, net, [search("one")])
    owner = await desk_.owner()
    view = await desk_.ran(owner, keywords=KEYWORDS, max_rows=100)
    rows = await desk_.rows(view.run.run_id)
    found = Counter(sighting.keyword for row in rows for sighting in sightings_of(row))
    assert (view.job.status, view.job.stopped_because, len(rows)) == ("completed", "max_rows", 100)
    assert found.keys() == set(KEYWORDS)
    assert max(found.values()) <= 3 * min(found.values())
    assert view.job.used_credits == 20
    assert (view.run.legs_done, view.run.legs_empty) == (20, 0)
    await desk.assert_sound(owner.account_id)


@pytest.mark.critical
async def test_waiting_rows_fill_a_run_without_another_page(desk: Desk) -> None:
    """Method: half of the keywords find nothing, so the other half can add more than its first shares."""
    net = Net(
        {
            ("one/search", one): [[a_post(f"{one}_{page}_{n}") for n in range(50)] for page in range(2)]
            for one in KEYWORDS[::2]
        }
    )
    desk_ = DiscoverDesk(desk, net, [search("one")])
    owner = await desk_.owner()
    view = await desk_.ran(owner, keywords=KEYWORDS, max_rows=400)
    assert (view.run.rows_kept, view.job.used_credits) == (400, 10)
    assert not [one for one in net.calls if one.endswith(" 1")], "no second page was read"
    assert {name[:3] for name in await desk_.names(view.run.run_id)} == set(KEYWORDS[::2])
    rests = await desk.store.read(lambda tx: tx.one("SELECT COUNT(*) FROM discover_legs WHERE rest IS NOT NULL", ()))
    assert rests == (0,)
    await desk.assert_sound(owner.account_id)


@pytest.mark.critical
async def test_waiting_rows_are_added_without_credits(desk: Desk) -> None:
    pages = [[a_post(f"{n}") for n in range(50)], [a_post("later")]]
    desk_ = DiscoverDesk(desk, Net({("one/search", "k00"): pages}), [search("one")])
    owner = await desk_.owner()
    async with desk_.open():
        job = await desk_.begin(owner, keywords=["k00", *(f"none{n}" for n in range(4))], max_credits=1, max_rows=60)
        paused = await desk_.settled(owner, job.id)
        assert (paused.job.status, paused.job.stopped_because) == ("paused", "max_credits")
        assert (paused.job.used_credits, paused.run.rows_kept) == (1, 50)
        await desk_.service.change(again(owner), job.id, RunPatch("running", 10))
        ended = await desk_.settled(owner, job.id)
    assert (ended.job.status, ended.job.used_credits, ended.run.rows_kept) == ("completed", 2, 51)
    await desk.assert_sound(owner.account_id)


@pytest.mark.critical
async def test_small_budget_reaches_every_keyword_and_platform(desk: Desk) -> None:
    platforms = list("abcde")
    net = Net({(f"{slug}/search", one): pages_of(f"{slug}{one}") for slug in platforms for one in KEYWORDS})
    desk_ = DiscoverDesk(desk, net, [search(slug) for slug in platforms])
    owner = await desk_.owner()
    view = await desk_.ran(owner, keywords=KEYWORDS, max_credits=20)
    found = [sightings_of(row)[0] for row in await desk_.rows(view.run.run_id)]
    assert (view.job.stopped_because, view.job.used_credits) == ("max_credits", 20)
    assert {one.keyword for one in found} == set(KEYWORDS)
    assert Counter(one.platform for one in found) == dict.fromkeys(platforms, 4)


@pytest.mark.critical
async def test_unaffordable_search_leaves_the_budget_to_others(desk: Desk) -> None:
    net = Net({("cheap/search", one): pages_of(one) for one in KEYWORDS})
    desk_ = DiscoverDesk(desk, net, [search("dear", price_credits=30), search("cheap")])
    owner = await desk_.owner()
    view = await desk_.ran(owner, keywords=KEYWORDS, max_credits=20)
    assert (view.job.status, view.job.stopped_because) == ("paused", "max_credits")
    assert (view.job.used_credits, view.run.rows_kept) == (20, 20)


@pytest.mark.critical
async def test_pages_that_add_no_row_are_free(desk: Desk) -> None:
    """Method: four pages are read concurrently for a run that has room for one row."""
    net = Net({("one/search", one): pages_of(one) for one in KEYWORDS[:4]}, takes_s=0.05)
    desk_ = DiscoverDesk(desk, net, [search("one")])
    owner = await desk_.owner(credits=50)
    view = await desk_.ran(owner, keywords=KEYWORDS[:4], max_rows=1)
    assert (view.run.rows_kept, view.job.used_credits) == (1, 1)
    assert net.calls.total() > 1
    legs = await desk.store.read(lambda tx: tx.all("SELECT credits_used FROM discover_legs", ()))
    assert sum(one for (one,) in legs) == 1
    assert await desk.money(owner.account_id) == (49, 0)
    await desk.assert_sound(owner.account_id)


@pytest.mark.critical
async def test_pages_without_matching_rows_are_free(desk: Desk) -> None:
    old = [[a_post("old", at="2020-01-01T00:00:00.000Z")]]
    net = Net(
        {("one/search", "old"): old, ("one/search", "same"): pages_of("a"), ("two/search", "same"): pages_of("a")}
    )
    desk_ = DiscoverDesk(desk, net, [search("one"), search("two")])
    owner = await desk_.owner(credits=50)
    async with desk_.open():
        job = await desk_.begin(owner, keywords=["old", "same", "none"], date_from="2026-01-01")
        view = await desk_.settled(owner, job.id)
    assert (view.run.rows_kept, view.job.used_credits) == (1, 2), "a row that was found elsewhere is kept there"
    assert await desk.money(owner.account_id) == (48, 0)


async def test_accounts_are_read_in_turns_over_their_pages(desk: Desk) -> None:
    net = Net(
        {("one/users", one): [[an_account(f"{one}_{n}") for n in range(5)]] for one in KEYWORDS[:4]},
        profiles={
            f"{one}_{n}": an_account(f"{one}_{n}", bio="b", followers=1) for one in KEYWORDS[:4] for n in range(5)
        },
    )
    users = search("one", "account", "author", "users")
    desk_ = DiscoverDesk(desk, net, [users], ["one"])
    owner = await desk_.owner()
    async with desk_.open():
        job = await desk_.begin(owner, keywords=KEYWORDS[:4], view="accounts", max_credits=8)
        view = await desk_.settled(owner, job.id)
    assert (view.job.stopped_because, view.job.used_credits) == ("max_credits", 8)
    assert {one for one in net.calls if one.startswith("@")} == {f"@{one}_0" for one in KEYWORDS[:4]}
