"""What a node does now and then, in virtual time."""

from __future__ import annotations

from functools import partial
from random import Random

import trio
import trio.testing

from gateway.upkeep import SWEEP_EVERY_S, SWEEP_FIRST_S, sweep_monitors
from scheduler.instants import instant_of
from scheduler.monitors.records import Run
from scheduler.monitors.run_rows import add_runs
from scheduler.retention import Retention
from storage.errors import StoreUnavailable
from storage.store import Tx
from tests.fakes.inline_store import InlineStore
from tests.scheduler.desk import EPOCH, MIGRATIONS, Desk

DAY_S = 86_400.0


def move(desk: Desk, seconds: float) -> None:
    """Set the machine's clock."""
    assert desk.starts_at is not None
    desk.starts_at += seconds


async def test_monitors_are_swept_again_and_again_through_times_without_a_store(
    autojump_clock: trio.testing.MockClock,
) -> None:
    desk = Desk(InlineStore(MIGRATIONS))
    desk.starts_at = EPOCH - trio.current_time()
    monitor = await desk.monitor(await desk.account())
    slots = [EPOCH + hour * 3600.0 for hour in range(72)]

    def add(tx: Tx) -> None:
        add_runs(
            tx,
            [
                Run(desk.make_id("run_"), monitor.id, monitor.account_id, at, "failed", at, finished_at=at)
                for at in slots
            ],
        )

    await desk.store.write(add)
    instant = instant_of(desk.now, is_alone=True)
    sweeping = partial(sweep_monitors, desk.store, Retention(1, 1), desk.log, instant=instant, rng=Random(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sweeping)
        move(desk, 500 * DAY_S)
        await trio.sleep(SWEEP_FIRST_S - 1)
        move(desk, -500 * DAY_S)  # a wrong clock at the start takes nothing away
        await trio.sleep(DAY_S)
        assert len(await desk.all_runs(monitor.id)) == 72
        desk.store.failing = StoreUnavailable("it is away")
        await trio.sleep(DAY_S)
        desk.store.failing = None
        await trio.sleep(2 * SWEEP_EVERY_S)
        midnight = desk.now() // DAY_S * DAY_S
        assert [run.scheduled_for for run in await desk.all_runs(monitor.id)] == [
            slot for slot in slots if slot >= midnight - DAY_S
        ]
        nursery.cancel_scope.cancel()
    names = [name for name, _fields in desk.log.events]
    assert set(names) == {"monitors_not_swept", "monitors_swept"}
    assert sum(fields.get("runs", 0) for _name, fields in desk.log.events) == 72 - len(await desk.all_runs(monitor.id))
    desk.store.close()
