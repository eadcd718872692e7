"""Schedules run each slot once, compare rows with all earlier occurrences, and report skips (spec 3, 6.2)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from scheduler.errors import CadenceInvalid, JobInvalid, MonitorLimitReached, ScheduleUnknown
from scheduler.jobs.discover.run_rows import record_of
from scheduler.jobs.discover.schedules import service
from scheduler.jobs.discover.schedules.records import RunBound, ScheduleBody, SchedulePatchBody
from scheduler.jobs.discover.schedules.schedule_rows import drop_old_occurrences, forget_schedules_of
from scheduler.jobs.discover.spec import SearchBody
from tests.fakes.patient_clock import VIRTUALLY
from tests.scheduler.desk import EPOCH, Desk
from tests.scheduler.jobs.discover.net import DiscoverDesk, Net, a_post, name_of, search

HOUR = 3600.0
pytestmark = pytest.mark.usefixtures("rare_ticks")
ONE = (search("one"),)


def started(desk: Desk, net: Net, begins_at: float = EPOCH) -> DiscoverDesk:
    desk.starts_at = begins_at - trio.current_time()
    return DiscoverDesk(desk, net, ONE)


def found(net: Net, *names: str) -> None:
    """Make the search return these posts from now on."""
    net.pages["one/search", "trio"] = [[a_post(one) for one in names]]


@VIRTUALLY
async def test_schedule_runs_at_each_slot_and_sends_events_about_new_rows(quick: Desk) -> None:
    net = Net()
    desk = started(quick, net)
    owner = await desk.owner()
    schedule = await desk.schedule(owner)
    rows: list[list[tuple[str, bool]]] = []
    async with desk.keep_time():
        for names in (("a", "b"), ("b", "c"), ("c", "b"), ()):
            found(net, *names)
            await trio.sleep(HOUR)
            await trio.sleep(20)
            run_id = (await desk.occurrences(schedule))[-1].run_id
            assert run_id is not None
            listed = await desk.rows(run_id)
            rows.append([(name_of(record_of(one)), bool(one.is_new)) for one in listed])
            new = await desk.rows(run_id, only_new=True)
            assert [one.row_id for one in new] == [one.row_id for one in listed if one.is_new]
    assert rows == [[("a", True), ("b", True)], [("b", False), ("c", True)], [("c", False), ("b", False)], []]
    assert [one.scheduled_for for one in await desk.occurrences(schedule)] == [EPOCH + n * HOUR for n in (1, 2, 3, 4)]
    events = await desk.events(owner.account_id)
    settled = ["discover.progress", "discover.completed"]
    assert [type_ for type_, _ in events] == [
        *settled, "discover.new_rows", *settled, "discover.new_rows", *settled, *settled,
    ]  # fmt: skip
    run_ids = [one.run_id for one in await desk.occurrences(schedule)]
    assert [body["data"]["run_id"] for type_, body in events if type_ == "discover.completed"] == run_ids
    told = events[2][1]
    assert told["subject"] == {"kind": "discover_run", "id": run_ids[0]}
    assert told["data"]["schedule_id"] == schedule.id
    assert [body["data"]["counts"].get("rows_new") for _, body in events] == [
        None, None, 2, None, None, 1, None, None, None, None,
    ]  # fmt: skip
    assert told["links"]["results"].endswith(f"/runs/{run_ids[0]}/results.jsonl?new=true")
    assert (await quick.money(owner.account_id)) == (10_000 - 3, 0)  # the last occurrence found no rows
    await quick.assert_sound(owner.account_id)


@VIRTUALLY
async def test_three_skips_in_a_row_pause_a_schedule_until_its_owner_resumes_it(quick: Desk) -> None:
    net = Net()
    found(net, "a")
    desk = started(quick, net)
    owner = await desk.owner(credits=1)
    schedule = await desk.schedule(owner)
    async with desk.keep_time():
        await trio.sleep(6 * HOUR + 60)
        paused = await desk.schedules.get(owner.account_id, schedule.id)
        assert (paused.status, paused.paused_because, paused.skips) == ("paused", "three_skips", 3)
        slots = await desk.occurrences(schedule)
        assert [one.skip_reason for one in slots] == [None, *["insufficient_credits"] * 3]
        types = [type_ for type_, _ in await desk.events(owner.account_id)]
        assert types[-4:] == [*["discover.run_skipped"] * 3, "discover.run_failed"]
        last = (await desk.events(owner.account_id))[-1][1]
        assert last["subject"] == {"kind": "discover_schedule", "id": schedule.id, "name": "Our topic"}
        assert (last["data"]["run_id"], last["data"]["status"], last["data"]["stopped_because"]) == (
            None, "failed", "three_skips",
        )  # fmt: skip
        await desk.desk.accounts.grant(owner.account_id, 100)
        going = await desk.schedules.change(owner.account_id, schedule.id, SchedulePatchBody(status="active"))
        assert (going.skips, going.next_slot_at) == (0, EPOCH + 7 * HOUR)
        await trio.sleep(HOUR)
        assert (await desk.occurrences(schedule))[-1].run_id is not None


@VIRTUALLY
async def test_slot_is_skipped_while_the_previous_run_is_active(quick: Desk) -> None:
    net = Net(takes_s=1.5 * HOUR)
    desk = started(quick, net)
    owner = await desk.owner()
    schedule = await desk.schedule(owner)
    async with desk.keep_time():
        await trio.sleep(3 * HOUR + 60)
    reasons = [one.skip_reason for one in await desk.occurrences(schedule)]
    assert reasons == [None, "previous_run_active", None]


@VIRTUALLY
async def test_newest_slot_runs_after_downtime_and_earlier_ones_are_missed(quick: Desk) -> None:
    desk = DiscoverDesk(quick, Net(), ONE)
    owner = await desk.owner()
    schedule = await desk.schedule(owner)
    quick.starts_at = EPOCH + 5.5 * HOUR - trio.current_time()
    async with desk.keep_time():
        await trio.sleep(20)
    reasons = [one.skip_reason for one in await desk.occurrences(schedule)]
    assert reasons == [*["missed"] * 4, None]
    assert (await desk.schedules.get(owner.account_id, schedule.id)).status == "active"


@VIRTUALLY
async def test_schedule_written_by_a_newer_release_does_not_stop_others(quick: Desk) -> None:
    """Method: a body and then a cadence that this release cannot read, next to a readable schedule."""
    desk = started(quick, Net())
    owner = await desk.owner()
    newer, odd, plain = [await desk.schedule(owner) for _ in range(3)]
    change = "UPDATE discover_schedules SET {} = ? WHERE id = ?"
    await quick.store.write(lambda tx: tx.run(change.format("body"), ('{"newer": 1}', newer.id)))
    await quick.store.write(lambda tx: tx.run(change.format("cadence"), ("full moon", odd.id)))
    async with desk.keep_time():
        await trio.sleep(HOUR + 60)
    assert [one.skip_reason for one in await desk.occurrences(newer)] == ["run_invalid"]
    assert [one.skip_reason for one in await desk.occurrences(plain)] == [None]


@VIRTUALLY
async def test_slots_set_by_a_fast_clock_are_reset(quick: Desk) -> None:
    ahead = started(quick, Net(), EPOCH + 300 * 24 * HOUR)
    owner = await ahead.owner()
    schedule = await ahead.schedule(owner)
    quick.starts_at = EPOCH - trio.current_time()
    async with ahead.keep_time():
        await trio.sleep(HOUR + 60)
    assert [one.scheduled_for for one in await ahead.occurrences(schedule)] == [EPOCH + HOUR]


@VIRTUALLY
async def test_failed_scheduled_run_sends_the_events_of_run_and_schedule(quick: Desk) -> None:
    desk = started(quick, Net(broken={("one/search", "trio")}))
    owner = await desk.owner()
    await desk.schedule(owner)
    async with desk.keep_time():
        await trio.sleep(HOUR + 60)
    types = [type_ for type_, _ in await desk.events(owner.account_id)]
    assert types == ["discover.progress", "discover.failed", "discover.run_failed"]


async def test_schedule_is_changed_listed_and_deleted_only_by_its_owner(desk: Desk) -> None:
    desk_ = DiscoverDesk(desk, Net(), ONE)
    owner, other = await desk_.owner(), await desk_.owner()
    schedule = await desk_.schedule(owner)
    schedules = desk_.schedules
    with pytest.raises(ScheduleUnknown):
        await schedules.get(other.account_id, schedule.id)
    changed = await schedules.change(
        owner.account_id, schedule.id, SchedulePatchBody(cadence="daily", name=" New ", run=RunBound(7))
    )
    assert (changed.name, changed.next_slot_at) == ("New", EPOCH + 24 * HOUR)
    assert '"max_credits":7' in changed.body
    paused = await schedules.change(owner.account_id, schedule.id, SchedulePatchBody(status="paused"))
    assert (paused.status, paused.paused_because, paused.next_slot_at) == ("paused", "owner", None)
    assert [one.id for one in await schedules.page(owner.account_id, before=None, limit=5)] == [schedule.id]
    await schedules.delete(owner.account_id, schedule.id)
    assert await schedules.page(owner.account_id, before=None, limit=5) == []
    await desk_.schedule(other)
    while await desk.store.write(lambda tx: forget_schedules_of(tx, other.account_id)):
        pass
    assert await schedules.page(other.account_id, before=None, limit=5) == []
    assert await desk.store.write(lambda tx: drop_old_occurrences(tx, desk.now())) == 0


async def test_invalid_field_in_a_change_is_named(quick: Desk) -> None:
    desk = DiscoverDesk(quick, Net(), ONE)
    owner = await desk.owner()
    schedule = await desk.schedule(owner)
    for patch, param in (
        (SchedulePatchBody(), "body"),
        (SchedulePatchBody(status="going"), "status"),
        (SchedulePatchBody(name=" "), "name"),
        (SchedulePatchBody(run=RunBound(0)), "run.max_credits"),
        (SchedulePatchBody(cadence="hourli"), "cadence"),
        (SchedulePatchBody(cadence={"cron": "* * * * *"}), "cadence.cron"),
    ):
        with pytest.raises((JobInvalid, CadenceInvalid)) as refused:
            await desk.schedules.change(owner.account_id, schedule.id, patch)
        assert refused.value.param == param


async def test_invalid_run_fields_are_named_with_their_path(quick: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk_ = DiscoverDesk(quick, Net(), ONE)
    owner = await desk_.owner()
    sent: dict[str, Any] = {"keywords": ["trio"], "max_credits": 0}
    with pytest.raises(JobInvalid) as refused:
        desk_.schedules.draft(ScheduleBody(SearchBody(**sent), "daily"), owner.account_id, owner.key_id)
    assert refused.value.param == "run.max_credits"
    monkeypatch.setattr(service, "ALL_MAX", 1)
    await desk_.schedule(owner)
    with pytest.raises(MonitorLimitReached):
        await desk_.schedule(owner)
