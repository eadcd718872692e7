"""Maintenance of a node in virtual time, also while the machine's clock is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
import trio
from trio.testing import MockClock

import billing.migrations
import billing.users.schema
import gateway.admin.operation_records
import limits.idempotency
import storage.sweep_clock
from billing.archive.archiver import Archiver, alone
from events.consumers.consumers import Consumers
from gateway.admin.operation_records import ADD, FORGET_AT_ONCE, KEPT_S
from gateway.node.maintenance import (
    SWEEP_EVERY_S,
    SWEEP_FIRST_S,
    archive_days,
    forget_old_claims,
    sweep_events,
    sweep_monitors,
)
from limits.idempotency import ClaimRecord, StoredReply, save_claims
from scheduler.clock.instants import instant_of
from scheduler.monitors.model.records import Run
from scheduler.monitors.runs.run_rows import add_runs
from scheduler.retention import Retention
from storage.errors import StoreUnavailable
from storage.store import Tx
from storage.sweep_clock import SECOND_CHECK_S, SweepClock
from tests.billing.archive.past import PastDesk, play
from tests.events.desk import low
from tests.fakes.inline_store import InlineStore
from tests.scheduler.desk import EPOCH, MIGRATIONS, ClockLog, Desk

DAY_S = 86_400.0
ALL = (
    *MIGRATIONS,
    billing.users.schema.MIGRATIONS,
    limits.idempotency.MIGRATIONS,
    gateway.admin.operation_records.MIGRATIONS,
    storage.sweep_clock.MIGRATIONS,
)
TWO_CHECKS_S = 2 * SECOND_CHECK_S + 2 * SWEEP_EVERY_S
"""Long enough for two checks by every sweeper, at least an hour apart."""


class Left(NamedTuple):
    """The number of rows of each kind that is removed by age."""

    events: int
    runs: int
    claims: int
    replies: int
    operations: int


class Machine:
    """A store with rows of every kind and the same age, and a clock that can be set."""

    def __init__(self) -> None:
        self.desk = Desk(InlineStore(ALL))
        self.desk.starts_at = EPOCH - trio.current_time()

    def set_clock(self, seconds: float) -> None:
        """Move the machine's clock forward or back."""
        assert self.desk.starts_at is not None
        self.desk.starts_at += seconds

    async def fill(self) -> None:
        monitor = await self.desk.monitor(await self.desk.account())
        await self.desk.store.write(partial(self._add, monitor_id=monitor.id, account_id=monitor.account_id))

    def _add(self, tx: Tx, *, monitor_id: str, account_id: str) -> None:
        at = self.desk.now()
        runs = [
            Run(self.desk.make_id("run_"), monitor_id, account_id, at + hour, "failed", at, finished_at=at)
            for hour in range(3)
        ]
        add_runs(tx, runs)
        self.desk.feed.append(tx, [low(account_id), low(account_id)])
        kept = StoredReply(200, '"data":1', "req_1")
        tx.run(ADD, ("op_one", "print", "{}", at + 7 * DAY_S - KEPT_S))
        save_claims(tx, {"one": ClaimRecord(account_id, "GET a/b", "print", "req_1", at, kept)})

    def left(self) -> Left:
        def count(tx: Tx) -> Left:
            return Left(*(tx.all(f"SELECT COUNT(*) FROM {name}")[0][0] for name in Left._fields))

        left: Left = self.desk.store.look(count)
        return left

    @asynccontextmanager
    async def process(self) -> AsyncIterator[None]:
        """Run all sweepers of a process until the block ends."""
        store, log, rng = self.desk.store, self.desk.log, Random(1)
        instant = instant_of(self.desk.now, is_alone=True)
        check = SweepClock(store, instant, event=log.event).check
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(sweep_monitors, sweep_at=check, rng=rng), store, Retention(7, 7), log)
            nursery.start_soon(partial(sweep_events, sweep_at=check, rng=rng), store, 7, log)
            nursery.start_soon(partial(forget_old_claims, sweep_at=check), store, log)
            yield
            nursery.cancel_scope.cancel()


@pytest.fixture
async def machine(autojump_clock: MockClock) -> AsyncIterator[Machine]:
    opened = Machine()
    yield opened
    opened.desk.store.close()


EVERYTHING = Left(events=2, runs=3, claims=1, replies=1, operations=1)
NOTHING = Left(0, 0, 0, 0, 0)


async def test_no_data_is_swept_after_a_clock_jump_of_forty_days(machine: Machine, autojump_clock: MockClock) -> None:
    await machine.fill()
    async with machine.process():
        await trio.sleep(TWO_CHECKS_S)
        machine.set_clock(40 * DAY_S)
        await trio.sleep(SECOND_CHECK_S)
        assert machine.left() == EVERYTHING
        machine.set_clock(-40 * DAY_S)
        await trio.sleep(TWO_CHECKS_S)
        assert machine.left() == EVERYTHING
    assert [name for name, _ in machine.desk.log.events] == ["clock_doubted"]


async def test_no_recent_row_is_swept_after_a_clock_was_set_back(machine: Machine, autojump_clock: MockClock) -> None:
    await machine.fill()
    async with machine.process():
        await trio.sleep(TWO_CHECKS_S)
        machine.set_clock(-400 * DAY_S)
        await trio.sleep(TWO_CHECKS_S)
        machine.set_clock(400 * DAY_S)
        await trio.sleep(TWO_CHECKS_S)
        assert machine.left() == EVERYTHING
        await trio.sleep(9 * DAY_S)
        assert machine.left() == NOTHING


