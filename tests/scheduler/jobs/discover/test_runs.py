"""Discover runs: every row and every charge once, whatever fails in between (decisions 17 and 19)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import orjson
import pytest
import trio

from billing.errors import InsufficientCredits
from gateway.api.routes.discover.shapes import changes_data
from scheduler.errors import JobInvalid, JobOver, JobUnknown
from scheduler.jobs import job_rows
from scheduler.jobs.discover import run_rows
from scheduler.jobs.discover.merging import sightings_of
from scheduler.jobs.discover.service import RunPatch
from scheduler.jobs.discover.spec import KIND
from scheduler.jobs.discover.tables import TABLES
from scheduler.jobs.service import JobOwner
from scheduler.recipes import Gathered, Recipe
from tests.fakes.upstream_server import until
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.discover.net import DiscoverDesk, Net, a_post, search

TWO = (search("one"), search("two"))


def pages_of(*names: str, size: int = 2) -> list[list[dict[str, Any]]]:
    """Return posts in pages of `size`."""
    return [[a_post(one) for one in names[begin : begin + size]] for begin in range(0, len(names), size)]


def again(owner: JobOwner, n: int = 2) -> JobOwner:
    return replace(owner, request_id=f"{owner.request_id}_{n}")


async def test_run_keeps_each_row_once_with_its_sightings(desk: Desk) -> None:
    net = Net({("one/search", "trio"): pages_of("a", "b", "c"), ("two/search", "trio"): pages_of("c", "d")})
    desk_ = DiscoverDesk(desk, net, TWO)
    owner = await desk_.owner(credits=500)
    job = await desk_.begin(owner, max_credits=100)
    assert await desk.money(owner.account_id) == (460, 40)  # 2 legs of at most 20 pages
    async with desk_.open():
        view = await desk_.settled(owner, job.id)
    run = view.run
    assert (view.job.status, view.job.stopped_because, view.job.used_credits) == ("completed", None, 3)
    assert (run.legs_planned, run.legs_done, run.legs_empty, run.legs_failed) == (2, 2, 0, 0)
    assert sorted(await desk_.names(job.id)) == ["a", "b", "c", "d"]
    shared = next(one for one in await desk_.rows(job.id) if len(sightings_of(one)) == 2)
    assert {(one.endpoint, one.rank) for one in sightings_of(shared)} == {("one/search", 3), ("two/search", 1)}
    assert await desk.money(owner.account_id) == (497, 0)
    assert await desk.settled() == {owner.request_id: 3}
    await desk.assert_sound(owner.account_id)


def test_known_rows_of_a_page_are_found_by_index() -> None:
    """Method: check SQLite's query plan. Both halves of the query must use more of the index than the run's id."""
    sql = run_rows.FIND.replace("{keys}", "?, ?").replace("{ids}", "?, ?")
    with closing(sqlite3.connect(":memory:")) as empty:
        for one in TABLES:
            empty.execute(one)
        plan = [row[3] for row in empty.execute(f"EXPLAIN QUERY PLAN {sql}", ("dr_1", "a", "b", "dr_1", "a", "b"))]
    looks = [one for one in plan if "discover_rows" in one]
    assert [one.partition("(")[2] for one in looks] == ["run_id=? AND key=?)", "run_id=? AND row_id=?)"]


async def test_throttled_search_is_retried(quick: Desk) -> None:
    net = Net({("one/search", "trio"): pages_of("a", "b", "c")}, throttled=Counter({"one/search": 2}))
    desk_ = DiscoverDesk(quick, net, TWO[:1])
    owner = await desk_.owner()
    view = await desk_.ran(owner)
    assert (view.job.status, view.run.legs_failed, view.job.used_credits) == ("completed", 0, 2)
    assert sorted(await desk_.names(view.run.run_id)) == ["a", "b", "c"]
    await quick.assert_sound(owner.account_id)


@pytest.mark.parametrize(("held_s", "calls"), [(1, 3), (61, 1)])
async def test_leg_fails_if_its_search_is_throttled_too_often_or_too_long(quick: Desk, held_s: int, calls: int) -> None:
    net = Net({("two/search", "trio"): pages_of("a")}, throttled=Counter({"one/search": 9}), held_s=held_s)
    desk_ = DiscoverDesk(quick, net, TWO)
    owner = await desk_.owner()
    view = await desk_.ran(owner)
    assert (view.job.status, view.run.legs_failed, view.job.used_credits) == ("partial", 1, 1)
    assert net.calls["one/search trio 0"] == calls
    await quick.assert_sound(owner.account_id)


async def test_empty_search_succeeds_and_broken_search_makes_the_run_partial(desk: Desk) -> None:
    net = Net({("one/search", "trio"): pages_of("a")}, broken={("two/search", "trio")})
    desk_ = DiscoverDesk(desk, net, TWO)
    owner = await desk_.owner()
    view = await desk_.ran(owner, keywords=["trio", "none"])
    assert (view.job.status, view.job.used_credits) == ("partial", 1)
    assert (view.run.legs_done, view.run.legs_empty, view.run.legs_failed) == (1, 2, 1)
    ((failed,),) = (await desk_.service.failed_legs([view])).values()
    assert (failed.number, failed.error) == (2, "UPSTREAM_ERROR")


@pytest.mark.critical
async def test_run_is_charged_for_a_page_that_is_too_costly(desk: Desk) -> None:
    net = Net({("one/search", "trio"): pages_of("a")}, costly={("two/search", "trio")}, price_credits=2)
    desk_ = DiscoverDesk(desk, net, [search("one", price_credits=2), search("two", price_credits=2)])
    owner = await desk_.owner(credits=50)
    view = await desk_.ran(owner)
    assert (view.job.used_credits, view.run.legs_done, view.run.legs_empty) == (4, 1, 1)
    legs = await desk.store.read(lambda tx: tx.all("SELECT credits_used FROM discover_legs ORDER BY number", ()))
    assert legs == [(2,), (2,)]
    assert await desk.money(owner.account_id) == (46, 0)


async def test_run_fails_for_free_if_every_search_fails(desk: Desk) -> None:
    net = Net(broken={("one/search", "trio"), ("two/search", "trio")})
    desk_ = DiscoverDesk(desk, net, TWO)
    owner = await desk_.owner(credits=50)
    view = await desk_.ran(owner)
    assert (view.job.status, view.job.stopped_because, view.job.used_credits) == ("failed", "upstreams_down", 0)
    assert await desk.money(owner.account_id) == (50, 0)
    told = [type_ for type_, _ in await desk_.events(owner.account_id)]
    assert told == ["discover.progress", "discover.progress", "discover.failed"]


async def test_run_pauses_at_max_credits_and_resumes_at_the_same_position(desk: Desk) -> None:
    names = [f"p{n:02d}" for n in range(20)]
    desk_ = DiscoverDesk(desk, Net({("one/search", "trio"): pages_of(*names)}), TWO[:1])
    owner = await desk_.owner(credits=100)
    async with desk_.open():
        job = await desk_.begin(owner, max_credits=4)
        paused = await desk_.settled(owner, job.id)
        assert (paused.job.status, paused.job.stopped_because) == ("paused", "max_credits")
        assert (paused.job.used_credits, paused.run.rows_kept) == (4, 8)
        assert await desk.money(owner.account_id) == (96, 0)
        with pytest.raises(JobInvalid, match="max_credits"):
            await desk_.service.change(again(owner), job.id, RunPatch("running"))
        with pytest.raises(JobInvalid, match="must be 4 to"):
            await desk_.service.change(again(owner), job.id, RunPatch(None, 3))
        await desk_.service.change(again(owner), job.id, RunPatch("running", 7))
        await trio.sleep(0.05)
        paused = await desk_.settled(owner, job.id)
        assert (paused.job.used_credits, paused.run.rows_kept, paused.job.held_credits) == (7, 14, 7)
        await desk_.service.change(again(owner, 3), job.id, RunPatch("running", 50))
        ended = await desk_.settled(owner, job.id)
    assert (ended.job.status, ended.job.used_credits) == ("completed", 10)
    assert await desk_.names(job.id) == names
    assert set(desk_.net.calls.values()) == {1}
    assert await desk.settled() == {owner.request_id: 4, f"{owner.request_id}_2": 3, f"{owner.request_id}_3": 3}
    assert ended.job.held_credits - ended.job.returned_credits == ended.job.closed_credits == 10
    await desk.assert_sound(owner.account_id)


async def test_run_reserves_the_available_balance_and_pauses_when_spent(desk: Desk) -> None:
    desk_ = DiscoverDesk(desk, Net({("one/search", "trio"): pages_of(*"abcdefghij")}), TWO[:1])
    owner = await desk_.owner(credits=3)
    async with desk_.open():
        job = await desk_.begin(owner, max_credits=20)
        assert job.held_credits == 2
        paused = await desk_.settled(owner, job.id)
        assert (paused.job.stopped_because, paused.job.used_credits) == ("insufficient_credits", 2)
        await desk_.service.change(again(owner), job.id, RunPatch("running"))
        paused = await desk_.settled(owner, job.id)
        assert (paused.job.stopped_because, paused.job.used_credits) == ("insufficient_credits", 3)
        with pytest.raises(InsufficientCredits):
            await desk_.service.change(again(owner, 3), job.id, RunPatch("running"))
    with pytest.raises(InsufficientCredits):
        await desk_.begin(again(owner, 4))
    assert await desk.money(owner.account_id) == (0, 0)


KEYWORDS = [f"word{number}" for number in range(20)]


async def test_run_stops_at_max_rows_and_skips_the_rest(desk: Desk) -> None:
    """The first legs fill the run, and every keyword has rows on both platforms."""
    legs = [(path, keyword) for path in ("one/search", "two/search") for keyword in KEYWORDS]
    pages = {(path, keyword): pages_of(*(f"{path}-{keyword}-{row}" for row in range(6))) for path, keyword in legs}
    desk_ = DiscoverDesk(desk, net := Net(pages), TWO)
    owner = await desk_.owner()
    view = await desk_.ran(owner, keywords=KEYWORDS, max_rows=3)
    assert (view.job.status, view.job.stopped_because, view.run.rows_kept) == ("completed", "max_rows", 3)
    assert (view.run.legs_planned, view.job.used_credits) == (2 * len(KEYWORDS), 3)
    assert net.calls.total() < view.run.legs_planned


class LastIsFirst(Net):
    """A net whose first page arrives after the pages of all other searches."""

    async def gather(self, recipe: Recipe, credits_held: int, **how: Any) -> Gathered:
        if recipe.values["query"] == "trio" and recipe.path == "/v1/one/search":
            await until(lambda: self.calls.total() >= 17)
        return await super().gather(recipe, credits_held, **how)


async def test_leg_of_a_full_run_is_counted_once_despite_its_planned_page(desk: Desk) -> None:
    """Goal: a full run ends.

    Method: the page that fills the run is the last of its wave; all other legs are counted.
    """
    net = LastIsFirst({("one/search", "trio"): pages_of(*"abcdef"), ("two/search", "trio"): pages_of(*"uvwxyz")})
    desk_ = DiscoverDesk(desk, net, TWO)
    owner = await desk_.owner()
    view = await desk_.ran(owner, keywords=["trio", *"klmnopqr"], max_rows=3)
    assert (view.job.status, view.job.stopped_because, view.run.rows_kept) == ("completed", "max_rows", 3)
    assert (view.run.legs_planned, view.run.legs_done, view.run.legs_empty) == (18, 2, 16)


async def test_run_continues_if_max_credits_changes_while_it_starts(desk: Desk) -> None:
    """Method: the owner changes the limit between an attempt's lease and its first read, with a new reservation."""
    desk_ = DiscoverDesk(desk, Net({("one/search", "trio"): pages_of(*"abcdef")}), TWO[:1])
    owner = await desk_.owner()
    job = await desk_.begin(owner, max_credits=10)
    (ready,) = await desk.store.read(
        lambda tx: job_rows.ready_jobs(tx, "n1", kinds=desk_.runs.kinds, leases_at=0, limit=9)
    )
    (leased,) = await desk.store.write(lambda tx: job_rows.lease_jobs(tx, [ready], "n1", now=0, leases_at=0))
    await desk_.service.change(again(owner), job.id, RunPatch(None, 20))
    await desk_.runs.run(leased)
    view = await desk_.service.get(owner.account_id, job.id)
    assert (view.job.status, view.job.stopped_because, view.job.used_credits) == ("completed", None, 3)
    assert await desk.money(owner.account_id) == (10_000 - 3, 0)


