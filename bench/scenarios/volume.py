"""Measures a ledger of many rows beside one of few: `python -m bench.scenarios.volume`, on SQLite.

It reads a `Volume` from stdin and writes `VolumeFigures`, as JSON. Rows are generated: settled misses of many accounts,
as the product would have entered them, which the proof at the end holds against accounts and usage. The two stores are
measured by turns, so that a slow minute of the machine falls on both.
"""

import resource
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import trio

from bench.core.tasks import run_side_by_side
from bench.scenarios.growth import CREDITS, Load, load_on
from billing.accounts.accounts import Accounts
from billing.accounts.balances import Balances
from billing.journal import REQUEST
from billing.ledger.transactions import Ledger
from billing.ledger.verification import verify
from gateway.config.ids import id_maker
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from storage.store import Store, Tx

TURNS = 5
BATCHES = 100
BATCH = 64
READS = 200
PAGE = 50
LOADED = 1_000
"""The accounts that are charged while it is measured."""
BEGAN_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
ROWS_AN_HOUR = 1_000_000
ROWS_AT_ONCE = 1_000_000
TRAFFIC_PAUSE_S = 0.05
CACHE_KIB = 262_144

PAIRS = "CREATE TEMP TABLE pairs (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL)"
# The bytes of an id are put together from pairs: this SQLite turns no number into bytes.
FILL = f"""
WITH RECURSIVE counted (number) AS (SELECT :first UNION ALL SELECT number + 1 FROM counted WHERE number + 1 < :end),
missed AS (
    SELECT number, number / :accounts AS turn, number % :accounts + 1 AS account,
        :began_ms + number * {HOUR_MS} / {ROWS_AN_HOUR} AS ms FROM counted
)
INSERT INTO journal (id, kind, account, endpoint, taken, taken_at, closed_after, balance_after, balance_closed, place)
SELECT CAST(p1.bytes || p2.bytes || p3.bytes || zeroblob(6) || p4.bytes || p5.bytes AS BLOB), {REQUEST}, account,
    :endpoint, 1, ms * 1000, 5000, {CREDITS} - turn - 1, {CREDITS} - turn - 1, turn + 2
FROM missed JOIN pairs AS p1 ON p1.number = ms >> 32 JOIN pairs AS p2 ON p2.number = ms >> 16 & 65535
JOIN pairs AS p3 ON p3.number = ms & 65535 JOIN pairs AS p4 ON p4.number = missed.number >> 16
JOIN pairs AS p5 ON p5.number = missed.number & 65535
"""
# Of the numbers from one to the other, those whose rows are the account's.
FILL_USAGE = """
INSERT INTO usage (account, hour, endpoint, key, calls, credits, refunds, failures)
SELECT number, :hour, :endpoint, 0, calls, calls, 0, 0 FROM (
    SELECT number, (:end - number + :accounts) / :accounts - (:first - number + :accounts) / :accounts AS calls
    FROM accounts
) AS counted WHERE calls > 0
"""


@dataclass(frozen=True, slots=True)
class Volume:
    """The folder of the databases, the generated rows, and the accounts that they are spread over."""

    folder: str
    rows: int = 10_000_000
    accounts: int = 10_000


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The CPU of one store's threads, in microseconds each: of some turns the median."""

    charge_and_close_us: float
    lone_charge_and_close_us: float
    balance_us: float
    page_us: float
    old_page_us: float


@dataclass(frozen=True, slots=True)
class VolumeFigures:
    """A store of two pages an account, and one of so many rows with its proof, which goes on beside traffic."""

    rows: int
    small: StoreFigures
    full: StoreFigures
    filled_per_s: float
    file_bytes: int
    verified_per_s: float
    """Rows a second of the proof's own CPU."""
    verify_s: float
    verify_grew_bytes: int
    """The rise of the process's peak of resident memory meanwhile."""
    beside: int
    """The charges that were taken and settled meanwhile."""
    log_bytes: int
    """The log's size behind it: while the proof reads one state, what is written stays in the log."""


