"""Webhooks of jobs on one store: each end has one delivery, and deletion leaves no rows (decisions 21)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import orjson
import pytest
import trio

from billing.keys.sealing import Cipher
from scheduler.clock.instants import instant_of
from scheduler.errors import MonitorInvalid
from scheduler.jobs import job_rows
from scheduler.jobs.crawl.spec import KINDS, CrawlBody, crawl_of
from scheduler.jobs.crawl.webhooks import JobWebhooks
from scheduler.jobs.job_runs import cancel_jobs_of
from scheduler.jobs.records import JobRecord
from scheduler.jobs.service import JobOwner
from scheduler.webhooks.deliveries.queue import Outbox
from scheduler.webhooks.deliveries.turns import DueDelivery
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.urls import url_of
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.site import HOME, JobDesk, Site, tree

URL = "https://example.com/hook?token=of-the-receiver"


async def public(_host: str, _port: int) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["93.184.215.14"]


async def inside(_host: str, _port: int) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["10.0.0.1"]


class HookedDesk(JobDesk):
    """Jobs with webhooks. `told` contains the deliveries that commits have announced."""

    def __init__(self, desk: Desk, site: Site) -> None:
        self.told: list[DueDelivery] = []
        outbox = Outbox(instant_of(desk.now, is_alone=desk.is_alone), desk.make_id, self.told.append)
        self.hooks = JobWebhooks(Cipher(b"s" * 32), outbox, public, "https://api.example.com")
        super().__init__(desk, site, self.hooks.ended)

    async def hooked(self, owner: JobOwner, *, limit: int = 10) -> JobRecord:
        draft = crawl_of(CrawlBody(HOME, limit=limit), self.site)
        return await self.service.begin(self.hooks.with_webhook(draft, self.hooks.target(URL, None)), owner)

    async def rows(self, table: str) -> int:
        found = await self.desk.store.read(lambda tx: tx.one(f"SELECT COUNT(*) FROM {table}"))
        assert found is not None
        return int(found[0])

    async def bodies(self) -> list[dict[str, object]]:
        found = await self.desk.store.read(lambda tx: tx.all("SELECT body FROM deliveries ORDER BY created_at, id"))
        return [orjson.loads(body) for (body,) in found]


async def test_end_of_a_job_is_queued_once_and_a_pause_is_not_queued(desk: Desk) -> None:
    jobs = HookedDesk(desk, Site(tree(1, 3)))
    owner = await jobs.owner()
    first = await jobs.hooked(owner)
    await jobs.service.set_status(owner.account_id, first.id, "paused")
    assert await jobs.bodies() == []
    await jobs.service.set_status(owner.account_id, first.id, "running")
    async with jobs.open():
        await jobs.ended(owner, first)
    cancelled = await jobs.hooked(replace(owner, request_id="req_2"))
    for _ in range(2):
        await jobs.service.cancel(owner.account_id, cancelled.id)
    plain = await jobs.crawl(replace(owner, request_id="req_3"), limit=1)
    await jobs.service.cancel(owner.account_id, plain.id)
    assert [(body["job_id"], body["status"]) for body in await jobs.bodies()] == [
        (first.id, "completed"),
        (cancelled.id, "cancelled"),
    ]
    assert [(one.host, one.account_id) for one in jobs.told] == [("example.com", owner.account_id)] * 2


async def test_webhook_is_stored_sealed_and_deleted_with_its_job(desk: Desk) -> None:
    jobs = HookedDesk(desk, Site(tree(1, 1)))
    owner = await jobs.owner()
    job = await jobs.hooked(owner)
    row = await desk.store.read(lambda tx: hook_rows.read_webhooks(tx, [job.id])[job.id])
    assert url_of(jobs.hooks.cipher, row) == URL
    assert URL not in f"{row}{job.spec}"
    async with jobs.open():
        await jobs.ended(owner, job)
    assert (await jobs.rows("webhooks"), await jobs.rows("deliveries")) == (1, 1)
    while await desk.store.write(lambda tx: job_rows.drop_old(tx, desk.now() + 1, 5, KINDS)):
        pass
    assert (await jobs.rows("webhooks"), await jobs.rows("deliveries"), await jobs.rows("jobs")) == (0, 0, 0)


async def test_deleted_account_receives_nothing_and_leaves_no_rows(desk: Desk) -> None:
    jobs = HookedDesk(desk, Site(tree(1, 1)))
    owner = await jobs.owner()
    await jobs.hooked(owner)
    await desk.lifecycle.delete(owner.account_id)
    cancel = partial(cancel_jobs_of, account_id=owner.account_id, charges=desk.charges, now=desk.now)
    assert await desk.store.write(cancel) == 1
    assert await jobs.bodies() == []
    while await desk.store.write(partial(job_rows.forget_jobs_of, account_id=owner.account_id)):
        pass
    assert await jobs.rows("webhooks") == 0


async def test_private_webhook_target_is_rejected(desk: Desk) -> None:
    jobs = HookedDesk(desk, Site(tree(1, 1)))
    hooks = replace(jobs.hooks, resolve=inside)
    with pytest.raises(MonitorInvalid, match="webhook_url cannot be called"):
        await hooks.check(hooks.target(URL, None))
    with pytest.raises(MonitorInvalid, match="needs webhook_url"):
        hooks.target(None, "a secret of my own")
    await hooks.check(None)