async def test_owner_pauses_resumes_and_cancels_own_runs(desk: Desk) -> None:
    names = [f"p{n}" for n in range(200)]
    net = Net({("one/search", f"k{n}"): pages_of(*names) for n in range(10)}, takes_s=0.01)
    desk_ = DiscoverDesk(desk, net, TWO[:1])
    owner, other = await desk_.owner(), await desk_.owner()
    async with desk_.open():
        job = await desk_.begin(owner, keywords=[f"k{n}" for n in range(10)])
        await trio.sleep(0.1)
        with pytest.raises(JobUnknown):
            await desk_.service.change(other, job.id, RunPatch("paused"))
        paused = await desk_.service.change(again(owner), job.id, RunPatch("paused"))
        assert (paused.job.status, paused.job.stopped_because) == ("paused", "owner")
        assert (await desk.money(owner.account_id))[1] == 0
        resumed = await desk_.service.change(again(owner), job.id, RunPatch("running"))
        assert resumed.job.status == "queued"
        raised = await desk_.service.change(again(owner, 3), job.id, RunPatch(None, 2_000))
        assert raised.run.max_credits == 2_000
        with pytest.raises(JobInvalid, match="while the run is active"):
            await desk_.service.change(again(owner, 4), job.id, RunPatch(None, 1_999))
        await trio.sleep(0.1)
        cancelled = await desk_.service.cancel(owner.account_id, job.id)
        assert (cancelled.job.status, cancelled.job.stopped_because) == ("cancelled", "owner")
        assert cancelled.run.version > raised.run.version
        assert await desk_.service.cancel(owner.account_id, job.id) == cancelled
        with pytest.raises(JobOver):
            await desk_.service.change(again(owner, 5), job.id, RunPatch("paused"))
    assert await desk.money(owner.account_id) == (10_000 - cancelled.job.used_credits, 0)
    types = [type_ for type_, _ in await desk_.events(owner.account_id)]
    assert [one for one in types if one != "discover.progress"] == ["discover.paused"]
    await desk.assert_sound(owner.account_id)


