"""The clock in virtual time, so that an hour passes instantly."""

from collections import Counter
from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from scheduler.clock.catch_up import RECORDED_MAX
from scheduler.errors import MonitorUnknown
from scheduler.monitors.runs.clockwork import APART_S, EACH_MAX, IN_FLIGHT_MAX, YIELDING_MAX
from scheduler.monitors.runs.run_rows import LEASE_S
from scheduler.monitors.runs.runs import UNEXPECTED
from scheduler.monitors.runs.slots import RECORDS_AT_ONCE, STILL_RUNS
from scheduler.pressure import Pressure
from scheduler.recipes import Gathered, Recipe
from storage.errors import StoreUnavailable
from tests.fakes.patient_clock import VIRTUALLY
from tests.fakes.scripted_recipes import gathered
from tests.scheduler.desk import EPOCH, Desk

HOUR = 3600.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.fixture
def desk(quick: Desk, rare_ticks: None) -> Desk:
    """Monitors whose time begins at `EPOCH`."""
    quick.starts_at = EPOCH
    return quick


async def statuses(desk: Desk, monitor_id: str) -> list[tuple[float, str]]:
    """Return the slot of each of the monitor's runs, in hours since the epoch, and its status."""
    return [((run.scheduled_for - EPOCH) / HOUR, run.status) for run in await desk.all_runs(monitor_id)]


@VIRTUALLY
async def test_monitor_runs_at_each_slot(desk: Desk) -> None:
    account = await desk.account()
    monitor = await desk.monitor(account)
    async with desk.clock():
        await trio.sleep(3 * HOUR + 30)
    runs = await desk.all_runs(monitor.id)
    assert await statuses(desk, monitor.id) == [(1.0, "ok"), (2.0, "ok"), (3.0, "ok")]
    assert all(run.started_at is not None and run.started_at - run.scheduled_for < 1.0 for run in runs)
    assert await desk.settled() == {run.id: 6 for run in runs}
    await desk.assert_sound(account)


@pytest.mark.parametrize(
    ("begins", "hours", "slots"),
    [
        ("2027-10-30T23:30:00", 4, ["2027-10-31T00:30:00"]),  # 02:30 occurs twice
        # 02:30 does not exist, so the run starts right after the gap.
        ("2027-03-27T23:30:00", 4, ["2027-03-28T01:00:00"]),
    ],
)
@VIRTUALLY
async def test_repeated_or_skipped_local_time_runs_once(desk: Desk, begins: str, hours: int, slots: list[str]) -> None:
    desk.starts_at = at(begins)
    monitor = await desk.monitor(await desk.account(), cadence={"cron": "30 2 * * *", "timezone": "Europe/Berlin"})
    async with desk.clock():
        await trio.sleep(hours * HOUR)
    assert [run.scheduled_for for run in await desk.all_runs(monitor.id)] == [at(slot) for slot in slots]


@VIRTUALLY
async def test_newest_slot_runs_after_downtime_and_others_are_missed(desk: Desk) -> None:
    account = await desk.account()
    monitor = await desk.monitor(account)
    desk.starts_at = EPOCH + 5.5 * HOUR
    async with desk.clock():
        await trio.sleep(10)
    runs = await desk.all_runs(monitor.id)
    assert [(run.status, run.skip_reason) for run in runs] == [("skipped", "missed")] * 4 + [("ok", None)]
    events = [event["type"] for event in await desk.events(account)]
    assert events == ["monitor.run_skipped"] * 4 + ["monitor.run_completed"]


