"""Compares a ledger of many rows with one of few: `python -m bench.scenarios.volume`, on either engine.

It reads a `Volume` from stdin and prints `VolumeFigures`, both as JSON. The generated rows are settled misses of many
accounts, as a node would have written them. At the end, the ledger's verification checks them against accounts and
usage. The two stores are measured alternately, so that a slow minute of the machine affects both. On PostgreSQL, the
rows are spread over twelve months from the current one, each in its own partition, and the CPU of the server's
processes is added.
"""

import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from statistics import median

import msgspec
import trio

from bench.scenarios.filling import (
    DAY_MS,
    HOUR_MS,
    MONTH_DAYS,
    POSTGRESQL,
    SQLITE,
    Misses,
    make_store,
    open_databases,
    this_month_ms,
)
from bench.scenarios.growth import Load, load_on, size_of_log
from billing.ledger.transactions import Ledger
from billing.ledger.verification import prove
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from storage.sqlite.transaction import SqliteTx
from storage.store import Store, T, Tx

BATCH = 64
READS = 200
PAGE = 50
LOADED = 1_000
"""The number of accounts that are charged during the measurement."""
BEGAN_MS = 1_700_000_000_000
ROWS_AN_HOUR = 1_000_000
TRAFFIC_PAUSE_S = 0.05
MONTHS = 12
SERVING = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sluice-%'"


@dataclass(frozen=True, slots=True)
class Volume:
    """The folder of the databases, the generated rows, their accounts, and how often both stores are measured."""

    folder: str
    rows: int = 10_000_000
    accounts: int = 10_000
    engine: str = SQLITE
    turns: int = 5
    batches: int = 100


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The CPU of one store's threads and processes in microseconds: the median of several turns."""

    charge_and_close_us: float
    lone_charge_and_close_us: float
    balance_us: float
    page_us: float
    old_page_us: float


@dataclass(frozen=True, slots=True)
class VolumeFigures:
    """The figures of a small store, of one with all rows, and of the latter's verification during traffic."""

    rows: int
    small: StoreFigures
    full: StoreFigures
    filled_per_s: float
    bytes_each: float
    verified_per_s: float
    """The rows verified per second of the verification's own CPU."""
    verify_s: float
    verify_grew_bytes: int
    """The growth of the process's peak resident memory during the verification."""
    beside: int
    """The number of charges taken and settled during the verification."""
    log_bytes: int
    """The maximum size of SQLite's log during the verification."""


class StoreServer:
    """The processes of a store's server, if it has one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def cpu_s(self) -> float:
        """Return the CPU seconds of the running processes that serve this store."""
        if self._store.partitions is None:
            return 0.0
        pids = [row[0] for row in await self._store.read(lambda tx: tx.all(SERVING))]
        return sum(map(_cpu_s, pids))


class Ground:
    """One open store, its accounts, and the load on some of them."""

    def __init__(self, store: Store, owners: list[str], load: Load, each: int) -> None:
        """`owners` are the accounts, which have `each` rows each."""
        self.store = store
        self.load = load
        self.server = StoreServer(store)
        self._owners = owners
        self._ledger = Ledger(store, now=time.time)
        self._each = each

    async def turn(self, batches: int) -> StoreFigures:
        """Make some charges and reads."""
        many = await self._cpu(BATCH, batches) / BATCH
        lone = await self._cpu(1, batches)
        page, old_page = await self._page(None), await self._page(self._each // 2 + 2)
        return StoreFigures(many, lone, await self._per_read(self._ledger.report), page, old_page)

    async def settle(self) -> None:
        """Settle the open charges."""
        await self.store.write(partial(self.load.step, count=0))

    async def _cpu(self, count: int, batches: int) -> float:
        """Return microseconds per batch, which takes `count` charges and settles the ones of the previous batch.

        The first batches are not counted, because they have fewer charges to settle.
        """
        step = partial(self.load.step, count=count)
        for _ in range(1 + batches // 10):
            began = await self.store.write(step)
        server = await self.server.cpu_s()
        for _ in range(batches):
            ended = await self.store.write(step)
        cpu_s = ended - began + await self.server.cpu_s() - server
        await self.settle()
        return cpu_s / batches * 1e6

    async def _page(self, before: int | None) -> float:
        """Return the CPU microseconds per read of a page of transactions, which starts before a position."""
        return await self._per_read(partial(self._ledger.transactions, limit=PAGE, before=before))

    async def _per_read(self, read: Callable[[str], Awaitable[object]]) -> float:
        """Return the process's CPU microseconds per read of an account. Many accounts are read."""
        began = time.process_time() + await self.server.cpu_s()
        for number in range(READS):
            await read(self._owners[number * 37 % len(self._owners)])
        return (time.process_time() + await self.server.cpu_s() - began) / READS * 1e6