async def test_progress_events_are_sent_once_per_tenth_without_keywords(desk: Desk) -> None:
    keywords = [f"secret{n}" for n in range(20)]
    net = Net({("one/search", one): pages_of(f"{one}_row") for one in keywords})
    desk_ = DiscoverDesk(desk, net, TWO[:1])
    owner = await desk_.owner()
    async with desk_.open():
        view = await desk_.settled(owner, (await desk_.begin(owner, keywords=keywords)).id)
        quiet = await desk_.settled(owner, (await desk_.begin(again(owner), background=False)).id)
    events = await desk_.events(owner.account_id)
    assert [type_ for type_, _ in events] == [*["discover.progress"] * 10, "discover.completed"]
    ended = [body["data"]["counts"]["legs"]["done"] for _, body in events]
    assert ended == [*range(2, 21, 2), 20]
    versions = [body["data"]["version"] for _, body in events]
    assert versions == sorted(set(versions))
    last = events[-1][1]
    assert last["data"] == {
        "run_id": view.run.run_id,
        "status": "completed",
        "stopped_because": None,
        "counts": {
            "legs": {"planned": 20, "done": 20, "empty": 0, "failed": 0, "skipped": 0, "pending": 0},
            "rows_kept": 20,
        },
        "credits": {"spent": 20},
        "version": view.run.version,
        "schedule_id": None,
    }
    base = f"https://api.example.com/v1/prism/discover/runs/{view.run.run_id}"
    assert last["links"] == {
        "run": base,
        "results": f"{base}/results.jsonl",
        "changes": f"{base}?changes_since={versions[-2]}",
    }
    assert "secret" not in orjson.dumps(events).decode()
    assert quiet.job.status == "completed"


