"""A store of the version before the journal is migrated: every balance and every line stays the same."""

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import trio

from billing import old_entries
from billing.charges.batch_rows import ChargeRequest
from billing.charges.recovery import recover
from billing.ledger.lines import Transaction
from billing.ledger.verification import verify
from billing.migrations import MIGRATIONS
from storage.errors import StoreUnusable
from storage.migrations import MigrationSet
from storage.opening import open_store
from tests.billing.desk import Desk
from tests.billing.old_ledger import BEFORE, OldLedger

MIGRATE = """
import sys, trio
from billing import old_entries
from billing.migrations import MIGRATIONS
from storage.opening import open_store
old_entries.STEP = int(sys.argv[2])
async def main():
    async with open_store(sys.argv[1], [MIGRATIONS]):
        print("migrated", flush=True)
trio.run(main)
"""


def old_ledger(steps: int, *, accounts: int = 3, seed: int = 1) -> OldLedger:
    ledger = OldLedger()
    for number in range(accounts):
        ledger.account(100 * number, unlimited=number % 3 == 2)
    ledger.play(Random(seed), steps)
    return ledger


async def write(url: str, ledger: OldLedger) -> None:
    async with open_store(url, [BEFORE]) as store:
        await store.write(ledger.fill)


async def assert_as_before(desk: Desk, ledger: OldLedger) -> None:
    """Check balances, whole statements, each line's page and each request's lines."""
    for account in ledger.accounts:
        now = await desk.accounts.get(account.id)
        assert (now.balance, now.held) == (account.balance, account.held)
        due = ledger.lines(account)
        read: list[Transaction] = []
        while page := (await desk.ledger.transactions(account.id, limit=7, before=read[-1].id if read else None)).lines:
            read += page
        assert read == due
        for line in due[:20]:
            if line.request_id is not None:
                of_request = [one for one in due if one.request_id == line.request_id]
                found = (await desk.ledger.transactions(account.id, limit=9, request_id=line.request_id)).lines
                assert found == of_request


async def test_migration_keeps_every_balance_and_line(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step covers 25 entries, so refunds and covers of a charge are in other steps than the charge itself."""
    monkeypatch.setattr(old_entries, "STEP", 25)
    ledger = old_ledger(500)
    with trio.fail_after(60):
        await write(store_url, ledger)
        async with open_store(store_url, [MIGRATIONS]) as store:
            desk = Desk(store)
            desk.time = ledger.now
            assert await store.read(verify) == []
            await assert_as_before(desk, ledger)
            week = await desk.ledger.report(ledger.accounts[0].id)
            assert week.last_7d == ledger.accounts[0].spent + ledger.accounts[0].held


async def test_account_with_migrated_lines_is_charged_and_refunded_as_before(store_url: str) -> None:
    """Open charges are refunded, new charges are taken, and an old request is not charged again."""
    ledger = old_ledger(200)
    account = ledger.accounts[2]
    with trio.fail_after(60):
        await write(store_url, ledger)
        async with open_store(store_url, [MIGRATIONS]) as store:
            desk = Desk(store)
            held = sum(one.held for one in ledger.accounts)
            assert held
            assert (await recover(store, now=desk.now)).credits == held
            charge = await desk.charges.take(desk.request(account.id, account.key, credits=5))
            await desk.charges.close(charge, used=2)
            lines = (await desk.ledger.transactions(account.id, limit=1_000)).lines
            assert lines[-len(ledger.lines(account)) :] == ledger.lines(account)
            assert [line.type for line in lines[:2]] == ["refund", "deduction"]
            old = next(line.request_id for line in lines[::-1] if line.request_id)
            assert old is not None
            again = ChargeRequest(old, account.id, None, 1, "github", "repository")
            (outcome,) = await store.write(lambda tx: desk.charges.judge(tx, [again]))
            assert type(outcome).__name__ == "ChargeExists"
            await desk.assert_sound()


async def test_mismatched_line_stops_the_migration_without_loss(store_url: str) -> None:
    """Method: the entry that took a settled charge is missing."""
    ledger = old_ledger(100)
    at = next(i for i, entry in enumerate(ledger.entries) if entry[1] == "settlement")
    request_id = ledger.entries[at][6]
    kept = [entry for entry in ledger.entries if entry[6] != request_id or entry[1] != "deduction"]
    refund = ("acc_0", "refund", "held", "available", 1, 1, request_id, "key_0", "github", "repository", "Refund", 1.0)
    ledger.entries = [*kept, refund]
    with trio.fail_after(60):
        await write(store_url, ledger)
        with pytest.raises(StoreUnusable, match="reads differently"):
            async with open_store(store_url, [MIGRATIONS]):
                pass
        async with open_store(store_url, [MigrationSet(MIGRATIONS.name, MIGRATIONS.migrations[:6])]) as store:
            assert await store.read(lambda tx: tx.one("SELECT COUNT(*) FROM ledger_entries")) == (len(ledger.entries),)


@pytest.mark.sqlite
async def test_killed_migration_continues_where_it_stopped(tmp_path: Path) -> None:
    """The migration is killed at four moments, chosen by rows written; on SQLite, whose file can be read from here."""
    ledger, file = old_ledger(2_500), tmp_path / "store.db"
    await write(f"sqlite:///{file}", ledger)
    kills, last = 0, 0
    for moment in range(1, 5):
        kills += migrate_until_killed(file, rows=last + moment * 20)
        assert rows_in(file) >= last, "durable rows stay"
        last = rows_in(file)
    assert kills >= 3
    async with open_store(f"sqlite:///{file}", [MIGRATIONS]) as store:
        assert await store.read(verify) == []
        await assert_as_before(Desk(store), ledger)


def migrate_until_killed(file: Path, *, rows: int) -> bool:
    """Migrate in a process that is killed once there are more rows than this. Return whether it was still running."""
    command = [sys.executable, "-c", MIGRATE, f"sqlite:///{file}", "40"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and rows_in(file) <= rows:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    return process.returncode == -signal.SIGKILL


def rows_in(file: Path) -> int:
    with closing(sqlite3.connect(file, timeout=5)) as connection:
        try:
            return int(connection.execute("SELECT COUNT(*) FROM journal").fetchone()[0])
        except sqlite3.OperationalError:
            return 0
