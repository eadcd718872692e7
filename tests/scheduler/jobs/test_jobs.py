"""Durable jobs read every page once and are charged once for it, whatever fails in between (decisions 17 and 21)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
import trio

from billing.charges.batch_rows import ChargeRequest
from billing.charges.recovery import recover
from billing.errors import InsufficientCredits, KeyBudgetReached
from scheduler.errors import JobLimitReached, JobOver, JobUnknown
from scheduler.jobs import job_rows, job_runs, service, workers
from scheduler.jobs.crawl.pages import PageSteps
from scheduler.jobs.crawl.spec import KINDS
from scheduler.jobs.job_runs import cancel_jobs_of
from scheduler.jobs.records import JobRecord
from scheduler.jobs.service import JobOwner
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.site import HOME, JobDesk, Site, tree


def in_levels(pages: dict[str, list[str]]) -> list[tuple[int, str]]:
    """Return the pages of a site breadth first, each once, computed independently of the crawler."""
    found, level, depth = [(0, HOME)], [HOME], 0
    seen = {HOME}
    while level:
        depth += 1
        below = [one for page in level for one in pages[page] if one not in seen]
        level = [one for place, one in enumerate(below) if one not in below[:place]]
        seen |= set(level)
        found += [(depth, one) for one in level]
    return found


async def test_crawl_reads_each_page_once_breadth_first_and_charges_results(desk: Desk) -> None:
    pages = tree(3, 4)
    jobs = JobDesk(desk, Site(pages))
    owner = await jobs.owner(credits=200)
    job = await jobs.crawl(owner, limit=100)
    assert (await desk.money(owner.account_id)) == (100, 100)
    async with jobs.open():
        ended = await jobs.ended(owner, job)
    assert (ended.status, ended.planned, ended.done, ended.used_credits) == ("completed", 85, 85, 85)
    assert await jobs.pages_of(owner, job) == in_levels(pages)
    assert jobs.site.read_pages == dict.fromkeys(pages, 1)
    assert await desk.money(owner.account_id) == (115, 0)
    assert await desk.settled() == {owner.request_id: 85}
    await desk.assert_sound(owner.account_id)


async def test_jobs_of_unknown_kinds_stay_queued_without_blocking_others(desk: Desk, monkeypatch: Any) -> None:
    """Method: more jobs of a newer node's kind than one poll reads, all of them older."""
    monkeypatch.setattr(workers, "READY_MAX", 2)
    jobs = JobDesk(desk, Site(tree(1, 1)))
    owner = await jobs.owner(credits=200)
    newer = [await jobs.crawl(await jobs.owner(credits=200), limit=2) for _ in range(3)]
    ids = [job.id for job in newer]
    await desk.store.write(lambda tx: tx.run_in("UPDATE jobs SET kind = 'newer' WHERE id IN {in}", ids))
    ended = await jobs.ran(owner, limit=2)
    assert ended.status == "completed"
    for one in ids:
        left = await desk.store.read(partial(job_rows.read_job, job_id=one))
        assert left is not None
        assert (left.status, left.attempt) == ("queued", 0)


@pytest.mark.critical
async def test_crawl_is_charged_for_a_page_that_is_too_costly(desk: Desk) -> None:
    pages = {HOME: [f"{HOME}a", f"{HOME}bomb"], f"{HOME}a": []}
    jobs = JobDesk(desk, Site(pages, costly=frozenset((f"{HOME}bomb",))))
    owner = await jobs.owner(credits=100)
    ended = await jobs.ran(owner, limit=10)
    assert (ended.done, ended.empty, ended.used_credits) == (2, 1, 3)
    assert await desk.money(owner.account_id) == (97, 0)
    assert await desk.settled() == {owner.request_id: 3}
    await desk.assert_sound(owner.account_id)


