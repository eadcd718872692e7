"""Retention of monitor data, on each real engine: old data is deleted in order, needed data is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import orjson
import pytest
import trio

from events.log.retention import DAY_S, cutoff
from limits.long_reads import LongReads
from scheduler import retention
from scheduler.migrations import MIGRATIONS as SCHEDULER
from scheduler.monitors.history import lists
from scheduler.monitors.history.lists import SlotSpan
from scheduler.monitors.history.past_runs import newest_runs, stored_numbers, unpacked_numbers
from scheduler.monitors.history.projections import Projections
from scheduler.monitors.history.timeseries import Chosen
from scheduler.monitors.metrics.numbers import PAGE
from scheduler.monitors.metrics.rules import read_rules
from scheduler.monitors.model.records import Monitor, Run, RunData
from scheduler.monitors.runs import run_rows
from scheduler.retention import Retention, Swept
from scheduler.webhooks.deliveries import rows
from scheduler.webhooks.deliveries.rows import QueuedDelivery, add_attempts, add_delivery
from scheduler.webhooks.records import AttemptRow
from storage.migrations import MigrationSet
from storage.opening import open_store
from storage.store import Tx
from tests.gate.matrix import sample
from tests.scheduler.desk import EPOCH, MIGRATIONS, Desk, open_desk, open_desks
from tests.scheduler.stored import ALL_PARTS, kept_data

HOUR = 3600.0
KEPT = Retention(runs_days=10, results_days=3)
STATUSES: tuple[Literal["ok", "partial", "failed", "skipped", "pending", "running"], ...] = (
    "ok",
    "partial",
    "failed",
    "skipped",
    "pending",
    "running",
)


async def sweep(desk: Desk, kept: Retention = KEPT) -> Swept:
    """Sweep in small chunks without pauses, so that a few rows are enough for the test."""
    return await retention.sweep(desk.store, desk.now(), kept, chunk=3, pause_s=0.0)


@dataclass(slots=True)
class Kept:
    """A run in the model: when it ended, its data, and the queue times of its deliveries."""

    run_id: str
    ended_at: float | None
    has_data: bool
    deliveries: dict[str, tuple[float, str]]
    is_baseline: bool = False


def put(tx: Tx, desk: Desk, monitor: Monitor, at: float, status: Any = "ok", hooks: Sequence[str] = ()) -> Kept:
    """Store a past run that ended a second after its slot, with deliveries that each have an attempt."""
    ends = status not in ("pending", "running")
    run = Run(
        desk.make_id("run_"),
        monitor.id,
        monitor.account_id,
        at,
        status,
        at,
        attempt=1,
        lease_until=at + 30 if status == "running" else None,
        finished_at=at + 1.0 if ends else None,
        skip_reason="missed" if status == "skipped" else None,
    )
    run_rows.add_runs(tx, [run])
    has_data = status in ("ok", "partial")
    if has_data:
        numbers = orjson.dumps({PAGE: {"stars": at - EPOCH}})
        run_rows.add_data(tx, run.id, RunData(b'{"stars":1}', numbers, b'{"stars":1.0}'), at=at + 1.0)
    kept = Kept(run.id, run.finished_at, has_data, {})
    for hook in hooks:
        id_ = desk.make_id("whd_")
        add_delivery(tx, QueuedDelivery(id_, run.id, monitor.id, monitor.account_id, "h", b"{}"), at=at + 1.0)
        add_attempts(tx, [AttemptRow(id_, 1, at + 2.0, 200, None, 5, "thanks")])
        if hook != "queued":
            tx.run(f"UPDATE deliveries SET status = ?, {hook}_at = ?, next_at = NULL WHERE id = ?", (hook, at + 2, id_))
        kept.deliveries[id_] = (at + 1.0, hook)
    return kept


def modelled(runs: Sequence[Kept], now: float, kept: Retention = KEPT) -> tuple[set[str], set[str], set[str], set[str]]:
    """Return the remaining rows of runs, numbers, results and deliveries."""
    runs_before = cutoff(now, kept.runs_days)
    before = max(runs_before, cutoff(now, kept.results_days))
    deliveries = {
        one.run_id: {id_ for id_, (at, status) in one.deliveries.items() if status == "queued" or at >= before}
        for one in runs
    }
    left = [
        one
        for one in runs
        if one.ended_at is None or one.ended_at >= runs_before or one.is_baseline or deliveries[one.run_id]
    ]
    return (
        {one.run_id for one in left},
        {one.run_id for one in left if one.has_data},
        {one.run_id for one in left if one.has_data and (one.ended_at or 0.0) >= before},
        {id_ for ids in deliveries.values() for id_ in ids},
    )


def stored(tx: Tx) -> tuple[set[str], set[str], set[str], set[str]]:
    """Return the rows that are in the store, grouped as in `modelled`."""

    def ids(sql: str) -> set[str]:
        return {row[0] for row in tx.all(sql)}

    assert ids("SELECT DISTINCT delivery_id FROM attempts") == ids("SELECT id FROM deliveries")
    return (
        ids("SELECT id FROM runs"),
        ids("SELECT run_id FROM run_data WHERE numbers IS NOT NULL AND deltas IS NOT NULL"),
        ids("SELECT run_id FROM run_data WHERE result IS NOT NULL"),
        ids("SELECT id FROM deliveries"),
    )


@pytest.mark.parametrize("seed", sample(range(1, 7)))
async def test_sweep_matches_the_model(seed: int, desk: Desk) -> None:
    """Method: two weeks of runs of all kinds are swept on random days. Monitors still need some of the old ones."""
    rng = Random(seed)
    account = await desk.account()
    monitors = [await desk.monitor(account) for _ in range(4)]

    def fill(tx: Tx) -> list[Kept]:
        runs: list[Kept] = []
        for monitor in monitors:
            own = [
                put(
                    tx, desk, monitor, at, rng.choice(STATUSES), rng.choices(("queued", "delivered", "failed"), k=hooks)
                )
                for at in sorted(rng.sample(range(int(EPOCH), int(EPOCH + 14 * DAY_S), 900), 30))
                for hooks in [rng.choice((0, 0, 1, 2))]
            ]
            baseline = rng.choice([one for one in own if one.has_data])
            baseline.is_baseline = True
            tx.run("UPDATE monitors SET baseline_run_id = ? WHERE id = ?", (baseline.run_id, monitor.id))
            runs += own
        return runs

    runs = await desk.store.write(fill)
    for day in sorted(rng.sample(range(30), 6)):
        desk.time = EPOCH + (day + rng.random()) * DAY_S
        before = await desk.store.read(stored)
        swept = await sweep(desk)
        left = await desk.store.read(stored)
        assert left == modelled(runs, desk.time)
        assert (swept.deliveries, swept.runs) == (len(before[3]) - len(left[3]), len(before[0]) - len(left[0]))
        assert await sweep(desk) == (0, 0, 0), "all data was deleted in one step"
    await desk.store.write(lambda tx: tx.run("DELETE FROM runs WHERE finished_at IS NULL"))


async def test_whole_days_are_deleted_at_midnight(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    midnight = EPOCH // DAY_S * DAY_S
    ends = [midnight - 1.5, midnight - 0.5, midnight, midnight + DAY_S - 0.5]
    await desk.store.write(lambda tx: [put(tx, desk, monitor, at - 1.0) for at in ends])
    desk.time = midnight + 11 * DAY_S - 1
    assert await sweep(desk) == (0, 4, 2)
    desk.time = midnight + 11 * DAY_S
    assert await sweep(desk) == (0, 0, 2)


async def test_results_never_outlast_their_runs(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    await desk.store.write(lambda tx: put(tx, desk, monitor, EPOCH, "ok", ["delivered"]))
    desk.time = EPOCH + 5 * DAY_S
    assert await sweep(desk, Retention(runs_days=2, results_days=30)) == (1, 1, 1)


async def test_monitor_paused_for_a_year_keeps_its_baseline(desk: Desk) -> None:
    account = await desk.account()
    monitor = await desk.monitor(account)
    await desk.ran(monitor, EPOCH)
    await desk.ran(monitor, EPOCH + HOUR)
    desk.time = EPOCH + 900 * DAY_S
    assert await sweep(desk) == (0, 2, 1)
    again = await desk.ran(monitor)
    data = await desk.store.read(lambda tx: kept_data(tx, again.id))
    assert orjson.loads(data.deltas or b"") == {"stars": 0}
    assert await sweep(desk) == (0, 0, 1), "the baseline is the last run now"


async def test_history_is_unchanged_when_results_are_deleted(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    await desk.store.write(lambda tx: [put(tx, desk, monitor, EPOCH + place * HOUR) for place in range(40)])
    past, rules = (
        Projections(desk.store, LongReads()),
        read_rules([{"metric": "stars", "op": "gt", "value": 36_000}], None),
    )

    async def told() -> list[Any]:
        pieces = await past.export(monitor, SlotSpan(), as_csv=True)
        return [
            await past.timeseries(monitor, SlotSpan(), Chosen()),
            await past.chart(monitor, SlotSpan(), metric="stars", row=PAGE),
            await past.backtest(monitor, SlotSpan(), rules),
            [piece async for piece in pieces],
        ]

    before = await told()
    desk.time = EPOCH + 8 * DAY_S
    assert await sweep(desk) == (0, 40, 0)
    assert await told() == before
    page = await desk.store.read(
        lambda tx: lists.runs_page(tx, monitor.id, status=None, window=SlotSpan(), limit=50, parts=ALL_PARTS)
    )
    assert {entry.data.result for entry in page.entries} == {None}
    assert all(entry.data.numbers and entry.data.deltas for entry in page.entries)


async def test_readers_see_complete_runs_without_gaps_during_sweeps(desk: Desk) -> None:
    account = await desk.account()
    monitor = await desk.monitor(account)
    await desk.store.write(lambda tx: [put(tx, desk, monitor, EPOCH + place * HOUR) for place in range(200)])
    past, done, reads = Projections(desk.store, LongReads()), False, 0

    async def read() -> None:
        """Check that a read never sees a run without its numbers, nor a gap between runs."""
        nonlocal reads
        while not done:
            seen = await desk.store.read(
                lambda tx: [
                    (run.t, run.numbers)
                    for run in unpacked_numbers(stored_numbers(tx, newest_runs(tx, monitor.id, SlotSpan())[::-1]))
                ]
            )
            assert all(numbers for _t, numbers in seen)
            times = [t for t, _numbers in seen if t < EPOCH + 200 * HOUR]
            assert times == [times[0] + place * HOUR for place in range(len(times))] if times else True
            pieces = await past.export(monitor, SlotSpan(), as_csv=False)
            lines = b"".join([piece async for piece in pieces]).splitlines()
            assert all(orjson.loads(line)["metric"] == "stars" for line in lines)
            reads += 1

    async def run() -> None:
        slot = EPOCH + 300 * HOUR
        while not done:
            slot += 60.0
            await desk.ran(monitor, slot)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(run)
        swept = 0
        for day in range(12, 20):
            desk.time = EPOCH + day * DAY_S
            swept += (await sweep(desk)).runs
            await trio.sleep(0.02)
        done = True
    assert swept > 190
    assert reads > 1


@pytest.mark.parametrize("seed", sample(range(1, 7)))
async def test_concurrent_sweeps_redeliveries_and_delete_are_safe(seed: int, store_url: str) -> None:
    """Goal: no queued delivery is lost, and no old row is left.

    Method: both nodes sweep while owners request redeliveries.
    """
    rng = Random(seed)
    async with open_desks(store_url) as (one, other):
        account = await one.account()
        monitors = [await one.monitor(account) for _ in range(3)]

        def fill(tx: Tx) -> list[Kept]:
            return [
                put(tx, one, monitor, EPOCH + place * 60.0, "ok", ["delivered"])
                for monitor in monitors
                for place in range(60)
            ]

        runs = await one.store.write(fill)
        again: set[str] = set()

        async def redeliver() -> None:
            for run in rng.sample(runs, 60):
                (id_,) = run.deliveries
                await one.store.write(lambda tx, id_=id_: _redeliver(tx, id_, again))
                await trio.sleep(rng.random() * 0.004)

        async def delete() -> None:
            while await one.store.write(lambda tx: lists.drop_runs(tx, monitors[2].id, 7)):
                pass

        async with trio.open_nursery() as nursery:
            for desk in (one, other):
                desk.time = EPOCH + 20 * DAY_S
                nursery.start_soon(sweep, desk)
            nursery.start_soon(redeliver)
            nursery.start_soon(delete)
        await sweep(one)
        dropped = {id_ for run in runs[120:] for id_ in run.deliveries}
        left = await one.store.read(stored)
        assert left[3] == again - dropped
        assert left[0] == {run.run_id for run in runs[:120] if set(run.deliveries) & again}


def _redeliver(tx: Tx, id_: str, again: set[str]) -> None:
    """Redeliver as the owner; a deleted delivery is unknown."""
    if rows.read_delivery(tx, id_, locked=True) is not None:
        rows.queue_again(tx, id_, "h", at=EPOCH)
        tx.on_commit(lambda: again.add(id_))


OLD_MONITOR = """
INSERT INTO monitors (id, account_id, name, recipe, params, cadence, alert_rules, webhook_format, suppress, status,
                      rule_state, runs_total, credits_spent, created_at, updated_at, version)