@dataclass(slots=True)
class TimedProof:
    """The verification of a ledger, which runs in the store's threads."""

    is_done: bool = False
    took_s: float = 0.0
    cpu_s: float = 0.0
    grew_bytes: int = 0

    async def run(self, ground: Ground) -> None:
        """Verify the ledger."""
        _reset_peak()
        before, began = _peak_bytes(), time.perf_counter()
        assert await prove(partial(self._read, ground.store)) == []
        self.took_s, self.grew_bytes = time.perf_counter() - began, _peak_bytes() - before
        self.is_done = True

    async def _read(self, store: Store, fn: Callable[[Tx], T]) -> T:
        """Read like the store, and count the CPU of the thread and of the process that serves it."""

        def counted(tx: Tx) -> T:
            began, serving = time.thread_time(), _serving_s(tx)
            result = fn(tx)
            self.cpu_s += time.thread_time() - began + _serving_s(tx) - serving
            return result

        return await store.read(counted)


async def measure(volume: Volume) -> VolumeFigures:
    """Fill a small store and one with all rows, and measure both."""
    each = volume.rows // volume.accounts
    few = min(2 * PAGE, each)
    began_ms, span_ms = BEGAN_MS, HOUR_MS * volume.rows // ROWS_AN_HOUR
    if volume.engine == POSTGRESQL:
        began_ms, span_ms = this_month_ms(), MONTHS * MONTH_DAYS * DAY_MS
    async with open_databases(volume.engine, Path(volume.folder)) as new_database:
        small_url, url = new_database("small"), new_database("whole")
        await make_store(small_url, Misses(few, volume.accounts, began_ms, HOUR_MS))
        filled_s = await make_store(url, Misses(each, volume.accounts, began_ms, span_ms))
        async with _open_ground(small_url, few) as small, _open_ground(url, each) as full:
            turns = [(await small.turn(volume.batches), await full.turn(volume.batches)) for _ in range(volume.turns)]
            used = (await full.store.measure()).tables
            proof, beside, log_bytes = await _prove_during_traffic(full, url)
            return VolumeFigures(
                rows=each * volume.accounts,
                small=_median([one for one, _ in turns]),
                full=_median([one for _, one in turns]),
                filled_per_s=each * volume.accounts / filled_s,
                bytes_each=sum(one.bytes + one.index_bytes for one in used if one.name == "journal") / volume.rows,
                verified_per_s=each * volume.accounts / proof.cpu_s,
                verify_s=proof.took_s,
                verify_grew_bytes=proof.grew_bytes,
                beside=beside,
                log_bytes=log_bytes,
            )


async def _prove_during_traffic(ground: Ground, url: str) -> tuple[TimedProof, int, int]:
    """Return the verification, the number of charges taken and settled meanwhile, and the maximum size of the log."""
    proof, beside, log_bytes = TimedProof(), 0, 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(proof.run, ground)
        while not proof.is_done:
            await ground.store.write(partial(ground.load.step, count=BATCH))
            beside += BATCH
            log_bytes = max(log_bytes, size_of_log(url))
            await trio.sleep(TRAFFIC_PAUSE_S)
    await ground.settle()
    return proof, beside, log_bytes


@asynccontextmanager
async def _open_ground(url: str, each: int) -> AsyncIterator[Ground]:
    async with open_store(url, MIGRATIONS) as store:
        owners = [row[0] for row in await store.read(lambda tx: tx.all("SELECT id FROM accounts ORDER BY number"))]
        yield Ground(store, owners, await load_on(store, owners[:: max(1, len(owners) // LOADED)]), each)


def _median(turns: Sequence[StoreFigures]) -> StoreFigures:
    """Return the median of each figure."""
    return StoreFigures(*(median(getattr(turn, one.name) for turn in turns) for one in fields(StoreFigures)))


def _reset_peak() -> None:
    """Reset the peak of this process's resident memory."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    """Return the peak of this process's resident memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _serving_s(tx: Tx) -> float:
    """Return the CPU of the server process of this transaction; 0 for SQLite, which has no such process."""
    if isinstance(tx, SqliteTx):
        return 0.0
    ((pid,),) = tx.all("SELECT pg_backend_pid()")
    return _cpu_s(pid)


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far. Clock ticks would not be precise enough."""
    return float(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


if __name__ == "__main__":
    found = trio.run(measure, msgspec.json.decode(sys.stdin.buffer.read(), type=Volume))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
