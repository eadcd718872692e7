"""All parts of monitors on one store, with a predictable clock, ids and recipes."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import trio

import billing.migrations
import events.migrations
import limits.idempotency
import scheduler.migrations
from billing.accounts.accounts import Accounts
from billing.accounts.balances import Balances
from billing.accounts.lifecycle import Lifecycle
from billing.charges.charges import Charges
from billing.keys.keys import Keys, ended_keys
from billing.keys.sealing import Cipher
from billing.ledger.transactions import Ledger
from billing.ledger.verification import verify
from events.log.log import EventLog
from gateway.feed.billing_events import FeedOfBilling
from scheduler.clock.alarm import Alarm
from scheduler.clock.cadence import next_slot, read_cadence
from scheduler.clock.instants import SlotSource, instant_of
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.clockwork import Clock, ClockSetting, open_clock
from scheduler.monitors.runs.run_rows import RunLease
from scheduler.monitors.runs.runs import Runs
from scheduler.monitors.runs.slots import Slots
from scheduler.monitors.runs.verdict import RunVerdict
from scheduler.pressure import NO_PRESSURE, Pressure
from scheduler.webhooks.deliveries.queue import Outbox
from storage.opening import open_store
from storage.store import Tx
from storage.supervision import unsupervised
from tests.fakes.entries import read_entries
from tests.fakes.scripted_recipes import ScriptedRecipes

EPOCH = 1_800_000_000.0  # a Friday, 08:00 UTC: a slot of every cadence
MIGRATIONS = (
    billing.migrations.MIGRATIONS,
    events.migrations.MIGRATIONS,
    scheduler.migrations.MIGRATIONS,
    limits.idempotency.MIGRATIONS,
)
SEARCH: Mapping[str, Any] = {"recipe": "github/search", "params": {}}


@dataclass(slots=True)
class ClockLog:
    """The lines that the clock has logged for the operator."""

    events: list[tuple[str, dict[str, Any]]]

    def event(self, _level: str, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        self.events.append((event, {**fields, "error": repr(exc)}))


class Desk:
    """The monitors of one node. Several desks may share a store. `time` is the clock, unless `starts_at` is set."""

    def __init__(self, kept: Any, node: str = "n1", *, is_alone: bool = True) -> None:
        self.store = kept
        self.node = node
        self.is_alone = is_alone
        self.time = EPOCH
        self.starts_at: float | None = None
        """If set, the clock is this plus the time passed on Trio's clock."""
        self._numbers = itertools.count(1)
        self.log = ClockLog([])
        self.feed = EventLog(
            now=self.now,
            make_id=self.make_id,
            base_url="https://api.example.com",
            publish=lambda _moved: None,
            ended=lambda tx, key_ids: ended_keys(tx, key_ids, self.now()),
        )
        self.keys = Keys(
            kept,
            Cipher(b"s" * 32),
            now=self.now,
            make_id=self.make_id,
            billing_events=FeedOfBilling(self.feed, now=self.now),
        )
        self.balances = Balances(kept)
        self.accounts = Accounts(kept, self.balances, now=self.now, make_id=self.make_id)
        self.lifecycle = Lifecycle(
            kept, self.keys.changes, now=self.now, billing_events=FeedOfBilling(self.feed, now=self.now)
        )
        self.charges = Charges(
            kept, self.balances, now=self.now, node=node, billing_events=FeedOfBilling(self.feed, now=self.now)
        )
        self.ledger = Ledger(kept, now=self.now)
        self.recipes = ScriptedRecipes()
        self.slots = Slots(self.feed, now=self.now, make_id=self.make_id)
        self.stopping = False
        self.alarm = Alarm()
        self.outbox = Outbox(instant_of(self.now, is_alone=True), self.make_id, publish=lambda _due: None)
        self.runs = Runs((kept, self.charges, self.feed), self.recipes, payload, self.outbox, now=self.now)

    def now(self) -> float:
        return self.time if self.starts_at is None else self.starts_at + trio.current_time()

    def make_id(self, prefix: str) -> str:
        return f"{prefix}{self.node}{next(self._numbers):08d}"

    async def account(self, credits: int = 100_000) -> str:  # noqa: A002 - the specification's name
        return (await self.accounts.create("test", plan="pro", credits=credits)).id

    async def monitor(
        self,
        account_id: str,
        *,
        cadence: object = "hourly",
        track: Mapping[str, Any] | None = None,
        rules: object = (),
        hook: str | None = None,
        recipe: str = "github/search",
        status: str = "active",
        key_id: str = "key_1",
        **terms: Any,
    ) -> Monitor:
        """Create a monitor at the current time."""
        now, id_ = self.now(), self.make_id("mon_")
        monitor = Monitor(
            id=id_,
            account_id=account_id,
            key_id=key_id,
            name="My monitor",
            recipe=recipe,
            params=orjson.dumps({"who": id_}).decode(),
            cadence=orjson.dumps(cadence).decode(),
            track=None if track is None else orjson.dumps(track).decode(),
            alert_rules=orjson.dumps(rules).decode(),
            webhook_format=terms.pop("webhook_format", "full"),
            suppress=terms.pop("suppress", False),
            status="active" if status == "active" else "paused",
            next_slot_at=next_slot(read_cadence(cadence, now), now, now) if status == "active" else None,
            rule_state="{}",
            baseline_run_id=None,
            runs_total=0,
            credits_spent=0,
            created_at=now,
            updated_at=now,
            version=0,
        )
        assert not terms, terms

        def add(tx: Tx) -> None:
            store.add_monitor(tx, monitor)
            if hook is not None:
                tx.run(
                    "INSERT INTO webhooks (monitor_id, url, secret, status, failures) VALUES (?, ?, 's', 'active', 0)",
                    (id_, hook),
                )

        await self.store.write(add)
        return monitor

    async def lease(self, monitor: Monitor, slot: float | None = None, *, node: str | None = None) -> RunLease:
        """Lease a slot of the monitor, by default the slot of the current second."""

        def begin(tx: Tx) -> RunLease:
            run = self.slots.open_one(tx, monitor.id, slot)
            return run_rows.lease_runs(tx, [run.id], node or self.node, now=self.now(), leases_at=self.now())[0]

        lease: RunLease = await self.store.write(begin)
        return lease

    async def again(self, lease: RunLease) -> RunLease:
        """Lease the next attempt of a run whose lease has expired."""
        later = (lease.run.lease_until or self.now()) + 1.0

        def begin(tx: Tx) -> RunLease:
            return run_rows.lease_runs(tx, [lease.run.id], self.node, now=self.now(), leases_at=later)[0]

        found: RunLease = await self.store.write(begin)
        return found

    async def ran(self, monitor: Monitor, slot: float | None = None) -> Run:
        """Run one slot to its end, and return the run."""
        lease = await self.lease(monitor, slot)
        await self.runs.run(lease)
        return await self.run_of(lease.run.id)

    async def run_of(self, run_id: str) -> Run:
        run = await self.store.read(lambda tx: run_rows.read_run(tx, run_id))
        assert isinstance(run, Run)
        return run

    async def all_runs(self, monitor_id: str) -> list[Run]:
        """Return the monitor's runs in order of their slots."""
        sql = f"SELECT {run_rows.COLUMNS} FROM runs WHERE monitor_id = ? ORDER BY scheduled_for"
        return [Run(*row) for row in await self.store.read(lambda tx: tx.all(sql, (monitor_id,)))]

    async def read(self, monitor: Monitor) -> Monitor:
        found = await self.store.read(lambda tx: store.read_monitor(tx, monitor.id))
        assert isinstance(found, Monitor)
        return found

    async def events(self, account_id: str) -> list[dict[str, Any]]:
        """Return the account's feed."""
        sql = "SELECT body FROM events WHERE account_id = ? ORDER BY pos"
        return [orjson.loads(row[0]) for row in await self.store.read(lambda tx: tx.all(sql, (account_id,)))]

    async def deliveries(self) -> list[tuple[Any, ...]]:
        sql = "SELECT run_id, host, body, status FROM deliveries ORDER BY id"
        rows: list[tuple[Any, ...]] = await self.store.read(lambda tx: tx.all(sql))
        return rows

    async def money(self, account_id: str) -> tuple[int, int]:
        """Return the balance and the reserved credits."""
        report = await self.ledger.report(account_id)
        return report.balance, report.held

    async def settled(self) -> dict[str, int]:
        """Return the final cost of each charge by its request id."""
        entries = await self.store.read(lambda tx: read_entries(tx.all))
        return {one.request_id: one.amount for one in entries if one.request_id and one.kind == "settlement"}

    async def assert_sound(self, *accounts: str) -> None:
        """Verify the ledger, and that these accounts have no reservations."""
        await self.charges.finish()
        assert await self.store.read(verify) == []
        for account_id in accounts:
            assert (await self.money(account_id))[1] == 0

    def clock(
        self, others: Sequence[SlotSource] = (), *, pressure: Pressure = NO_PRESSURE
    ) -> AbstractAsyncContextManager[Clock]:
        """Run a ticking clock, also for the slots of `others`."""
        return open_clock(
            ClockSetting(
                store=self.store,
                slots=self.slots,
                runs=self.runs,
                node=self.node,
                log=self.log,
                keep=unsupervised,
                now=self.now,
                is_alone=self.is_alone,
                stopping=lambda: self.stopping,
                pressure=pressure,
                alarm=self.alarm,
                others=others,
            )
        )


def payload(monitor: Monitor, run: Run, verdict: RunVerdict) -> bytes:
    return orjson.dumps([monitor.id, run.id, run.status, verdict.alerts_json])


@asynccontextmanager
async def open_desk(url: str, node: str = "n1", *, is_alone: bool = True) -> AsyncIterator[Desk]:
    with trio.fail_after(60):
        async with open_store(url, MIGRATIONS) as kept:
            yield Desk(kept, node, is_alone=is_alone)


@asynccontextmanager
async def open_desks(url: str) -> AsyncIterator[tuple[Desk, Desk]]:
    """Two nodes of one PostgreSQL; on SQLite, which one process owns, the same node twice."""
    is_shared = url.startswith("postgresql")
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(open_desk(url, is_alone=not is_shared))
        yield one, await stack.enter_async_context(open_desk(url, "n2", is_alone=False)) if is_shared else one
