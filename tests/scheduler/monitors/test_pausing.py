"""Pausing while the clock is active, on each real engine: started runs continue, and no new run starts."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from random import Random

import pytest
import trio

from scheduler.errors import MonitorUnknown
from scheduler.monitors.model.patch import PatchBody
from scheduler.monitors.model.records import Monitor
from scheduler.monitors.runs.clockwork import Clock
from tests.gate.matrix import sample
from tests.scheduler.desk import Desk, open_desk
from tests.scheduler.monitors.test_service import service_of

HOUR = 3600.0
MONITORS = 80


async def test_pause_drops_pending_runs_but_not_active_ones(desk: Desk) -> None:
    account = await desk.account(100)
    waits, runs = await desk.monitor(account), await desk.monitor(account)
    service = service_of(desk)
    await service.run_now(account, waits.id)
    lease = await desk.lease(runs)
    for monitor in (waits, runs):
        await service.change(account, monitor.id, PatchBody(status="paused"))
    assert await desk.all_runs(waits.id) == []
    await desk.runs.run(lease)
    assert [run.status for run in await desk.all_runs(runs.id)] == ["ok"]
    assert await desk.money(account) == (94, 0)
    assert len(await desk.events(account)) == 1


async def test_pause_drops_runs_returned_by_a_stopped_node(desk: Desk) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    desk.recipes.takes_s = 60.0
    lease = await desk.lease(monitor)
    with trio.move_on_after(0.3):
        await desk.runs.run(lease)
    assert [run.status for run in await desk.all_runs(monitor.id)] == ["pending"]
    await service_of(desk).change(account, monitor.id, PatchBody(status="paused"))
    assert await desk.all_runs(monitor.id) == []
    assert await desk.money(account) == (100, 0)


async def test_changes_other_than_a_pause_keep_pending_runs(desk: Desk) -> None:
    account = await desk.account()
    monitor = await desk.monitor(account)
    await service_of(desk).run_now(account, monitor.id)
    await service_of(desk).change(account, monitor.id, PatchBody(name="Another", cadence="daily"))
    assert [run.status for run in await desk.all_runs(monitor.id)] == ["pending"]


@pytest.mark.parametrize("seed", sample(range(1, 7)))
@pytest.mark.parametrize("deletes", [False, True])
async def test_no_run_starts_after_a_concurrent_pause_or_delete(seed: int, deletes: bool, store_url: str) -> None:
    """Method: many monitors share a slot on one or two nodes, and each is paused or deleted at a random moment."""
    rng, is_shared = Random(seed), store_url.startswith("postgresql")
    async with AsyncExitStack() as stack:
        names = ("a", "b") if is_shared else ("a",)
        desks = [await stack.enter_async_context(open_desk(store_url, one, is_alone=not is_shared)) for one in names]
        accounts = [await desks[0].account() for _ in range(4)]
        monitors = [await desks[0].monitor(accounts[nth % 4]) for nth in range(MONITORS)]
        for desk in desks:
            desk.time += HOUR + 1.0
        clocks = [await stack.enter_async_context(desk.clock()) for desk in desks]
        async with trio.open_nursery() as nursery:
            for monitor in monitors:
                nursery.start_soon(_stop_one, rng.choice(desks), monitor, rng.random() * 0.1, deletes)
        await _all_ended(clocks, desks[0])
        asked = Counter(who for desk in desks for who in desk.recipes.asked)
        assert set(asked.values()) <= {1}
        runs = {run.id: run for monitor in monitors for run in await desks[0].all_runs(monitor.id)}
        assert {run.status for run in runs.values()} <= (set() if deletes else {"ok"})
        if not deletes:
            assert set(asked) == {run.monitor_id for run in runs.values()}
            assert await desks[0].settled() == dict.fromkeys(runs, 6)
        await desks[0].assert_sound(*accounts)


async def _stop_one(desk: Desk, monitor: Monitor, after_s: float, deletes: bool) -> None:
    service = service_of(desk)
    await trio.sleep(after_s)
    if deletes:
        await service.delete(monitor.account_id, monitor.id)
        with pytest.raises(MonitorUnknown):
            await service.get(monitor.account_id, monitor.id)
        return
    await service.change(monitor.account_id, monitor.id, PatchBody(status="paused"))
    begun = await desk.all_runs(monitor.id)
    assert all(run.attempt == 1 and run.status in ("running", "ok") for run in begun), begun
    await trio.sleep(0.2)
    assert [run.id for run in await desk.all_runs(monitor.id)] == [run.id for run in begun]


async def _all_ended(clocks: list[Clock], desk: Desk) -> None:
    """Check that no run is active or pending."""
    count = "SELECT COUNT(*) FROM runs WHERE finished_at IS NULL"
    with trio.fail_after(20):
        while True:
            (open_runs,) = await desk.store.read(lambda tx: tx.one(count))
            if not open_runs and not any(clock.in_flight() for clock in clocks):
                return
            await trio.sleep(0.02)
