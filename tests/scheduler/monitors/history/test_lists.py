"""Pages of monitors and of runs: their order, windows, sizes and filters, on an in-memory database."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.monitors.history.lists import (
    SlotSpan,
    StatusFilter,
    active_monitors,
    all_monitors,
    drop_pending,
    drop_runs,
    last_slot_at,
    monitors_page,
    runs_page,
    save_monitor,
)
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor, Run, RunData
from scheduler.monitors.runs import run_rows
from scheduler.packing import PAGE_BYTES
from storage.store import Tx
from tests.scheduler.desk import EPOCH, Desk
from tests.scheduler.stored import ALL_PARTS, shown

HOUR_S = 3_600.0
ALWAYS = SlotSpan()


async def monitors(quick: Desk, account: str, number: int) -> list[Monitor]:
    """Create monitors at only two points in time, so that several have the same creation time."""
    made = []
    for nth in range(number):
        quick.time = EPOCH + nth // 2
        made.append(await quick.monitor(account, status="paused" if nth % 3 == 0 else "active"))
    return made


async def listed(
    quick: Desk, account: str, status: StatusFilter = "all", before: tuple[float, str] | None = None, limit: int = 99
) -> list[str]:
    found = await quick.store.read(lambda tx: monitors_page(tx, account, status, before=before, limit=limit))
    return [monitor.id for monitor in found]


async def with_runs(quick: Desk, *statuses: str) -> Monitor:
    """Create a monitor with hourly runs of these statuses."""
    monitor = await quick.monitor(await quick.account())

    def add(tx: Tx) -> None:
        for place, status in enumerate(statuses):
            at = EPOCH + place * HOUR_S
            ended = None if status == "pending" else at + 1
            run = Run(f"run_{place}", monitor.id, monitor.account_id, at, status, at, finished_at=ended)  # type: ignore[arg-type]
            run_rows.add_runs(tx, [replace(run, skip_reason="missed") if status in ("skipped", "failed") else run])

    await quick.store.write(add)
    return monitor


async def paged(
    quick: Desk, monitor: Monitor, *, status: str | None = None, window: SlotSpan = ALWAYS, limit: int = 99
) -> tuple[list[str], bool]:
    page = await quick.store.read(
        lambda tx: runs_page(tx, monitor.id, status=status, window=window, limit=limit, parts=())
    )
    return [entry.run.id for entry in page.entries], page.has_more


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 99])
async def test_monitor_pages_are_newest_first_and_complete(quick: Desk, limit: int) -> None:
    account = await quick.account()
    made = await monitors(quick, account, 7)
    await monitors(quick, await quick.account(), 2)
    newest_first = [one.id for one in sorted(made, key=lambda one: (one.created_at, one.id), reverse=True)]
    seen: list[str] = []
    before: tuple[float, str] | None = None
    while page := await listed(quick, account, before=before, limit=limit):
        assert len(page) <= limit
        seen += page
        (last,) = [one for one in made if one.id == page[-1]]
        before = (last.created_at, last.id)
    assert seen == newest_first


async def test_monitors_are_listed_and_counted_by_status(quick: Desk) -> None:
    account = await quick.account()
    made = await monitors(quick, account, 7)
    for status in ("active", "paused"):
        assert sorted(await listed(quick, account, status)) == sorted(one.id for one in made if one.status == status)
    assert await quick.store.read(lambda tx: (active_monitors(tx, account), all_monitors(tx, account))) == (4, 7)
    assert await quick.store.read(lambda tx: (active_monitors(tx, "acc_0"), all_monitors(tx, "acc_0"))) == (0, 0)


async def test_save_monitor_writes_only_the_owners_fields(quick: Desk) -> None:
    monitor = await quick.monitor(await quick.account())
    other = await quick.monitor(monitor.account_id)
    changed = replace(
        monitor,
        name="Another",
        params='{"b":1}',
        cadence='"daily"',
        track='{"c":2}',
        alert_rules="[1]",
        webhook_format="rows",
        suppress=True,
        status="paused",
        next_slot_at=None,
        rule_state="{1}",
        baseline_run_id="run_9",
        updated_at=EPOCH + 9,
        version=4,
    )
    told = replace(changed, recipe="else/else", runs_total=99, credits_spent=99)
    await quick.store.write(lambda tx: save_monitor(tx, told))
    assert await quick.read(monitor) == changed
    assert await quick.read(other) == other
    assert await quick.store.read(lambda tx: store.read_monitor(tx, "mon_none")) is None


async def test_run_pages_are_newest_first_with_has_more(quick: Desk) -> None:
    monitor = await with_runs(quick, "ok", "ok", "skipped", "ok")
    assert await paged(quick, monitor) == (["run_3", "run_2", "run_1", "run_0"], False)
    assert await paged(quick, monitor, limit=4) == (["run_3", "run_2", "run_1", "run_0"], False)
    assert await paged(quick, monitor, limit=3) == (["run_3", "run_2", "run_1"], True)
    assert await paged(quick, monitor, status="ok", limit=2) == (["run_3", "run_1"], True)
    assert await paged(quick, monitor, status="failed") == ([], False)


async def test_window_includes_since_and_excludes_until(quick: Desk) -> None:
    monitor = await with_runs(quick, "ok", "ok", "ok")
    second, third = EPOCH + HOUR_S, EPOCH + 2 * HOUR_S
    assert await paged(quick, monitor, window=SlotSpan(second, third)) == (["run_1"], False)
    assert await paged(quick, monitor, window=SlotSpan(since=second)) == (["run_2", "run_1"], False)
    assert await paged(quick, monitor, window=SlotSpan(until=second)) == (["run_0"], False)
    assert await paged(quick, monitor, window=SlotSpan(third, second)) == ([], False)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_window_bounds_are_finite_and_within_the_window(since: float, until: float) -> None:
    low, high = SlotSpan(since, until).bounds
    assert -inf < low
    assert high < inf
    assert low >= since
    assert high <= until


async def test_run_entry_has_its_newest_delivery(quick: Desk) -> None:
    monitor = await with_runs(quick, "ok", "ok")
    add = (
        "INSERT INTO deliveries (id, run_id, monitor_id, account_id, host, body, status, attempts, delivered_at,"
        " created_at, last_status) VALUES (?, 'run_1', ?, ?, 'h', ?, 'delivered', ?, ?, ?, 200)"
    )

    def deliver(tx: Tx) -> None:
        for id_, attempts, at in (("whd_1", 6, EPOCH), ("whd_2", 2, EPOCH + 1)):
            tx.run(add, (id_, monitor.id, monitor.account_id, b"{}", attempts, at, at))

    await quick.store.write(deliver)
    page = await quick.store.read(lambda tx: runs_page(tx, monitor.id, status=None, window=ALWAYS, limit=9, parts=()))
    newest, oldest = page.entries
    assert newest.delivery is not None
    assert (newest.delivery.attempts, newest.delivery.delivered_at) == (2, EPOCH + 1)
    assert (oldest.delivery, oldest.data) == (None, RunData())


async def test_page_with_large_data_ends_early(quick: Desk) -> None:
    """The first run is always on the page, whatever its size, so that a page is never empty while there are runs."""
    monitor = await with_runs(quick, "ok", "ok", "ok", "ok")
    large = RunData(b"x" * (PAGE_BYTES // 2))

    def fill(tx: Tx) -> None:
        for place in range(4):
            run_rows.add_data(tx, f"run_{place}", large, at=EPOCH)

    await quick.store.write(fill)
    for limit, expected, more in ((4, ["run_3", "run_2"], True), (2, ["run_3", "run_2"], True), (1, ["run_3"], True)):
        page = await quick.store.read(
            lambda tx, limit=limit: runs_page(  # type: ignore[misc]
                tx, monitor.id, status=None, window=ALWAYS, limit=limit, parts=ALL_PARTS
            )
        )
        entries = shown(page.entries)
        is_cut = len(entries) < len(page.entries)
        assert ([entry.run.id for entry in entries], page.has_more or is_cut) == (expected, more)
        assert all(entry.data == large for entry in entries)


async def test_last_slot_is_the_newest_with_a_run(quick: Desk) -> None:
    monitor = await with_runs(quick, "ok", "skipped", "pending")
    for now, slot in ((EPOCH - 1, None), (EPOCH, EPOCH), (EPOCH + 9 * HOUR_S, EPOCH + 2 * HOUR_S)):
        assert await quick.store.read(lambda tx, now=now: last_slot_at(tx, monitor.id, now)) == slot  # type: ignore[misc]


async def test_drop_pending_deletes_only_pending_runs(quick: Desk) -> None:
    monitor = await with_runs(quick, "ok", "pending", "skipped", "pending")
    await quick.store.write(lambda tx: drop_pending(tx, "mon_else"))
    assert len((await paged(quick, monitor))[0]) == 4
    await quick.store.write(lambda tx: drop_pending(tx, monitor.id))
    assert (await paged(quick, monitor))[0] == ["run_2", "run_0"]


async def test_drop_runs_deletes_a_limited_number(quick: Desk) -> None:
    monitor = await with_runs(quick, "ok", "ok", "ok")
    dropped = [await quick.store.write(lambda tx: drop_runs(tx, monitor.id, 2)) for _ in range(3)]
    assert dropped == [2, 1, 0]
    assert await paged(quick, monitor) == ([], False)
