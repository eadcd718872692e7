"""Monitors on each real engine: limits over several nodes, changes that keep other fields, and bounded deletes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest
import trio

from billing.keys.sealing import Cipher
from scheduler.errors import MonitorInvalid, MonitorLimitReached, MonitorUnknown, RunTooSoon
from scheduler.monitors.changes import ALL_MAX, MonitorSetting
from scheduler.monitors.history import lists
from scheduler.monitors.history.lists import SlotSpan
from scheduler.monitors.model import store
from scheduler.monitors.model.draft import CreateBody
from scheduler.monitors.model.patch import PatchBody
from scheduler.monitors.service import MonitorService
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.urls import sealed_for, url_of
from tests.scheduler.desk import Desk, open_desks
from tests.scheduler.stored import ALL_PARTS, shown
from tests.scheduler.webhooks.receivers import PUBLIC, Resolver
from upstreams.guard.resolver import Resolve

PLAIN = CreateBody("github/search", "hourly", {}, "https://example.com/hook")


def service_of(desk: Desk, woken: list[float] | None = None, resolver: Resolve | None = None) -> MonitorService:
    seen = [] if woken is None else woken
    return MonitorService(
        MonitorSetting(
            desk.store,
            desk.recipes,
            Cipher(b"k" * 32),
            desk.slots,
            resolver or Resolver([PUBLIC]),
            now=desk.now,
            make_id=desk.make_id,
            wake=lambda: seen.append(desk.now()),
        )
    )


async def test_plan_limit_is_exact_over_two_nodes(store_url: str) -> None:
    """Goal: concurrent calls to several nodes cannot exceed a plan. Method: forty creates on two nodes."""
    async with open_nodes(store_url) as (desk, services):
        account = (await desk.accounts.create("test", plan="starter")).id
        outcomes: list[str] = []

        async def create(service: MonitorService) -> None:
            try:
                await service.create(service.draft(PLAIN), account, "key_1")
            except MonitorLimitReached as exc:
                outcomes.append(f"{exc.plan} {exc.limit}")
            else:
                outcomes.append("made")

        async with trio.open_nursery() as nursery:
            for service in services * 20:
                nursery.start_soon(create, service)
        assert sorted(outcomes) == ["made"] * 10 + ["starter 10"] * 30
        assert await active_count(desk, account) == 10
        await desk.assert_sound(account)


@asynccontextmanager
async def open_nodes(store_url: str) -> AsyncIterator[tuple[Desk, tuple[MonitorService, MonitorService]]]:
    """The services of two nodes, and the desk of the first."""
    async with open_desks(store_url) as (one, other):
        yield one, (service_of(one), service_of(other))


async def active_count(desk: Desk, account: str) -> int:
    count: int = await desk.store.read(lambda tx: lists.active_monitors(tx, account))
    return count


async def test_races_of_resumes_pauses_and_creates_respect_the_plan_limit(store_url: str) -> None:
    """Goal: a monitor that is paused while it is resumed counts toward the limit again. Method: forty rounds at it.

    In each round one monitor is paused and resumed concurrently, while other monitors, paused and new ones, compete for
    its place.
    """
    async with open_nodes(store_url) as (desk, services):
        account = (await desk.accounts.create("test", plan="free")).id
        ids = [(await services[0].create(services[0].draft(PLAIN), account, "key_1")).view.monitor.id for _ in "123"]
        refusals = 0

        async def change(service: MonitorService, id_: str, status: str) -> None:
            nonlocal refusals
            try:
                await service.change(account, id_, PatchBody(status=status))
            except MonitorLimitReached:
                refusals += 1

        async def create(service: MonitorService) -> None:
            nonlocal refusals
            try:
                ids.append((await service.create(service.draft(PLAIN), account, "key_1")).view.monitor.id)
            except MonitorLimitReached:
                refusals += 1

        for turn in range(40):
            view = await services[0].list(account, "all", before=None, limit=100)
            active = [one.monitor.id for one in view if one.monitor.status == "active"]
            paused = [one.monitor.id for one in view if one.monitor.status == "paused"]
            toggled = active[turn % len(active)]
            pausing, resuming = services[turn % 2], services[1 - turn % 2]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(change, pausing, toggled, "paused")
                for id_ in paused[:2]:
                    nursery.start_soon(change, pausing, id_, "active")
                for _ in range(4):
                    nursery.start_soon(change, resuming, toggled, "active")
                nursery.start_soon(create, resuming)
            count = await active_count(desk, account)
            assert 1 <= count <= 3, f"round {turn}"
        assert refusals > 20


async def test_resume_below_the_plan_limit_is_accepted(store_url: str) -> None:
    """Method: each of the three monitors of a plan is resumed four times on two nodes, forty times."""
    async with open_nodes(store_url) as (desk, services):
        account = (await desk.accounts.create("test", plan="free")).id
        ids = [(await services[0].create(services[0].draft(PLAIN), account, "key_1")).view.monitor.id for _ in "123"]
        for _ in range(40):
            for id_ in ids:
                await services[0].change(account, id_, PatchBody(status="paused"))
            async with trio.open_nursery() as nursery:
                for service in (*services, *services):
                    for id_ in ids:
                        nursery.start_soon(service.change, account, id_, PatchBody(status="active"))
            assert await active_count(desk, account) == 3


async def test_every_change_wakes_the_clock(desk: Desk) -> None:
    woken: list[float] = []
    service, account = service_of(desk, woken), await desk.account()
    saved = await service.create(service.draft(PLAIN), account, "key_1")
    await service.change(account, saved.view.monitor.id, PatchBody(cadence="daily"))
    desk.time += 61
    await service.run_now(account, saved.view.monitor.id)
    assert len(woken) == 3


async def test_change_keeps_fields_written_by_runs(desk: Desk) -> None:
    """Goal: an owner's change and a run's end do not overwrite each other's fields.

    Method: a run ends after the change has read the monitor.
    """
    service, account = service_of(desk), await desk.account()
    saved = await service.create(service.draft(PLAIN), account, "key_1")
    monitor = saved.view.monitor
    lease = await desk.lease(monitor, desk.now())
    await service.change(account, monitor.id, PatchBody(name="Another", alert_rules=[]))
    await desk.runs.run(lease)
    after = (await service.get(account, monitor.id)).monitor
    assert (after.name, after.runs_total, after.credits_spent, after.version) == ("Another", 1, 6, 1)
    assert after.baseline_run_id == lease.run.id


async def test_resumed_monitor_continues_with_its_next_slot(desk: Desk) -> None:
    service, account = service_of(desk), await desk.account()
    id_ = (await service.create(service.draft(PLAIN), account, "key_1")).view.monitor.id
    paused = (await service.change(account, id_, PatchBody(status="paused"))).view.monitor
    assert (paused.status, paused.next_slot_at) == ("paused", None)
    desk.time += 10 * 3600 + 5
    active = (await service.change(account, id_, PatchBody(status="active"))).view.monitor
    assert active.next_slot_at == (desk.time // 3600 + 1) * 3600


async def test_manual_run_needs_a_minute_since_the_last_run(desk: Desk) -> None:
    service, account = service_of(desk), await desk.account()
    id_ = (await service.create(service.draft(PLAIN), account, "key_1")).view.monitor.id
    first = await service.run_now(account, id_)
    desk.time += 59.5
    with pytest.raises(RunTooSoon) as refused:
        await service.run_now(account, id_)
    assert refused.value.retry_after_s == 1
    desk.time += 1
    assert (await service.run_now(account, id_)).id != first.id


async def test_secret_is_sealed_for_its_monitor(desk: Desk) -> None:
    service, account = service_of(desk), await desk.account()
    saved = await service.create(service.draft(PLAIN), account, "key_1")
    webhooks = await desk.store.read(lambda tx: hook_rows.read_webhooks(tx, [saved.view.monitor.id]))
    sealed = webhooks[saved.view.monitor.id].secret
    assert Cipher(b"k" * 32).unseal(sealed, bound_to=sealed_for(saved.view.monitor.id)) == saved.secret
    assert service.to_json(saved.view)["webhook"]["signing_secret_hint"] == f"...{(saved.secret or '')[-4:]}"
    other = MonitorService(
        MonitorSetting(
            desk.store,
            desk.recipes,
            Cipher(b"x" * 32),
            desk.slots,
            Resolver([PUBLIC]),
            now=desk.now,
            make_id=desk.make_id,
            wake=lambda: None,
        )
    )
    assert other.to_json(saved.view)["webhook"]["signing_secret_hint"] is None


async def test_monitor_with_an_unavailable_recipe_has_a_warning(desk: Desk) -> None:
    service, account = service_of(desk), await desk.account()
    monitor = await desk.monitor(account, recipe="gone/gone")
    shown = service.to_json(await service.get(account, monitor.id))
    assert (shown["estimated_cost_per_run"], shown["estimated_monthly_cost"]) == (None, None)
    assert "names no data endpoint" in shown["warnings"][0]


async def test_pages_of_runs_and_monitors_are_newest_first(desk: Desk) -> None:
    service, account = service_of(desk), await desk.account()
    ids = [(await service.create(service.draft(PLAIN), account, "key_1")).view.monitor.id for _ in range(5)]
    first = await service.list(account, "all", before=None, limit=2)
    last = first[-1].monitor
    rest = await service.list(account, "all", before=(last.created_at, last.id), limit=10)
    assert [view.monitor.id for view in (*first, *rest)] == ids[::-1], "all have the same timestamp"
    monitor = first[0].monitor
    for place in range(3):
        await desk.ran(monitor, desk.time + place)
    asked: dict[str, Any] = {"status": None, "parts": ALL_PARTS}
    page = await service.runs(account, monitor.id, window=SlotSpan(), limit=2, **asked)
    assert ([entry.run.scheduled_for for entry in page.entries], page.has_more) == (
        [desk.time + 2, desk.time + 1],
        True,
    )
    assert orjson.loads(shown(page.entries)[0].data.result or b"") == {"stars": 7}
    assert page.entries[0].delivery is not None
    assert page.entries[0].delivery.attempts == 0


async def test_deleted_monitor_leaves_no_rows(desk: Desk) -> None:
    service, account = service_of(desk), await desk.account()
    id_ = (await service.create(service.draft(PLAIN), account, "key_1")).view.monitor.id
    await desk.ran((await service.get(account, id_)).monitor)
    with pytest.raises(MonitorUnknown):
        await service.delete("acc_other", id_)
    await service.delete(account, id_)
    for table in ("monitors", "webhooks", "runs", "run_data", "deliveries"):
        assert await desk.store.read(lambda tx, table=table: tx.one(f"SELECT COUNT(*) FROM {table}")) == (0,)


async def test_paused_monitors_count_toward_the_total_limit(quick: Desk) -> None:
    service, account = service_of(quick), await quick.account()
    monitor = await quick.monitor(account, status="paused")

    def fill(tx: Any) -> None:
        for number in range(ALL_MAX - 1):
            store.add_monitor(tx, replace(monitor, id=f"mon_{number}"))

    await quick.store.write(fill)
    with pytest.raises(MonitorLimitReached, match="5000 monitors, including paused ones"):
        await service.create(service.draft(PLAIN), account, "key_1")


async def test_webhook_host_with_a_private_address_is_rejected(desk: Desk) -> None:
    resolver = Resolver([PUBLIC], [PUBLIC, "10.0.0.7"])
    service, account = service_of(desk, resolver=resolver), await desk.account()
    id_ = (await service.create(service.draft(PLAIN), account, "key_1")).view.monitor.id
    moved = PatchBody(name="moved", webhook_url="https://hooks.example.com:8443/in")
    for registering in (
        partial(service.create, service.draft(PLAIN), account, "key_1"),
        partial(service.preview, service.draft(PLAIN), account),
        partial(service.change, account, id_, moved),
    ):
        with pytest.raises(MonitorInvalid, match=r"webhook_url cannot be called: .* not public: private use"):
            await registering()
    assert resolver.asked == [("example.com", 443)] * 3 + [("hooks.example.com", 8443)]
    (left,) = await service.list(account, "all", before=None, limit=9)
    assert left.webhook is not None
    url = url_of(Cipher(b"k" * 32), left.webhook)
    assert (left.monitor.name, url) == (f"{PLAIN.recipe} monitor", PLAIN.webhook_url)
