"""Fast clocks in virtual time on each engine: the slots that they set are reset, and each runs once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from random import Random

import orjson
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from scheduler.clock.cadence import next_slot, stored_cadence
from scheduler.monitors.model.records import Run
from scheduler.monitors.runs.clock_skew import AT_ONCE, cadences_too_late, reset_late
from scheduler.monitors.runs.clockwork import RESET_EVERY_S
from tests.fakes.inline_postgres import InlinePostgres
from tests.fakes.patient_clock import VIRTUALLY
from tests.gate.matrix import sample
from tests.scheduler.desk import EPOCH, MIGRATIONS, Desk, open_desk
from tests.scheduler.webhooks.office import Office
from tests.servers.postgres import PostgresServer

HOUR, DAY, YEAR = 3600.0, 86_400.0, 366 * 86_400.0
FIVE = {"cron": "*/5 * * * *"}
CADENCES: list[object] = ["hourly", "daily", "weekly", FIVE, {"cron": "30 2 * * 1", "timezone": "Europe/Berlin"}]


pytestmark = pytest.mark.usefixtures("rare_ticks")


@pytest.fixture(params=["sqlite", "postgres"])
def virtual(request: pytest.FixtureRequest, quick: Desk) -> Iterator[Desk]:
    """Monitors on each engine, without threads. The tests of many hours need only SQLite and use `quick`."""
    if request.param == "sqlite":
        yield quick
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    kept = InlinePostgres(server.fresh(), MIGRATIONS)
    yield Desk(kept)
    kept.close()


def move(desk: Desk, seconds: float) -> None:
    """Move the machine's clock by `seconds`."""
    desk.starts_at = (desk.starts_at or 0.0) + seconds


async def run_with_fast_clock(desk: Desk, seconds: float, *, for_s: float = 30.0) -> None:
    """Run for a while with a fast clock, and for a minute after it is corrected."""
    move(desk, seconds)
    await trio.sleep(for_s)
    move(desk, -seconds)
    await trio.sleep(RESET_EVERY_S + 1)


@given(st.sampled_from(CADENCES), st.floats(EPOCH - YEAR, EPOCH), st.floats(0, YEAR))
def test_slots_of_a_correct_clock_are_not_reset(sent: object, made_at: float, age_s: float) -> None:
    cadence, now = stored_cadence(sent), made_at + age_s
    assert next_slot(cadence, now, made_at) <= next_slot(cadence, now, now)


@VIRTUALLY
async def test_slots_are_reset_after_a_clock_was_a_year_ahead(virtual: Desk) -> None:
    virtual.starts_at = EPOCH - trio.current_time()
    account = await virtual.account()
    monitors = [await virtual.monitor(account, cadence=sent) for sent in CADENCES]
    async with virtual.clock():
        await trio.sleep(10)
        await run_with_fast_clock(virtual, YEAR)
    for sent, monitor in zip(CADENCES, monitors, strict=True):
        after = await virtual.read(monitor)
        assert after.next_slot_at == next_slot(stored_cadence(sent), virtual.now(), monitor.created_at), sent
        assert after.created_at == monitor.created_at
    assert ("slots_brought_back", {"count": len(CADENCES)}) in virtual.log.events


@VIRTUALLY
async def test_monitor_continues_at_every_slot_after_a_reset(quick: Desk) -> None:
    quick.starts_at = EPOCH - trio.current_time()
    account = await quick.account()
    monitor = await quick.monitor(account)
    async with quick.clock():
        await trio.sleep(HOUR + 60)
        await run_with_fast_clock(quick, YEAR)
        await trio.sleep(4 * HOUR)
    runs = [run for run in await quick.all_runs(monitor.id) if run.scheduled_for < quick.now()]
    assert [((run.scheduled_for - EPOCH) / HOUR, run.status) for run in runs] == [
        (1.0, "ok"),
        (2.0, "skipped"),  # this record covers all earlier missed slots, so there are no others
        (3.0, "ok"),
        (4.0, "ok"),
        (5.0, "ok"),
    ]
    await quick.assert_sound(account)


@VIRTUALLY
@pytest.mark.parametrize("sent", CADENCES, ids=str)
async def test_monitor_created_in_the_future_gets_a_past_creation_time(sent: object, quick: Desk) -> None:
    quick.starts_at = EPOCH + YEAR - trio.current_time()
    account = await quick.account()
    monitor = await quick.monitor(account, cadence=sent)
    move(quick, -YEAR)
    async with quick.clock():
        await trio.sleep(RESET_EVERY_S + 1)
    after = await quick.read(monitor)
    assert quick.now() - 7 * DAY < after.created_at <= quick.now()
    assert (monitor.created_at - after.created_at) % (7 * DAY) == 0
    due_at = next_slot(stored_cadence(sent), quick.now(), after.created_at)
    assert after.next_slot_at == due_at
    move(quick, due_at + 10 - quick.now())
    async with quick.clock():
        await trio.sleep(20)
    assert [(run.scheduled_for, run.status) for run in await quick.all_runs(monitor.id)] == [(due_at, "ok")]


