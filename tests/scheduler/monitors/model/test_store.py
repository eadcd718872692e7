"""Monitors and runs as rows, on both engines."""

from dataclasses import replace

import pytest

from scheduler.monitors.model import store
from scheduler.monitors.model.records import Run, RunData
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.run_rows import Delivered
from storage.errors import ConstraintViolated
from tests.scheduler.desk import EPOCH, Desk
from tests.scheduler.stored import kept_data

BELONGINGS = ("webhooks", "runs", "run_data", "deliveries")


async def test_monitor_round_trips(desk: Desk) -> None:
    account = await desk.account()
    for terms in ({}, {"track": {"metrics": ["total"]}, "webhook_format": "rows", "suppress": True}):
        monitor = await desk.monitor(account, rules=[{"metric": "total", "op": "gt", "value": 1}], **terms)
        assert await desk.read(monitor) == monitor


async def test_remove_monitor_deletes_its_dependent_rows(desk: Desk) -> None:
    account = await desk.account()
    monitor, other = [await desk.monitor(account, hook="https://example.com/hook") for _ in range(2)]
    for each in (monitor, other):
        await desk.ran(each)
    assert not await desk.store.write(lambda tx: store.remove_monitor(tx, monitor.id, "acc_else"))
    assert await desk.store.write(lambda tx: store.remove_monitor(tx, monitor.id, account))
    for table in BELONGINGS:
        counted = await desk.store.read(lambda tx, table=table: tx.one(f"SELECT COUNT(*) FROM {table}"))
        assert counted == (1,), table
    assert await desk.store.read(lambda tx: store.read_monitor(tx, monitor.id)) is None


async def test_slot_keeps_its_first_run(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    first = Run("run_1", monitor.id, monitor.account_id, EPOCH, "pending", EPOCH)
    await desk.store.write(lambda tx: run_rows.add_runs(tx, [first, replace(first, id="run_2")]))
    await desk.store.write(lambda tx: run_rows.add_runs(tx, [replace(first, id="run_3")]))
    assert await desk.all_runs(monitor.id) == [first]


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "running"},  # without a lease
        {"status": "ok"},  # without an end
        {"status": "failed", "finished_at": EPOCH, "credits_used": 1},
        {"status": "skipped", "finished_at": EPOCH},  # without a reason
    ],
)
async def test_database_rejects_inconsistent_runs(desk: Desk, wrong: dict[str, object]) -> None:
    monitor = await desk.monitor(await desk.account())
    run = replace(Run("run_1", monitor.id, monitor.account_id, EPOCH, "pending", EPOCH), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConstraintViolated):
        await desk.store.write(lambda tx: run_rows.add_runs(tx, [run]))


async def test_run_data_is_compressed_and_round_trips(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    run = await desk.ran(monitor, EPOCH)
    data = RunData(b'{"text":"' + b"x" * 100_000 + b'"}', None, b"{}")

    def keep(tx: object) -> None:
        tx.run("DELETE FROM run_data")  # type: ignore[attr-defined]
        run_rows.add_data(tx, run.id, data, at=EPOCH)  # type: ignore[arg-type]

    await desk.store.write(keep)
    assert await desk.store.read(lambda tx: kept_data(tx, run.id)) == data
    (size,) = await desk.store.read(lambda tx: tx.one("SELECT LENGTH(result) FROM run_data"))
    assert size < 1_000


async def test_new_run_has_a_delivery_without_attempts(desk: Desk) -> None:
    run = await desk.ran(await desk.monitor(await desk.account(), hook="https://example.com/hook"))
    assert await desk.store.read(lambda tx: run_rows.delivery_of(tx, run.id)) == Delivered(0, None, None, None)
    assert await desk.store.read(lambda tx: run_rows.delivery_of(tx, "run_none")) is None


async def test_valid_lease_is_not_taken_over(desk: Desk) -> None:
    lease = await desk.lease(await desk.monitor(await desk.account()))
    now = desk.now()
    taken = await desk.store.write(
        lambda tx: run_rows.lease_runs(tx, [lease.run.id], "other", now=now, leases_at=now + 1.0)
    )
    assert taken == []
    assert await desk.store.write(lambda tx: run_rows.renew_leases(tx, [lease.run.id], "other", leases_at=now)) == 0
    assert await desk.store.write(lambda tx: run_rows.renew_leases(tx, [lease.run.id], "n1", leases_at=now + 9)) == 1
    assert (await desk.run_of(lease.run.id)).lease_until == now + 9 + run_rows.LEASE_S
