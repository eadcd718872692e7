"""Measures a ledger of many rows beside one of few: `python -m bench.scenarios.volume`, on SQLite.

It reads a `Volume` from stdin and writes `VolumeFigures`, as JSON. Rows are generated: settled misses of many accounts,
as the product would have entered them, which the proof at the end holds against accounts and usage. The full size is

    echo '{"folder": "/var/tmp", "rows": 100000000}' | python -m bench.scenarios.volume
"""

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import trio

from bench.scenarios.growth import CREDITS, load_of
from billing.accounts.accounts import Account, Accounts
from billing.accounts.balances import Balances
from billing.journal import ADD, HOUR_MICROS, REQUEST
from billing.ledger.transactions import Ledger
from billing.ledger.verification import verify
from gateway.config.ids import id_maker
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from storage.store import Store, Tx

BATCHES = 200
BATCH = 64
READS = 200
PAGE = 50
BEGAN_MS = 1_700_000_000_000
ROWS_AN_HOUR = 1_000_000
CACHE_KIB = 1_048_576


@dataclass(frozen=True, slots=True)
class Volume:
    """The folder of the database, its generated rows, and the accounts that they are spread over."""

    folder: str
    rows: int = 10_000_000
    accounts: int = 10_000


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The CPU of one store's threads, in microseconds each."""

    charge_and_close_us: float
    lone_charge_and_close_us: float
    balance_us: float
    page_us: float
    old_page_us: float
    verified_per_s: float


@dataclass(frozen=True, slots=True)
class VolumeFigures:
    """A store of two pages an account, and one of so many rows."""

    rows: int
    small: StoreFigures
    full: StoreFigures


async def measure(volume: Volume) -> VolumeFigures:
    """Fill and measure a small store, and one of all the rows."""
    with TemporaryDirectory(prefix="sluice-bench-volume-", dir=volume.folder) as folder:
        small = await _measure(Path(folder) / "small.db", 2 * PAGE * volume.accounts, volume.accounts)
        full = await _measure(Path(folder) / "full.db", volume.rows, volume.accounts)
    return VolumeFigures(volume.rows, small, full)


async def _measure(file: Path, rows: int, accounts: int) -> StoreFigures:
    url = f"sqlite:///{file}"
    async with open_store(url, MIGRATIONS) as store:
        made = Accounts(store, Balances(store), now=time.time, make_id=id_maker(time.time, Random(1)))
        owners = [await made.create("Bench", credits=CREDITS) for _ in range(accounts)]
    each = rows // accounts
    fill(file, each, accounts)
    async with open_store(url, MIGRATIONS) as store:
        load = await load_of(store, 100)
        many = await _cpu(store, partial(load.step, count=BATCH), BATCHES) / BATCH
        await store.write(partial(load.step, count=0))
        lone = await _cpu(store, partial(load.step, count=1), BATCHES)
        await store.write(partial(load.step, count=0))
        ledger = Ledger(store, now=time.time)
        page = await _read(ledger, owners, None)
        old_page = await _read(ledger, owners, each // 2 + 2)
        balance = await _balance(ledger, owners)
        verified_s = await store.read(_verified)
        count = each * accounts + accounts + BATCHES * (BATCH + 1)
    return StoreFigures(many, lone, balance, page, old_page, count / verified_s)


def fill(file: Path, each: int, accounts: int) -> None:
    """Enter so many settled misses of each account, whose last row so far is its welcome, and move the account on."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        database.execute("BEGIN")
        (endpoint,) = database.execute(
            "INSERT INTO endpoints (platform, path) VALUES ('github', '/v1/github/bench') RETURNING id"
        ).fetchone()
        marks = "(" + ",".join("?" * 16) + ")"
        database.executemany(ADD.replace("{rows}", marks), _rows(each, accounts, endpoint))
        database.execute(
            """
            INSERT INTO usage (account, hour, endpoint, key, calls, credits, refunds, failures)
            SELECT account, taken_at / ?, endpoint, 0, COUNT(*), SUM(taken), 0, 0 FROM journal
            WHERE endpoint IS NOT NULL GROUP BY 1, 2, 3
            """,
            (HOUR_MICROS,),
        )
        database.execute(
            "UPDATE accounts SET balance = balance - ?, place = place + ?, version = version + 1", (each, each)
        )
        database.execute("COMMIT")


def _rows(each: int, accounts: int, endpoint: int) -> Iterator[tuple[object, ...]]:
    for number in range(each * accounts):
        turn, account = divmod(number, accounts)
        at_ms = BEGAN_MS + number * 3_600_000 // ROWS_AN_HOUR
        id_ = at_ms.to_bytes(6, "big") + number.to_bytes(10, "big")
        balance = CREDITS - turn - 1
        amounts = (1, 0, 0, at_ms * 1000, 5_000, balance, balance)
        yield (id_, REQUEST, account + 1, None, endpoint, *amounts, turn + 2, None, None, None)


async def _cpu(store: Store, step: Callable[..., float], times: int) -> float:
    """Microseconds of the writer's thread for each of so many steps."""
    began = await store.write(step)
    for _ in range(times):
        ended = await store.write(step)
    return (ended - began) / times * 1e6


async def _read(ledger: Ledger, owners: list[Account], before: int | None) -> float:
    """Microseconds of a page of transactions, begun before a place; of the whole process."""
    began = time.process_time()
    for number in range(READS):
        await ledger.transactions(owners[number * 37 % len(owners)].id, limit=PAGE, before=before)
    return (time.process_time() - began) / READS * 1e6


async def _balance(ledger: Ledger, owners: list[Account]) -> float:
    began = time.process_time()
    for number in range(READS):
        await ledger.report(owners[number * 37 % len(owners)].id)
    return (time.process_time() - began) / READS * 1e6


def _verified(tx: Tx) -> float:
    """Seconds of this thread's CPU for the proof."""
    began = time.thread_time()
    assert verify(tx) == []
    return time.thread_time() - began


if __name__ == "__main__":
    found = trio.run(measure, msgspec.json.decode(sys.stdin.buffer.read(), type=Volume))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
