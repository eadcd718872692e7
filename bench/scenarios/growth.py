"""Measures the bytes that settled misses add to a store: `python -m bench.scenarios.growth`.

It reads a `GrowthSetting` from stdin and prints `GrowthFigures`, both as JSON. Sluice's own batches take and settle the
charges of many accounts, as in the writer of a busy node. Then the ledger is verified.
"""

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import trio

from billing.accounts.accounts import Accounts
from billing.accounts.balances import Balances
from billing.charges.batch_rows import Charge, ChargeRequest, Request
from billing.charges.charges import Charges
from billing.keys.keys import Keys
from billing.keys.sealing import Cipher
from billing.ledger.verification import verify
from gateway.config.ids import id_maker
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from storage.store import Store, Tx

BATCH = 64
CREDITS = 1_000_000_000
ENDPOINTS = 60
JOURNAL_BYTES = """
SELECT SUM(pg_total_relation_size(relid)) FROM (
    SELECT relid FROM pg_partition_tree('journal') UNION ALL SELECT relid FROM pg_partition_tree('usage')
) AS kept
"""
PAGES = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"


@dataclass(frozen=True, slots=True)
class GrowthSetting:
    """The store's address, the number of charges to settle, and the number of their accounts."""

    url: str
    charges: int = 1_000_000
    accounts: int = 1_000


@dataclass(frozen=True, slots=True)
class GrowthFigures:
    """The bytes and the time of a settled miss. The log is SQLite's write-ahead log."""

    charges: int
    bytes_each: float
    log_bytes: int
    writer_us: float
    """The CPU time of the writer's thread, including commits, to take and settle a charge in batches."""
    verified_per_s: float


class Load:
    """Batches of charges, each settled in the next one. Runs on the writer's thread."""

    def __init__(self, charges: Charges, owners: list[tuple[str, str]]) -> None:
        """`owners` are the accounts, each with a key."""
        self._charges = charges
        self._owners = owners
        self._rng = Random(1)
        self._make_id = id_maker(time.time, self._rng)
        self._open: list[Charge] = []

    def step(self, tx: Tx, count: int) -> float:
        """Settle the charges of the last step, take `count` new ones, and return the thread's CPU seconds so far."""
        requests: list[Request] = [*self._open, *itertools.islice(self._requests(), count)]
        outcomes = self._charges.judge(tx, requests)[len(self._open) :]
        self._open = [one for one in outcomes if isinstance(one, Charge)]
        assert len(self._open) == count
        return time.thread_time()

    def _requests(self) -> Iterator[ChargeRequest]:
        while True:
            account, key = self._rng.choice(self._owners)
            path = f"/v1/github/{self._rng.randrange(ENDPOINTS)}"
            yield ChargeRequest(self._make_id("req_"), account, key, 1, "github", path)


async def measure(growth: GrowthSetting) -> GrowthFigures:
    """Fill a new store, measure it and verify it."""
    async with open_store(growth.url, MIGRATIONS) as store:
        load = await load_of(store, growth.accounts)
        before, log_bytes, began_s = await _bytes(store, growth.url), 0, 0.0
        for first in range(0, growth.charges + 1, BATCH):
            cpu_s = await store.write(partial(load.step, count=min(BATCH, growth.charges - first)))
            began_s = began_s or cpu_s
            log_bytes = max(log_bytes, size_of_log(growth.url))
        cpu_s = await store.write(partial(load.step, count=0))
        left = await _bytes(store, growth.url) - before
        verify_s = time.perf_counter()
        assert await store.read(verify) == []
        verify_s = time.perf_counter() - verify_s
    count = growth.charges
    return GrowthFigures(count, left / count, log_bytes, (cpu_s - began_s) / count * 1e6, count / verify_s)


async def load_of(store: Store, accounts: int) -> Load:
    """Return a load on new accounts, each with a key."""
    made = Accounts(store, Balances(store), now=time.time, make_id=id_maker(time.time, Random(0)))
    return await load_on(store, [(await made.create("Bench", credits=CREDITS)).id for _ in range(accounts)])


async def load_on(store: Store, account_ids: Sequence[str]) -> Load:
    """Return a load on existing accounts, with a new key for each account."""
    keys = Keys(store, Cipher(b"k" * 32), now=time.time, make_id=id_maker(time.time, Random(2)))
    owners = [(account_id, (await keys.create(account_id)).id) for account_id in account_ids]
    return Load(Charges(store, Balances(store), now=time.time, node="bench"), owners)


async def _bytes(store: Store, url: str) -> int:
    rows = await store.read(lambda tx: tx.all(PAGES if url.startswith("sqlite") else JOURNAL_BYTES))
    return int(rows[0][0])


def size_of_log(url: str) -> int:
    """Return the size of SQLite's log in bytes; 0 if there is none."""
    with suppress(OSError):
        return Path(url.removeprefix("sqlite:///") + "-wal").stat().st_size
    return 0


if __name__ == "__main__":
    found = trio.run(measure, msgspec.json.decode(sys.stdin.buffer.read(), type=GrowthSetting))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