async def test_sweeps_resume_after_store_outages(machine: Machine, autojump_clock: MockClock) -> None:
    await machine.fill()
    async with machine.process():
        await trio.sleep(TWO_CHECKS_S)
        machine.desk.store.failing = StoreUnavailable("it is away")
        await trio.sleep(10 * DAY_S)
        assert machine.left() == EVERYTHING
        machine.desk.store.failing = None
        await trio.sleep(TWO_CHECKS_S)
        assert machine.left() == NOTHING
    names = {name for name, _ in machine.desk.log.events}
    assert names == {"monitors_not_swept", "monitors_swept", "events_kept", "claims_kept"}


async def test_runs_are_swept_in_whole_days_after_a_first_pause(machine: Machine, autojump_clock: MockClock) -> None:
    await machine.fill()
    swept_at: list[float] = []

    async def check() -> float | None:
        await trio.lowlevel.checkpoint()
        swept_at.append(trio.current_time())
        return machine.desk.now()

    async with trio.open_nursery() as nursery:
        sweeping = partial(sweep_monitors, sweep_at=check, rng=Random(1))
        nursery.start_soon(sweeping, machine.desk.store, Retention(1, 1), machine.desk.log)
        await trio.sleep(2 * DAY_S - (EPOCH % DAY_S) - 1)
        assert machine.left().runs == 3
        await trio.sleep(2 * SWEEP_EVERY_S)
        assert machine.left().runs == 0
        nursery.cancel_scope.cancel()
    assert swept_at[0] == SWEEP_FIRST_S
    assert machine.desk.log.events == [("monitors_swept", {"deliveries": 0, "results": 0, "runs": 3})]


async def test_consumers_are_deleted_with_their_key(machine: Machine, autojump_clock: MockClock) -> None:
    desk = machine.desk
    account = await desk.account()
    consumers = Consumers(desk.store, desk.now)
    keys = {}
    for name, days in (("live", None), ("revoked", None), ("expires", 2)):
        expires_at = None if days is None else desk.now() + days * DAY_S
        keys[name] = (await desk.keys.create(account, name=name, expires_at=expires_at)).id
        for consumer in ("one", "two"):
            await consumers.read(account, keys[name], consumer, limit=1)

    async def left() -> set[str]:
        rows = await desk.store.read(lambda tx: tx.all("SELECT DISTINCT key_id FROM consumers"))
        return {key_id for (key_id,) in rows}

    async with machine.process():
        await trio.sleep(TWO_CHECKS_S)
        assert await left() == set(keys.values())
        await desk.keys.revoke(keys["revoked"])
        await trio.sleep(TWO_CHECKS_S)
        assert await left() == {keys["live"], keys["expires"]}
        await trio.sleep(4 * DAY_S)
        assert await left() == {keys["live"]}


async def test_old_rows_are_deleted_in_small_steps(machine: Machine, autojump_clock: MockClock) -> None:
    """Method: more rows of each kind than one step removes. The store is free between steps, for other writes."""
    store, count = machine.desk.store, 2 * FORGET_AT_ONCE + 1

    def add(tx: Tx) -> None:
        tx.run_many(ADD.replace("(?, ?, ?, ?)", "{rows}"), [(f"op_{n}", "print", "{}", 1.0) for n in range(count)])
        kept = StoredReply(200, None, "req_1")
        save_claims(tx, {str(n): ClaimRecord("acc", "GET a/b", "print", "req_1", 1.0, kept) for n in range(count)})

    await store.write(add)
    async with machine.process():
        await trio.sleep(SECOND_CHECK_S)
        before = store.statistics().calls
        await trio.sleep(TWO_CHECKS_S)
        assert (machine.left().operations, machine.left().claims) == (0, 0)
        assert store.statistics().calls - before >= 2 * (count // FORGET_AT_ONCE + 1)


async def test_old_days_are_archived_hourly(autojump_clock: MockClock, tmp_path: Path) -> None:
    """An archive that another process is writing is skipped until later; an error in the folder is logged."""
    log, store = ClockLog([]), InlineStore([billing.migrations.MIGRATIONS])
    desk = PastDesk(store)
    await play(desk, days=2)
    at = desk.time + 30 * DAY_S

    async def sweep_at() -> float:
        await trio.lowlevel.checkpoint()
        return at

    async with trio.open_nursery() as nursery:
        archiver = Archiver(store, tmp_path, detail_days=7)
        nursery.start_soon(partial(archive_days, sweep_at=sweep_at), archiver, log)
        with alone(tmp_path):
            await trio.sleep(SWEEP_FIRST_S + SWEEP_EVERY_S / 2)
        assert log.events == []
        await trio.sleep(SWEEP_EVERY_S)
        assert log.events == [("ledger_archived", {"files": 2, "rows": 24})]
        (tmp_path / "manifest.jsonl").write_bytes(b"{")
        await trio.sleep(SWEEP_EVERY_S)
        assert [name for name, _ in log.events] == ["ledger_archived", "ledger_not_archived"]
        nursery.cancel_scope.cancel()
    store.close()