@VIRTUALLY
async def test_one_record_represents_all_older_missed_slots(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    desk.starts_at = EPOCH + 1_000.5 * HOUR
    async with desk.clock():
        await trio.sleep(10)
    runs = await desk.all_runs(monitor.id)
    assert len(runs) == RECORDED_MAX + 2
    assert (runs[-1].scheduled_for, runs[-1].status) == (EPOCH + 1_000 * HOUR, "ok")
    assert runs[0].scheduled_for == EPOCH + HOUR
    assert runs[0].skip_reason == "missed"
    assert runs[1].scheduled_for == EPOCH + 900 * HOUR


@VIRTUALLY
async def test_missed_slots_of_many_monitors_are_recorded_in_batches(desk: Desk) -> None:
    account = await desk.account()
    monitors = [await desk.monitor(account) for _ in range(50)]
    desk.starts_at = EPOCH + 1_000.5 * HOUR
    opened = await desk.store.write(lambda tx: desk.slots.open_due(tx, limit=500, crowds={}))
    assert RECORDS_AT_ONCE <= len(opened.runs) < RECORDS_AT_ONCE + RECORDED_MAX + 2
    async with desk.clock():
        await trio.sleep(60)
    for monitor in monitors:
        runs = await desk.all_runs(monitor.id)
        assert [run.status for run in runs] == ["skipped"] * (RECORDED_MAX + 1) + ["ok"]


@pytest.mark.parametrize(
    ("hours", "then"), [(3, [(2.0, "skipped"), (3.0, "skipped"), (4.0, "ok")]), (-1, [(2.0, "ok"), (3.0, "ok")])]
)
@VIRTUALLY
async def test_clock_jump_runs_only_the_newest_slot_and_no_slot_again(
    desk: Desk, hours: int, then: list[tuple[float, str]]
) -> None:
    monitor = await desk.monitor(await desk.account())
    async with desk.clock():
        await trio.sleep(HOUR + 60)
        assert desk.starts_at is not None
        desk.starts_at += hours * HOUR
        await trio.sleep(60 if hours > 0 else 3 * HOUR)
    assert await statuses(desk, monitor.id) == [(1.0, "ok"), *then]
    assert len(desk.recipes.asked) == 1 + [status for _, status in then].count("ok")
    assert ("clock_jumped", {"seconds": hours * HOUR}) in desk.log.events


@VIRTUALLY
async def test_slot_is_skipped_while_the_previous_run_is_active(desk: Desk) -> None:
    desk.recipes.takes_s = 1.5 * HOUR
    monitor = await desk.monitor(await desk.account())
    async with desk.clock():
        await trio.sleep(4 * HOUR + 60)
        await trio.sleep(HOUR)
    runs = await desk.all_runs(monitor.id)
    assert [run.status for run in runs[:3]] == ["ok", "skipped", "ok"]
    assert runs[1].skip_reason == STILL_RUNS
    assert desk.recipes.most_under_way == 1


@VIRTUALLY
async def test_paused_monitor_does_not_run(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), status="paused")
    async with desk.clock():
        await trio.sleep(3 * HOUR)
    assert await desk.all_runs(monitor.id) == []


@VIRTUALLY
async def test_crowd_is_spread_over_the_first_seconds_of_a_slot(quick: Desk) -> None:
    desk = quick
    desk.recipes.takes_s = 1.0
    for _ in range(10):
        account = await desk.account()
        for _ in range(100):
            await desk.monitor(account)
    desk.starts_at = EPOCH + HOUR - 60
    async with desk.clock():
        await trio.sleep(150)
    rows = await desk.store.read(lambda tx: tx.all("SELECT started_at - scheduled_for FROM runs WHERE status = 'ok'"))
    delays = sorted(row[0] for row in rows)
    assert len(delays) == 1_000
    assert delays[0] < 1.0
    assert 15.0 < delays[-1] < 25.0  # the crowd starts at 50 runs per second
    lags = await desk.store.read(lambda tx: tx.one("SELECT MAX(started_at - start_at) FROM runs"))
    assert lags[0] < 2 * APART_S
    assert desk.recipes.most_under_way <= IN_FLIGHT_MAX


@VIRTUALLY
async def test_overloaded_node_delays_runs_without_skipping_them(desk: Desk) -> None:
    monitors = [await desk.monitor(await desk.account()) for _ in range(20)]
    desk.recipes.takes_s = 10.0
    is_yielding = True
    async with desk.clock(pressure=Pressure(is_yielding=lambda: is_yielding)):
        await trio.sleep(HOUR + 5)
        assert desk.recipes.most_under_way == YIELDING_MAX
        is_yielding = False
        await trio.sleep(60)
    assert desk.recipes.most_under_way > YIELDING_MAX
    for monitor in monitors:
        assert await statuses(desk, monitor.id) == [(1.0, "ok")]


