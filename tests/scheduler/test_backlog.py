"""The operator's view of the monitors' backlog, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import trio
import trio.testing

from scheduler.backlog import CHECK_S, Backlog, Watch
from storage.errors import StoreUnavailable
from storage.store import Tx
from tests.fakes.inline_store import InlineStore
from tests.fakes.patient_clock import VIRTUALLY
from tests.scheduler.desk import EPOCH, Desk
from tests.scheduler.webhooks.office import BROKEN, GONE, OK, Office, Receivers

HOUR = 3600.0


@VIRTUALLY
async def test_backlog_counts_waiting_work_and_its_delay(quick: Desk) -> None:
    quick.starts_at = EPOCH - trio.current_time()
    office = Office(quick)
    account = await quick.account()
    monitor = await office.monitor(account)
    watch = Watch(quick.store, now=quick.now, instant=office.instant)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.keep_checking)
        await trio.sleep(1)
        assert watch.seen == Backlog()
        slots = await quick.monitor(account)
        await office.queue(monitor, 3)
        await quick.store.write(lambda tx: quick.slots.open_one(tx, slots.id))
        await trio.sleep(CHECK_S)
        assert (watch.seen.runs, watch.seen.deliveries) == (1, 3)
        assert watch.seen.runs_late_s == watch.seen.deliveries_late_s == CHECK_S - 1
        await quick.store.write(lambda tx: tx.run("DELETE FROM runs"))
        await trio.sleep(CHECK_S)
        assert watch.seen == Backlog()
        await trio.sleep(HOUR)
        assert watch.seen.runs == 0
        assert 0 < watch.seen.runs_late_s == quick.now() // CHECK_S * CHECK_S - EPOCH - HOUR, (
            "a slot that is not opened"
        )
        nursery.cancel_scope.cancel()


class Away:
    """A store that is unavailable until it is replaced."""

    store: InlineStore | None = None

    async def read(self, fn: Callable[[Tx], Backlog]) -> Backlog:
        await trio.lowlevel.checkpoint()
        if self.store is None:
            raise StoreUnavailable("the store is unavailable")
        return await self.store.read(fn)


@VIRTUALLY
async def test_backlog_is_empty_until_the_store_becomes_available(quick: Desk) -> None:
    monitor = await quick.monitor(await quick.account())
    await quick.store.write(lambda tx: quick.slots.open_one(tx, monitor.id))
    away = Away()
    watch = Watch(away, now=quick.now, instant=lambda _tx: EPOCH)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.keep_checking)
        await trio.sleep(1)
        assert watch.seen == Backlog()
        away.store = quick.store
        await trio.sleep(CHECK_S)
        assert watch.seen == Backlog(1, 0.0, 0, 0.0)
        nursery.cancel_scope.cancel()


@VIRTUALLY
async def test_ended_runs_are_counted_once(quick: Desk) -> None:
    quick.starts_at = EPOCH - trio.current_time()
    rich, poor = await quick.account(), await quick.account(6)
    for account in (rich, poor):
        await quick.monitor(account)
    quick.recipes.takes_s = 1.5 * HOUR
    async with quick.clock() as clock:
        await trio.sleep(4.7 * HOUR)
    assert quick.runs.ended == {"ok": 3, "partial": 0, "failed": 0, "skipped": 2}
    assert clock.skipped_total == 3


@VIRTUALLY
async def test_attempts_are_counted_by_delivery_status(quick: Desk) -> None:
    quick.starts_at = EPOCH - trio.current_time()
    office = Office(quick)
    monitor = await office.monitor(await quick.account())
    receivers = Receivers(BROKEN, BROKEN, OK, GONE)
    async with office.open(receivers, backoff_s=(5.0, 5.0)) as deliveries:
        for _ in range(2):
            await office.queue(monitor)
            await trio.sleep(60)
        assert deliveries.ended == {"delivered": 1, "queued": 2, "failed": 1}