async def test_missing_and_failed_pages_are_free_and_listed(desk: Desk) -> None:
    pages = {HOME: [f"{HOME}{name}" for name in ("a", "gone", "broken")], f"{HOME}a": []}
    jobs = JobDesk(desk, Site(pages, frozenset((f"{HOME}broken",))))
    owner = await jobs.owner()
    job = await jobs.crawl(owner, limit=50)
    async with jobs.open():
        ended = await jobs.ended(owner, job)
    assert (ended.status, ended.done, ended.empty, ended.failed, ended.used_credits) == ("partial", 2, 1, 1, 2)
    rows, has_more = await jobs.service.steps(owner.account_id, job.id, ("empty", "failed"), after=0, limit=10)
    assert [(row.name, row.status, row.error) for row in rows] == [
        (f"{HOME}gone", "empty", "RESOURCE_NOT_FOUND"),
        (f"{HOME}broken", "failed", "UPSTREAM_ERROR"),
    ]
    assert not has_more


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"limit": 7}, 7),
        ({"limit": 100, "max_depth": 0}, 1),
        ({"limit": 100, "max_depth": 1}, 4),
        ({"limit": 100, "include_paths": ["/", "/0/*"]}, 5),
        ({"limit": 100, "exclude_paths": ["/0/*", "/1/*"]}, 5),
    ],
)
async def test_crawl_stays_within_its_bounds(quick: Desk, bounds: dict[str, Any], expected: int) -> None:
    jobs = JobDesk(quick, Site(tree(2, 3)))
    owner = await jobs.owner()
    ended = await jobs.ran(owner, **bounds)
    assert ended.done == expected
    await quick.assert_sound(owner.account_id)


async def test_pages_of_one_host_have_limited_concurrency(quick: Desk) -> None:
    jobs = JobDesk(quick, Site(tree(2, 5), takes_s=0.01))
    owner = await jobs.owner()
    async with jobs.open():
        made = [await jobs.crawl(JobOwner(owner.account_id, owner.key_id, f"req_{n}"), limit=40) for n in range(3)]
        for job in made:
            await jobs.ended(owner, job)
    assert jobs.site.most_at_once == 2
    await quick.assert_sound(owner.account_id)


async def test_page_of_a_throttled_host_is_retried(quick: Desk) -> None:
    jobs = JobDesk(quick, Site(tree(1, 3), waits=Counter({HOME: 1, f"{HOME}1/": 2})))
    owner = await jobs.owner()
    ended = await jobs.ran(owner, limit=10)
    assert (ended.status, ended.done, ended.failed, ended.used_credits) == ("completed", 4, 0, 4)
    await quick.assert_sound(owner.account_id)