async def test_run_survives_worker_deaths_without_lost_rows_or_double_charges(desk: Desk) -> None:
    """Goal: no row is lost or duplicated, and no page is charged twice.

    Method: the workers are repeatedly cancelled, or forget the run without returning its lease. At the end the run is
    compared with an uninterrupted one.
    """
    keywords, rng = [f"k{n}" for n in range(6)], Random(5)
    pages = {
        (one.id, keyword): pages_of(*(f"{(n * 7 + len(keyword) * m) % 90}" for m in range(9)))
        for n, keyword in enumerate(keywords)
        for one in TWO
    }
    desk_ = DiscoverDesk(desk, Net(pages, takes_s=0.004), TWO)
    owner, deaths = await desk_.owner(), 0
    whole = await desk_.begin(again(owner), keywords=keywords)
    async with desk_.open():
        await desk_.settled(owner, whole.id)
    job = await desk_.begin(owner, keywords=keywords)
    while not (await desk_.service.get(owner.account_id, job.id)).job.is_over and deaths < 400:
        async with desk_.open():
            await trio.sleep(rng.random() * 0.02 * (1 + deaths / 20))  # on a slow machine, each process needs more time
            deaths += 1
            if rng.random() < 0.5:  # as after kill -9: the run is running, and its lease is not renewed
                await desk.store.write(
                    lambda tx: tx.run("UPDATE jobs SET attempt = attempt + 1 WHERE status = 'running'")
                )
        await desk.store.write(lambda tx: tx.run("UPDATE jobs SET lease_until = 0 WHERE status = 'running'"))
    ended, like = await desk_.service.get(owner.account_id, job.id), await desk_.service.get(owner.account_id, whole.id)
    assert deaths >= 5
    assert (ended.job.status, ended.job.used_credits) == ("completed", like.job.used_credits)
    assert ended.run.legs_done == 12
    found = {one.row_id: set(sightings_of(one)) for one in await desk_.rows(job.id)}
    assert found == {one.row_id: set(sightings_of(one)) for one in await desk_.rows(whole.id)}
    assert len(await desk_.rows(job.id)) == ended.run.rows_kept == len(found)
    told = [body["data"] for _, body in await desk_.events(owner.account_id) if body["data"]["run_id"] == job.id]
    done = [one["counts"]["legs"]["done"] for one in told]
    assert done == sorted(done)
    assert [one["status"] for one in told].count("completed") == 1
    await desk.assert_sound(owner.account_id)