@VIRTUALLY
async def test_pending_run_in_the_future_starts_by_the_next_reset_and_once(virtual: Desk) -> None:
    virtual.starts_at = EPOCH + YEAR - trio.current_time()
    account = await virtual.account(100)
    monitor = await virtual.monitor(account)
    await virtual.store.write(lambda tx: virtual.slots.open_one(tx, monitor.id))
    move(virtual, -YEAR)
    async with virtual.clock():
        await trio.sleep(2 * HOUR + 60)
    runs = await virtual.all_runs(monitor.id)
    assert [run.status for run in runs] == ["ok"] * 3
    assert runs[-1].started_at is not None
    assert runs[-1].started_at < EPOCH + RESET_EVERY_S
    assert await virtual.money(account) == (82, 0)


@VIRTUALLY
async def test_delivery_in_the_future_is_ready_now_and_others_keep_their_time(virtual: Desk) -> None:
    office = Office(virtual)
    monitor = await office.monitor(await virtual.account())
    far, near, leased = await office.queue(monitor, 3)
    await virtual.store.write(
        lambda tx: [
            tx.run("UPDATE deliveries SET next_at = next_at + ? WHERE id = ?", (wait_s, id_))
            for id_, wait_s in ((far, YEAR), (near, 2 * DAY), (leased, YEAR))
        ]
    )
    await virtual.store.write(lambda tx: tx.run("UPDATE deliveries SET lease_until = next_at WHERE id = ?", (leased,)))
    assert await reset_late(virtual.store, lambda _tx: EPOCH + 5) == 1
    assert [(await office.delivery(id_)).next_at for id_ in (far, near, leased)] == [
        EPOCH + 5,
        EPOCH + 2 * DAY,
        EPOCH + YEAR,
    ]


async def test_node_with_a_slow_clock_resets_nothing(postgres: PostgresServer) -> None:
    async with open_desk(postgres.fresh(), is_alone=False) as desk:
        desk.time = time.time()
        monitor = await desk.monitor(await desk.account())
        desk.time -= YEAR
        async with desk.clock():
            await trio.sleep(0.5)
        assert await desk.read(monitor) == monitor
        assert desk.log.events == []


@VIRTUALLY
async def test_resets_are_batched_and_leave_correct_slots(virtual: Desk) -> None:
    account = await virtual.account()
    far = [await virtual.monitor(account, cadence=FIVE) for _ in range(AT_ONCE + 3)]
    near = [await virtual.monitor(account, cadence=cadence) for cadence in CADENCES]
    paused = await virtual.monitor(account, status="paused")
    bad = await virtual.monitor(account)

    def spoil(tx) -> None:  # type: ignore[no-untyped-def]
        tx.run_in("UPDATE monitors SET next_slot_at = next_slot_at + 1e7 WHERE id IN {in}", [one.id for one in far])
        tx.run(
            "UPDATE monitors SET next_slot_at = next_slot_at + 1e7, cadence = ? WHERE id = ?", ('{"cron": 1}', bad.id)
        )

    await virtual.store.write(spoil)
    assert await virtual.store.read(lambda tx: cadences_too_late(tx, EPOCH)) == [orjson.dumps(FIVE).decode()]
    assert await reset_late(virtual.store, lambda _tx: EPOCH) == AT_ONCE + 3
    assert await reset_late(virtual.store, lambda _tx: EPOCH) == 0
    for monitor in (*far, *near, paused):
        assert await virtual.read(monitor) == monitor


@pytest.mark.parametrize("seed", sample(range(1, 7)))
@VIRTUALLY
async def test_no_slot_runs_twice_with_any_clock(seed: int, quick: Desk) -> None:
    """Method: let the clock jump back and forth by minutes or years, then run some hours with a correct clock."""
    rng = Random(seed)
    quick.starts_at = EPOCH - trio.current_time()
    account = await quick.account()
    monitors = [await quick.monitor(account, cadence=cadence) for cadence in CADENCES for _ in range(3)]
    quick.recipes.takes_s = 20.0
    async with quick.clock():
        off_s = 0.0
        for _ in range(12):
            await trio.sleep(rng.uniform(1, 900))
            to_s = rng.choice((0.0, rng.uniform(-HOUR, HOUR), rng.uniform(0, 2 * YEAR)))
            move(quick, to_s - off_s)
            off_s = to_s
        move(quick, -off_s)
        await trio.sleep(RESET_EVERY_S + 30)
        calm_since = quick.now()
        await trio.sleep(4 * HOUR + 30)
    asked = Counter(quick.recipes.asked)
    runs: list[Run] = []
    for monitor in monitors:
        own = await quick.all_runs(monitor.id)
        assert asked[monitor.id] == sum(run.status == "ok" for run in own)
        assert all(run.attempt <= 1 and run.finished_at for run in own)
        runs += own
    assert await quick.settled() == {run.id: 6 for run in runs if run.status == "ok"}
    for monitor in monitors[:3]:  # monitors with an hourly cadence
        slots = [run.scheduled_for for run in await quick.all_runs(monitor.id)]
        due = [slot for slot in range(int(EPOCH), int(quick.now()), 3600) if slot > calm_since]
        assert set(due) <= set(slots)
        told = [run for run in runs if run.monitor_id == monitor.id and run.scheduled_for in due]
        assert sum(run.status == "ok" for run in told) >= len(due) - 1
    await quick.assert_sound(account)
