"""The CPU that a miss takes of the store's thread: `python -m bench.writer`.

It is on a real file, whose commits wait for the disk. A miss is taken in one batch and settled in the next, as a busy
node has them; so each batch takes as many charges as it settles. The mark is of batches of twenty.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, cast

import trio

from bench.scenarios.growth import CREDITS
from billing.accounts.accounts import Accounts
from billing.accounts.balances import Balances
from billing.charges.batch_rows import Charge, ChargeRequest
from billing.charges.charges import Charges
from billing.keys.keys import Keys
from billing.keys.sealing import Cipher
from gateway.config.ids import id_maker
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from storage.sqlite.engine import SqliteEngine
from storage.sqlite.files import name_life
from storage.sqlite.owner import own
from storage.sqlite.transaction import connect
from storage.sqlite.watch import FileWatch
from storage.store import Store
from storage.transactions import Job, run_batch

WRITER_US: Final = 15.0
"""CPU microseconds of the store's thread for each miss of batches of twenty, at most."""
WARMUP: Final = 100
"""Batches after which all statements are prepared."""
TURNS: Final = 5
TURN_MISSES: Final = 10_000
APART_S: Final = 0.02
"""Between the requests of two batches, by their ids."""


@dataclass(frozen=True, slots=True)
class BatchKind:
    """The misses of each batch, and the accounts that they are spread over."""

    misses: int
    accounts: int


TWENTY: Final = "20 of one account"
ALONE: Final = "alone"
KINDS: Final[Mapping[str, BatchKind]] = {
    TWENTY: BatchKind(20, 1),
    "20 of as many accounts": BatchKind(20, 20),
    ALONE: BatchKind(1, 1),
}


class WriterLoad:
    """Batches of misses, run as the store's thread runs them; changed by itself alone."""

    def __init__(self, engine: SqliteEngine, charges: Charges, owners: Sequence[tuple[str, str]], misses: int) -> None:
        """`owners` are accounts with a key of each, which take turns."""
        self._engine = engine
        self._charges = charges
        self._owners = owners
        self._misses = misses
        self._at = time.time()
        self._make_id = id_maker(lambda: self._at, Random(1))
        self._ready: list[list[Job]] = []
        self._open: list[Charge] = []

    def prepare(self, batches: int) -> None:
        """Make the calls of so many batches, as the loop does, whose share that is."""
        self._ready = [[*self._settlements(), *self._takings()] for _ in range(batches)]
        self._ready.reverse()
        gc.collect()
        gc.freeze()

    def step(self) -> None:
        """Run one batch that was prepared."""
        jobs = self._ready.pop()
        for job, charge in zip(jobs, self._open, strict=False):
            job.request = charge
        batch = jobs if self._open else jobs[self._misses :]
        callbacks = run_batch(self._engine, batch)
        assert callbacks is not None, "the disk has room"
        for callback in callbacks:
            callback()
        self._open = [job.result for job in batch[-self._misses :] if isinstance(job.result, Charge)]
        assert len(self._open) == self._misses

    def measure_us(self) -> float:
        """CPU microseconds of this thread for each miss."""
        batches = TURN_MISSES // self._misses
        self.prepare(batches)
        began = time.thread_time()
        for _ in range(batches):
            self.step()
        return (time.thread_time() - began) * 1e6 / batches / self._misses

    def _settlements(self) -> Iterator[Job]:
        for _ in range(self._misses):
            yield Job(self._charges.judge)  # type: ignore[arg-type]  # the queue of the store mixes handlers

    def _takings(self) -> Iterator[Job]:
        self._at += APART_S
        for number in range(self._misses):
            account, key = self._owners[number % len(self._owners)]
            request = ChargeRequest(self._make_id("req_"), account, key, 1, "github", "/v1/github/profile")
            yield Job(self._charges.judge, request)  # type: ignore[arg-type]  # as above


@contextmanager
def open_load(folder: Path, batches: BatchKind) -> Iterator[WriterLoad]:
    """Batches on a new file in `folder`, warmed up."""
    file = folder / f"{batches.misses}-of-{batches.accounts}.db"
    owners = trio.run(_make_owners, f"sqlite:///{file}", batches.accounts)
    with own(file) as ownership, closing(connect(file)) as connection, closing(connect(file)) as watching:
        name_life(connection)
        engine = SqliteEngine(connection, FileWatch(file, ownership, watching, lambda _fault: None))
        store = cast("Store", None)  # batches are run here, and nothing is asked of it
        charges = Charges(store, Balances(store), now=time.time, node="bench")
        load = WriterLoad(engine, charges, owners, batches.misses)
        load.prepare(WARMUP)
        for _ in range(WARMUP):
            load.step()
        yield load


async def _make_owners(url: str, accounts: int) -> list[tuple[str, str]]:
    async with open_store(url, MIGRATIONS) as store:
        made = Accounts(store, Balances(store), now=time.time, make_id=id_maker(time.time, Random(0)))
        ids = [(await made.create("Bench", credits=CREDITS)).id for _ in range(accounts)]
        keys = Keys(store, Cipher(b"k" * 32), now=time.time, make_id=id_maker(time.time, Random(2)))
        return [(account_id, (await keys.create(account_id)).id) for account_id in ids]


def main() -> None:
    """Print a line a kind of batch: the best of its turns, which the kinds take one after another."""
    with TemporaryDirectory(prefix="sluice-bench-writer-") as folder:
        for name, batches in KINDS.items():
            with open_load(Path(folder), batches) as load:
                best = min(load.measure_us() for _ in range(TURNS))
            verdict = "" if name != TWENTY else f", at most {WRITER_US:g}: {'met' if best <= WRITER_US else 'not met'}"
            print(f"{name}: {best:.1f} us of CPU a miss{verdict}", flush=True)


if __name__ == "__main__":
    main()