class Ground:
    """One open store, its accounts, and the load that is put on some of them."""

    def __init__(self, store: Store, owners: list[str], load: Load, each: int) -> None:
        """Each of the owners has `each` rows."""
        self.store = store
        self.load = load
        self._owners = owners
        self._ledger = Ledger(store, now=time.time)
        self._each = each

    async def turn(self) -> StoreFigures:
        """Charge and read a little."""
        many = await self._cpu(BATCH) / BATCH
        lone = await self._cpu(1)
        page, old_page = await self._page(None), await self._page(self._each // 2 + 2)
        return StoreFigures(many, lone, await self._per_read(self._ledger.report), page, old_page)

    async def settle(self) -> None:
        """Settle what is open."""
        await self.store.write(partial(self.load.step, count=0))

    async def _cpu(self, count: int) -> float:
        """Microseconds of the writer's thread for each batch of so many charges and the settlements of the one before.

        Its first batches are not counted: they open what the others find open.
        """
        step = partial(self.load.step, count=count)
        for _ in range(1 + BATCHES // 10):
            began = await self.store.write(step)
        for _ in range(BATCHES):
            ended = await self.store.write(step)
        await self.settle()
        return (ended - began) / BATCHES * 1e6

    async def _page(self, before: int | None) -> float:
        """A page of transactions, begun before a place."""
        return await self._per_read(partial(self._ledger.transactions, limit=PAGE, before=before))

    async def _per_read(self, read: Callable[[str], Awaitable[object]]) -> float:
        """Microseconds of the whole process for a read of an account, over many accounts."""
        began = time.process_time()
        for number in range(READS):
            await read(self._owners[number * 37 % len(self._owners)])
        return (time.process_time() - began) / READS * 1e6


@dataclass(slots=True)
class Proof:
    """The proof of a ledger, in a thread of the store's; changed by `run` alone."""

    is_done: bool = False
    took_s: float = 0.0
    cpu_s: float = 0.0
    grew_bytes: int = 0

    async def run(self, store: Store) -> None:
        """Prove it."""
        before, began = _peak_bytes(), time.perf_counter()
        self.cpu_s = await store.read(_verified_s)
        self.took_s, self.grew_bytes = time.perf_counter() - began, _peak_bytes() - before
        self.is_done = True


async def measure(volume: Volume) -> VolumeFigures:
    """Fill a small store and one of all the rows, and measure both."""
    each = volume.rows // volume.accounts
    few = min(2 * PAGE, each)
    with TemporaryDirectory(prefix="sluice-bench-volume-", dir=volume.folder) as folder:
        small_file, file = Path(folder) / "small.db", Path(folder) / "full.db"
        await filled(small_file, few, volume.accounts)
        filled_s = await filled(file, each, volume.accounts)
        async with _ground(small_file, few) as small, _ground(file, each) as full:
            turns = [(await small.turn(), await full.turn()) for _ in range(TURNS)]
            proof, beside = await _prove_beside_traffic(full)
            return VolumeFigures(
                rows=each * volume.accounts,
                small=_median([one for one, _ in turns]),
                full=_median([one for _, one in turns]),
                filled_per_s=each * volume.accounts / filled_s,
                file_bytes=file.stat().st_size,
                verified_per_s=each * volume.accounts / proof.cpu_s,
                verify_s=proof.took_s,
                verify_grew_bytes=proof.grew_bytes,
                beside=beside,
                log_bytes=file.with_name(f"{file.name}-wal").stat().st_size,
            )


async def _prove_beside_traffic(ground: Ground) -> tuple[Proof, int]:
    """The proof, and the charges taken and settled meanwhile."""
    proof, beside = Proof(), 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(proof.run, ground.store)
        while not proof.is_done:
            await ground.store.write(partial(ground.load.step, count=BATCH))
            beside += BATCH
            await trio.sleep(TRAFFIC_PAUSE_S)
    await ground.settle()
    return proof, beside


@asynccontextmanager
async def _ground(file: Path, each: int) -> AsyncIterator[Ground]:
    async with open_store(f"sqlite:///{file}", MIGRATIONS) as store:
        owners = [row[0] for row in await store.read(lambda tx: tx.all("SELECT id FROM accounts ORDER BY number"))]
        yield Ground(store, owners, await load_on(store, owners[:: max(1, len(owners) // LOADED)]), each)


async def filled(file: Path, each: int, accounts: int) -> float:
    """Make a store with so many rows of each of so many accounts; gives the seconds that filling it took."""
    async with open_store(f"sqlite:///{file}", MIGRATIONS) as store:
        made = Accounts(store, Balances(store), now=time.time, make_id=id_maker(time.time, Random(1)))
        for first in range(0, accounts, LOADED):
            one = partial(made.create, "Bench", credits=CREDITS)
            await run_side_by_side(*[one] * min(LOADED, accounts - first))
    began = time.perf_counter()
    fill(file, each, accounts)
    return time.perf_counter() - began


def fill(file: Path, each: int, accounts: int, *, began_ms: int = BEGAN_MS) -> None:
    """Enter so many settled misses of each account, whose last row so far is its welcome, and move the account on."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        for pragma in (f"cache_size = -{CACHE_KIB}", "synchronous = OFF"):
            database.execute(f"PRAGMA {pragma}")
        database.execute(PAIRS)
        database.executemany("INSERT INTO pairs VALUES (?, ?)", ((n, n.to_bytes(2, "big")) for n in range(1 << 16)))
        (endpoint,) = database.execute(
            "INSERT INTO endpoints (platform, path) VALUES ('github', '/v1/github/bench') RETURNING id"
        ).fetchone()
        # Entries of an index come one after another if it is made last: row by row they take three times as long.
        ((index,),) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'journal_of_account'").fetchall()
        database.execute("DROP INDEX journal_of_account")
        known = {"accounts": accounts, "endpoint": endpoint, "began_ms": began_ms}
        for first in range(0, each * accounts, ROWS_AT_ONCE):
            end = min(first + ROWS_AT_ONCE, each * accounts)
            database.execute(FILL, {**known, "first": first, "end": end})
        database.execute(index)
        for hour, first, end in _hours(each * accounts, began_ms):
            database.execute(FILL_USAGE, {**known, "hour": hour, "first": first, "end": end})
        database.execute(
            "UPDATE accounts SET balance = balance - ?, place = place + ?, version = version + 1", (each, each)
        )


def _hours(rows: int, began_ms: int) -> Iterator[tuple[int, int, int]]:
    """Each hour with its first number and the one behind its last."""
    first, hour = 0, began_ms // HOUR_MS
    while first < rows:
        end = min(rows, -((began_ms - (hour + 1) * HOUR_MS) * ROWS_AN_HOUR // HOUR_MS))
        yield hour, first, end
        first, hour = end, hour + 1


def _median(turns: Sequence[StoreFigures]) -> StoreFigures:
    """The median of each figure."""
    return StoreFigures(*(median(getattr(turn, one.name) for turn in turns) for one in fields(StoreFigures)))


def _peak_bytes() -> int:
    """The most memory that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _verified_s(tx: Tx) -> float:
    """Seconds of this thread's CPU for the proof."""
    began = time.thread_time()
    assert verify(tx) == []
    return time.thread_time() - began


if __name__ == "__main__":
    found = trio.run(measure, msgspec.json.decode(sys.stdin.buffer.read(), type=Volume))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