@VIRTUALLY
async def test_refused_runs_count_as_missed_as_in_downtime(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), cadence={"cron": "*/5 * * * *"})
    refusal: str | None = "the disk is full"
    async with desk.clock(pressure=Pressure(refusal=lambda: refusal)) as clock:
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await clock.run_slot(monitor.id)
        await trio.sleep(750)
        assert await statuses(desk, monitor.id) == []
        assert clock.begun_total == 0
        refusal = None
        await trio.sleep(60)
    assert [run.status for run in await desk.all_runs(monitor.id)] == ["skipped", "ok"]


@VIRTUALLY
async def test_account_with_many_monitors_does_not_block_another(quick: Desk) -> None:
    desk = quick
    desk.recipes.takes_s = 20.0
    crowded, small = await desk.account(), await desk.account()
    for _ in range(150):
        await desk.monitor(crowded)
    single = await desk.monitor(small)
    desk.starts_at = EPOCH + HOUR - 60
    async with desk.clock():
        await trio.sleep(260)
    (run,) = await desk.all_runs(single.id)
    assert run.started_at is not None
    assert run.started_at - run.scheduled_for < 1.0
    assert desk.recipes.most_under_way == EACH_MAX + 1
    counted = Counter(desk.recipes.asked)
    assert len(counted) == 151
    assert set(counted.values()) == {1}


@VIRTUALLY
async def test_unexpected_error_ends_only_its_run(desk: Desk) -> None:
    account = await desk.account(100)
    bad, good = await desk.monitor(account), await desk.monitor(account)

    def answer(recipe: Recipe) -> Gathered:
        if recipe.values["who"] == bad.id:
            raise RuntimeError("a bug")
        return gathered({"stars": 1})

    desk.recipes.answer = answer
    async with desk.clock():
        await trio.sleep(2 * HOUR + 60)
    assert [(run.status, run.skip_reason) for run in await desk.all_runs(bad.id)] == [("failed", UNEXPECTED)] * 2
    assert [run.status for run in await desk.all_runs(good.id)] == ["ok", "ok"]
    assert await desk.money(account) == (88, 0)
    assert [name for name, _ in desk.log.events] == ["run_failed", "run_failed"]


@VIRTUALLY
async def test_stopping_node_refunds_its_runs_and_the_next_node_runs_them(desk: Desk) -> None:
    desk.recipes.takes_s = 10.0
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    async with desk.clock():
        await trio.sleep(HOUR + 5)
        assert await desk.money(account) == (94, 6)
    assert await desk.money(account) == (100, 0)
    async with desk.clock():
        await trio.sleep(30)
    (run,) = await desk.all_runs(monitor.id)
    assert (run.status, run.attempt) == ("ok", 2)
    assert await desk.money(account) == (94, 0)