async def test_unaffordable_or_excess_job_is_rejected_without_reservation(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = JobDesk(desk, Site(tree(1, 1)))
    owner = await jobs.owner(credits=30)
    with pytest.raises(InsufficientCredits):
        await jobs.crawl(owner, limit=31)
    await desk.keys.update(owner.key_id, credit_limit=5)
    with pytest.raises(KeyBudgetReached):
        await jobs.crawl(owner, limit=6)
    monkeypatch.setattr(service, "LIVE_MAX", 1)
    await jobs.crawl(owner, limit=1)
    with pytest.raises(JobLimitReached):
        await jobs.crawl(JobOwner(owner.account_id, owner.key_id, "req_2"), limit=1)
    assert await desk.money(owner.account_id) == (29, 1)


async def test_job_is_paused_resumed_and_cancelled_only_by_its_owner(desk: Desk) -> None:
    jobs = JobDesk(desk, Site(tree(3, 4), takes_s=0.05))
    owner, other = await jobs.owner(), await jobs.owner()
    async with jobs.open():
        job = await jobs.crawl(owner, limit=85)
        await jobs.until(owner, job, done=10)
        with pytest.raises(JobUnknown):
            await jobs.service.cancel(other.account_id, job.id)
        paused = await jobs.service.set_status(owner.account_id, job.id, "paused")
        await trio.sleep(0.05)
        still = await jobs.service.get(owner.account_id, job.id)
        assert (still.status, still.stopped_because, still.done) == ("paused", "owner", paused.done)
        resumed = await jobs.service.set_status(owner.account_id, job.id, "running")
        assert resumed.status == "queued"
        await jobs.until(owner, job, done=paused.done + 10)
        cancelled = await jobs.service.cancel(owner.account_id, job.id)
        assert (cancelled.status, cancelled.used_credits) == ("cancelled", cancelled.done)
        assert await jobs.service.cancel(owner.account_id, job.id) == await jobs.service.get(owner.account_id, job.id)
        with pytest.raises(JobOver):
            await jobs.service.set_status(owner.account_id, job.id, "paused")
    assert await desk.settled() == {owner.request_id: cancelled.done}
    assert len(await jobs.pages_of(owner, job)) == cancelled.done
    await desk.assert_sound(owner.account_id, other.account_id)


async def test_job_survives_worker_deaths_without_lost_pages_or_double_charges(desk: Desk) -> None:
    """Goal: no page is lost or charged twice.

    Method: the workers are cancelled forty times, or they forget the job without returning its lease.
    """
    pages, rng = tree(3, 4), Random(7)
    jobs = JobDesk(desk, Site(pages, takes_s=0.002))
    owner = await jobs.owner()
    job, deaths = await jobs.crawl(owner, limit=100), 0
    while not (await jobs.service.get(owner.account_id, job.id)).is_over and deaths < 400:
        async with jobs.open():
            await trio.sleep(rng.random() * 0.03 * (1 + deaths / 20))  # on a slow machine, each process needs more time
            deaths += 1
            if rng.random() < 0.5:  # as after kill -9: the job is running, and its lease is not renewed
                await desk.store.write(
                    lambda tx: tx.run("UPDATE jobs SET attempt = attempt + 1 WHERE status = 'running'")
                )
        await desk.store.write(lambda tx: tx.run("UPDATE jobs SET lease_until = 0 WHERE status = 'running'"))
    ended = await jobs.service.get(owner.account_id, job.id)
    assert deaths >= 5
    assert (ended.status, ended.done, ended.used_credits) == ("completed", 85, 85)
    assert await jobs.pages_of(owner, job) == in_levels(pages)
    assert await desk.settled() == {owner.request_id: 85}
    await desk.assert_sound(owner.account_id)


async def test_interrupted_wave_is_planned_again_identically(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runs, "PLANNED_AT_ONCE", 2)
    pages = tree(2, 5)
    jobs = JobDesk(desk, Site(pages))
    owner = await jobs.owner()
    job = await jobs.crawl(owner, limit=100)
    cut = job_runs.JobRuns._add
    left = [0]

    def cut_short(self: Any, tx: Any, **terms: Any) -> bool:
        left[0] -= 1
        return cut(self, tx, **terms) if left[0] else False

    monkeypatch.setattr(job_runs.JobRuns, "_add", cut_short)
    for attempt in range(20):  # each attempt gets further than the previous one
        left[0] = 2 + 2 * attempt
        async with jobs.open():
            with trio.move_on_after(0.2):
                await jobs.ended(owner, job)
        await desk.store.write(lambda tx: tx.run("UPDATE jobs SET lease_until = 0 WHERE status = 'running'"))
        if (await jobs.service.get(owner.account_id, job.id)).is_over:
            break
    assert await jobs.pages_of(owner, job) == in_levels(pages)


async def test_job_without_a_reservation_fails_immediately(desk: Desk) -> None:
    jobs = JobDesk(desk, Site(tree(1, 1)))
    owner = await jobs.owner()
    job = await jobs.crawl(owner, limit=5)
    await desk.store.write(lambda tx: tx.run("UPDATE jobs SET request_id = 'req_other'"))
    async with jobs.open():
        ended: JobRecord = await jobs.ended(owner, job)
    assert (ended.status, ended.stopped_because, ended.used_credits) == ("failed", job_runs.NEVER_RESERVED, 0)
    assert not jobs.site.read_pages


async def test_crash_recovery_keeps_job_reservations(desk: Desk) -> None:
    jobs = JobDesk(desk, Site(tree(1, 1)))
    owner = await jobs.owner()
    job = await jobs.crawl(owner, limit=5)
    await desk.charges.take(ChargeRequest("req_of_a_call", owner.account_id, owner.key_id, 3, "github", "/v1/x"))
    recovered = await recover(desk.store, now=desk.now)
    assert (recovered.charges, recovered.credits) == (1, 3)
    async with jobs.open():
        assert (await jobs.ended(owner, job)).used_credits == 2
    assert await desk.money(owner.account_id) == (9_998, 0)


async def test_jobs_of_a_deleted_account_are_cancelled_and_removed(desk: Desk) -> None:
    jobs = JobDesk(desk, Site(tree(2, 3)))
    owner = await jobs.owner()
    done, left = await jobs.crawl(owner, limit=5), await jobs.crawl(replace_request(owner), limit=50)
    await jobs.service.set_status(owner.account_id, left.id, "paused")
    async with jobs.open():
        await jobs.ended(owner, done)
    await desk.lifecycle.delete(owner.account_id)
    cancel = partial(cancel_jobs_of, account_id=owner.account_id, charges=desk.charges, now=desk.now)
    assert [await desk.store.write(cancel) for _ in range(2)] == [1, 0]
    assert (await jobs.service.get(owner.account_id, left.id)).stopped_because == "account_deleted"
    while await desk.store.write(partial(job_rows.forget_jobs_of, account_id=owner.account_id)):
        pass
    for table in ("jobs", "job_steps"):
        assert await desk.store.read(lambda tx, table=table: tx.one(f"SELECT COUNT(*) FROM {table}")) == (0,)
    await desk.assert_sound(owner.account_id)


async def test_old_jobs_are_swept_a_few_steps_at_a_time(desk: Desk) -> None:
    jobs = JobDesk(desk, Site(tree(2, 3)))
    owner = await jobs.owner()
    async with jobs.open():
        job = await jobs.ended(owner, await jobs.crawl(owner, limit=50))
    assert job.finished_at is not None
    assert await desk.store.write(lambda tx: job_rows.drop_old(tx, desk.now(), 5, KINDS)) == 0
    rounds = 0
    while await desk.store.write(lambda tx: job_rows.drop_old(tx, desk.now() + 1, 5, KINDS)):
        rounds += 1
    assert rounds == 3
    with pytest.raises(JobUnknown):
        await jobs.service.get(owner.account_id, job.id)


async def test_job_of_another_kind_is_unknown_and_has_its_own_id_prefix(desk: Desk) -> None:
    jobs = JobDesk(desk, Site(tree(1, 1)))
    owner = await jobs.owner()
    others = service.JobService(
        desk.store, desk.charges, kinds=("other",), now=desk.now, make_id=desk.make_id, wake=jobs.wake
    )
    begun = list[str]()
    draft = service.JobDraft("other", "{}", ["1"], 1, "account", "/v1/others", prefix="oth_")
    made = await others.begin(replace(draft, also=lambda _tx, job: begun.append(job.id)), owner)
    assert made.id.startswith("oth_")
    assert begun == [made.id]
    with pytest.raises(JobUnknown):
        await jobs.service.get(owner.account_id, made.id)
    with pytest.raises(JobUnknown):
        await jobs.service.cancel(owner.account_id, made.id)
    assert await jobs.service.page(owner.account_id, before=None, limit=10) == []
    assert [one.id for one in await others.page(owner.account_id, before=None, limit=10)] == [made.id]


async def test_unexpected_error_of_a_private_kind_is_logged_without_its_text(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = JobDesk(desk, Site(tree(1, 1)))
    owner = await jobs.owner()

    monkeypatch.setattr(PageSteps, "is_private", True)

    async def fail(_job: JobRecord, _step: object) -> Any:
        await trio.lowlevel.checkpoint()
        raise KeyError("the log must not contain a handle")

    jobs.pages.perform = fail  # type: ignore[method-assign]
    async with jobs.open():
        job = await jobs.ended(owner, await jobs.crawl(owner, limit=1))
    assert (job.status, job.stopped_because) == ("failed", "internal_error")
    assert [name for name, _ in desk.log.events] == ["job_failed"]
    assert "a handle" not in str(desk.log.events)


def replace_request(owner: JobOwner) -> JobOwner:
    return JobOwner(owner.account_id, owner.key_id, f"{owner.request_id}_2")