async def test_paused_run_expires_and_is_removed_with_its_rows(desk: Desk) -> None:
    desk_ = DiscoverDesk(desk, Net({("one/search", "trio"): pages_of(*"abcdef")}), TWO[:1])
    owner = await desk_.owner()
    async with desk_.open():
        job = await desk_.begin(owner, max_credits=2)
        await desk_.settled(owner, job.id)
    expire = partial(job_rows.expire_paused, kind=KIND, now=desk.now())
    assert await desk.store.write(partial(expire, before=desk.now())) == 0
    assert await desk.store.write(partial(expire, before=desk.now() + 1)) == 1
    view = await desk_.service.get(owner.account_id, job.id)
    assert (view.job.status, view.job.stopped_because, view.run.rows_kept) == ("cancelled", "expired", 4)
    rounds = 0
    while await desk.store.write(partial(job_rows.drop_old, before=desk.now() + 1, limit=2, kinds=(KIND,))):
        rounds += 1
    assert rounds > 2
    for table in ("jobs", "job_steps", "discover_runs", "discover_legs", "discover_rows"):
        assert await desk.store.read(lambda tx, table=table: tx.one(f"SELECT COUNT(*) FROM {table}")) == (0,)
    await desk.assert_sound(owner.account_id)


async def test_changes_since_a_version_include_added_changed_and_dropped_rows(desk: Desk) -> None:
    net = Net({("one/search", "trio"): pages_of(*"abcdef"), ("one/search", "anyio"): pages_of(*"fedx")})
    desk_ = DiscoverDesk(desk, net, TWO[:1])
    owner = await desk_.owner()
    async with desk_.open():
        job = await desk_.begin(owner, keywords=["trio", "anyio"], max_credits=2)
        at_first = await desk_.settled(owner, job.id)
        await desk_.service.change(again(owner), job.id, RunPatch("running", 100))
        ended = await desk_.settled(owner, job.id)
    service, account_id = desk_.service, owner.account_id
    first = at_first.run.version
    since = changes_data(await service.changes(account_id, job.id, first, limit=100), first)
    rows = {one.row_id: one for one in await desk_.rows(job.id)}
    before = {one.row_id for one in rows.values() if one.first_version <= at_first.run.version}
    assert {one["row_id"] for one in since["added"]} == rows.keys() - before
    assert all(one["row_id"] in before and one["version"] > first for one in since["changed"])
    assert (since["gone"], since["version"], since["has_more"]) == ([], ended.run.version, False)
    version, paged, has_more = 0, list[str](), True
    while has_more:
        page = changes_data(await service.changes(account_id, job.id, version, limit=2), version)
        version, has_more = page["version"], page["has_more"]
        paged += [one["row_id"] for one in (*page["added"], *page["changed"])]
    assert sorted(paged) == sorted(rows)
    with pytest.raises(JobInvalid, match="changes_since"):
        await service.changes(account_id, job.id, ended.run.version + 1, limit=1)
    with pytest.raises(JobInvalid, match="after"):
        await service.place(account_id, job.id, "row_none")
    third = (await desk_.rows(job.id))[2]
    assert await service.place(account_id, job.id, third.row_id) == third.number