@VIRTUALLY
async def test_runs_of_a_dead_node_are_adopted_immediately(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    lease = await desk.lease(monitor)
    async with desk.clock():
        await trio.sleep(5)
    run = await desk.run_of(lease.run.id)
    assert (run.status, run.attempt) == ("ok", 2)


@VIRTUALLY
async def test_long_run_keeps_its_lease(desk: Desk) -> None:
    desk.recipes.takes_s = 3 * LEASE_S
    monitor = await desk.monitor(await desk.account())
    async with desk.clock():
        await trio.sleep(HOUR + LEASE_S * 2)
        (run,) = await desk.all_runs(monitor.id)
        assert run.lease_until is not None
        assert run.lease_until > desk.now()
        await trio.sleep(HOUR / 2)
    assert [(run.status, run.attempt) for run in await desk.all_runs(monitor.id)] == [("ok", 1)]


@VIRTUALLY
async def test_draining_node_starts_no_runs(desk: Desk) -> None:
    desk.recipes.takes_s = 5.0
    monitor = await desk.monitor(await desk.account())
    async with desk.clock():
        await trio.sleep(HOUR + 2)
        desk.stopping = True
        await trio.sleep(2 * HOUR)
    assert await statuses(desk, monitor.id) == [(1.0, "ok")]


@VIRTUALLY
async def test_clock_survives_an_unavailable_store(desk: Desk) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    async with desk.clock():
        await trio.sleep(HOUR - 60)
        desk.store.failing = StoreUnavailable("the disk is full")
        await trio.sleep(600)
        desk.store.failing = None
        await trio.sleep(120)
    assert await statuses(desk, monitor.id) == [(1.0, "ok")]
    assert await desk.money(account) == (94, 0)
    assert {name for name, _ in desk.log.events} == {"clock_waits"}


@VIRTUALLY
async def test_run_whose_end_cannot_be_stored_is_retried_and_charged_once(desk: Desk) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    desk.recipes.takes_s = 5.0
    async with desk.clock():
        await trio.sleep(HOUR + 3)
        desk.store.failing = StoreUnavailable("the disk is full")
        await trio.sleep(10)
        desk.store.failing = None
        await trio.sleep(120)
    (run,) = await desk.all_runs(monitor.id)
    assert (run.status, run.attempt) == ("ok", 2)
    await desk.assert_sound(account)
    assert await desk.money(account) == (94, 0)


@VIRTUALLY
async def test_wake_starts_a_run_before_the_next_poll(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), status="paused")
    async with desk.clock() as clock:
        await trio.sleep(5)
        run = await desk.store.write(lambda tx: desk.slots.open_one(tx, monitor.id))
        clock.wake()
        await trio.sleep(0.01)
    assert (await desk.run_of(run.id)).status == "ok"


@VIRTUALLY
async def test_slot_can_be_run_manually_only_once(desk: Desk) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    async with desk.clock() as clock:
        first, begun_now = await clock.run_slot(monitor.id, EPOCH + HOUR)
        meanwhile = await clock.run_slot(monitor.id, EPOCH + HOUR)
        await trio.sleep(1)
        again, begun_again = await clock.run_slot(monitor.id, EPOCH + HOUR)
        assert (first.status, again.status, again.id) == ("running", "ok", first.id)
        assert (begun_now, meanwhile[1], begun_again) == (True, False, False)
        await trio.sleep(2 * HOUR + 60)
        with pytest.raises(MonitorUnknown):
            await clock.run_slot("mon_none")
    assert await statuses(desk, monitor.id) == [(1.0, "ok"), (2.0, "ok")]
    assert await desk.money(account) == (88, 0)


@VIRTUALLY
async def test_unreadable_cadence_stops_no_other_monitor(desk: Desk) -> None:
    account = await desk.account()
    bad, good = await desk.monitor(account), await desk.monitor(account)
    await desk.store.write(
        lambda tx: tx.run("UPDATE monitors SET cadence = ? WHERE id = ?", ('{"cron": "nonsense"}', bad.id))
    )
    async with desk.clock():
        await trio.sleep(2 * HOUR + 60)
    assert await statuses(desk, good.id) == [(1.0, "ok"), (2.0, "ok")]
    assert await desk.all_runs(bad.id) == []
    assert desk.log.events == [("cadence_unreadable", {"monitor": bad.id})]


@VIRTUALLY
async def test_run_in_flight_with_an_expired_lease_is_not_started_twice(desk: Desk) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    desk.recipes.takes_s = 300.0
    async with desk.clock() as clock:
        await trio.sleep(HOUR + 5)
        desk.store.failing = StoreUnavailable("the disk is full")
        await trio.sleep(3 * LEASE_S)
        desk.store.failing = None
        clock.wake()
        await trio.sleep(0.01)
        await trio.sleep(HOUR / 2)
    assert [(run.status, run.attempt) for run in await desk.all_runs(monitor.id)] == [("ok", 1)]
    assert len(desk.recipes.asked) == 1
    assert await desk.money(account) == (94, 0)