VALUES ('mon_1', ?, 'old', 'github/search', '{}', '"hourly"', '[]', 'full', 0, 'paused', '{}', 1, 0, ?, ?, 0)
"""
OLD_RUN = """
INSERT INTO runs (id, monitor_id, account_id, scheduled_for, status, start_at, attempt, finished_at, credits_used,
                  legs, alerts, warnings)
VALUES ('run_1', 'mon_1', ?, ?, 'ok', ?, 1, ?, 0, '[]', '[]', '[]')
"""


async def test_run_stored_before_retention_existed_is_swept(store_url: str) -> None:
    """Method: migrate a store of the previous version that contains a run."""
    older = MigrationSet(SCHEDULER.name, SCHEDULER.migrations[:2])
    async with open_store(store_url, (*MIGRATIONS[:2], older)) as kept:
        desk = Desk(kept)
        account = await desk.account()

        def add(tx: Tx) -> None:
            tx.run(OLD_MONITOR, (account, EPOCH, EPOCH))
            tx.run(OLD_RUN, (account, EPOCH, EPOCH, EPOCH + 5))
            tx.run("INSERT INTO run_data (run_id, result) VALUES ('run_1', ?)", (b"x",))

        await desk.store.write(add)
    async with open_desk(store_url) as desk:
        desk.time = EPOCH + 5 * DAY_S
        assert await sweep(desk) == (0, 1, 0)
        desk.time = EPOCH + 50 * DAY_S
        assert await sweep(desk) == (0, 0, 1)


async def test_sweep_finds_old_rows_by_index(store_url: str) -> None:
    """Method: check the query plan of each engine."""
    is_shared = store_url.startswith("postgresql")
    async with open_desk(store_url, is_alone=not is_shared) as desk:
        for kind, index in (
            (retention.DELIVERIES, "deliveries_ended"),
            (retention.RESULTS, "results_kept"),
            (retention.RUNS, "runs_ended"),
        ):
            explain = "EXPLAIN " if is_shared else "EXPLAIN QUERY PLAN "

            def plan(tx: Tx, sql: str = explain + kind.find) -> str:
                if is_shared:
                    tx.run("SET LOCAL enable_seqscan = off")
                return str(tx.all(sql, (EPOCH, 0.0, "", 10)))

            assert index in await desk.store.write(plan)
