"""Measures a node's first start on an old ledger: `python -m bench.migration`.

Exits with 1 if the start takes too long. The store is like the store of a version before the journal, with three
thousand accounts and two entries per call.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from billing import migrations as billing
from billing.ledger.verification import prove
from gateway.node.stores import MIGRATIONS
from storage.migrations import MigrationSet
from storage.opening import open_store
from storage.store import Tx, Value

ENTRIES: Final = 1_000_000
AT_MOST_S: Final = 60.0
ACCOUNTS: Final = 3_000
ADDED_AT_ONCE: Final = 10_000
BEGAN_AT: Final = 1_700_000_000.0
OLD: Final = MigrationSet(billing.MIGRATIONS.name, billing.MIGRATIONS.migrations[:4])
"""The migrations that created the ledger of entries."""

ADD_ACCOUNTS: Final = """
INSERT INTO accounts (id, name, plan, unlimited, balance, held, created_at, version, pack) VALUES {rows}
"""
ADD_KEYS: Final = """
INSERT INTO keys (id, account_id, name, hash, sealed, last4, credit_limit, used, created_at) VALUES {rows}
"""
ADD_ENTRIES: Final = """
INSERT INTO ledger_entries (account_id, kind, debit, credit, amount, balance_after, request_id, key_id, platform,
                            endpoint, description, created_at) VALUES {rows}
"""


@dataclass(frozen=True, slots=True)
class Migrated:
    """The duration of the start in seconds: elapsed time, and CPU time of the process."""

    took_s: float
    cpu_s: float


async def measure(folder: Path, entries: int) -> Migrated:
    """Create an old store with about this many entries in `folder`, start on it, and verify the result."""
    url, accounts = f"sqlite:///{folder}/sluice.db", min(ACCOUNTS, max(1, entries // 10))
    each = (entries // accounts - 1) // 2
    async with open_store(url, [OLD]) as store:
        await store.write(partial(_add_owners, accounts=accounts, each=each))
        rows = _entries(accounts, each)
        while some := list(islice(rows, ADDED_AT_ONCE)):
            await store.write(partial(_add_entries, rows=some))
    began, began_cpu = time.perf_counter(), time.process_time()
    async with open_store(url, MIGRATIONS) as store:
        migrated = Migrated(time.perf_counter() - began, time.process_time() - began_cpu)
        assert await prove(store.read) == []
    return migrated


def _add_owners(tx: Tx, accounts: int, each: int) -> None:
    numbers = range(accounts)
    tx.run_many(ADD_ACCOUNTS, [(f"acc_{n}", "A", "free", 0, 0, 0, BEGAN_AT + n, 7, each) for n in numbers])
    keys = [(f"key_{n}", f"acc_{n}", "", f"hash {n}", "sealed", "last", None, each, BEGAN_AT + n) for n in numbers]
    tx.run_many(ADD_KEYS, keys)


def _add_entries(tx: Tx, rows: Sequence[Sequence[Value]]) -> None:
    tx.run_many(ADD_ENTRIES, rows)


def _entries(accounts: int, each: int) -> Iterator[tuple[Value, ...]]:
    """Yield the entries of a welcome of `each` credits for each account, and then of calls that cost one credit.

    The calls belong to the accounts in rotation.
    """
    for number in range(accounts):
        moved = (f"acc_{number}", "bonus", "issued", "available", each, each)
        yield (*moved, None, None, None, None, "Welcome credits", BEGAN_AT + number)
    for nth in range(accounts * each):
        turn, number = divmod(nth, accounts)
        at = BEGAN_AT + accounts + nth
        call = (f"req_{int(at * 1000):012x}{nth:020x}", f"key_{number}", "github", "profile")
        of, left = f"acc_{number}", each - turn - 1
        yield (of, "deduction", "available", "held", 1, left, *call, "profile", at)
        yield (of, "settlement", "held", "spent", 1, left, *call, "Settlement", at + 0.25)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. Exit 1 if the start takes too long."""
    parser = argparse.ArgumentParser(prog="python -m bench.migration", description=__doc__)
    parser.add_argument("--entries", type=int, default=ENTRIES, help=f"entries of the old ledger (default {ENTRIES:,})")
    given = parser.parse_args(arguments)
    if given.entries < 10:
        parser.error("--entries must be 10 or more")
    with TemporaryDirectory(prefix="sluice-bench-migration-") as folder:
        migrated = trio.run(measure, Path(folder), given.entries)
    is_met = migrated.took_s <= AT_MOST_S
    verdict = f"at most {AT_MOST_S:g}: {'met' if is_met else 'not met'}"
    print(f"{given.entries:,} entries: {migrated.took_s:.1f} s ({migrated.cpu_s:.1f} s of CPU), {verdict}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
