"""Measures the CPU of a miss on the store's thread: `python -m bench.writer`.

It uses a real file, whose commits wait for the disk. A miss is taken in one batch and settled in the next, as on a busy
node, so each batch takes as many charges as it settles. The mark applies to batches of twenty.
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
"""The maximum CPU microseconds of the store's thread per miss, in batches of twenty."""
WARMUP: Final = 100
"""The number of warm-up batches, after which all statements are prepared."""
TURNS: Final = 5
TURN_MISSES: Final = 10_000
APART_S: Final = 0.02
"""The seconds between two batches, as their request ids show."""


@dataclass(frozen=True, slots=True)
class BatchKind:
    """The number of misses in each batch, and the number of their accounts."""

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
    """Batches of misses, which run as on the store's thread."""

    def __init__(self, engine: SqliteEngine, charges: Charges, owners: Sequence[tuple[str, str]], misses: int) -> None:
        """`owners` are the accounts, each with a key, which are charged in rotation."""
        self._engine = engine
        self._charges = charges
        self._owners = owners
        self._misses = misses
        self._at = time.time()
        self._make_id = id_maker(lambda: self._at, Random(1))
        self._ready: list[list[Job]] = []
        self._open: list[Charge] = []

    def prepare(self, batches: int) -> None:
        """Prepare the calls of this many batches, which is the event loop's part of the work."""
        self._ready = [[*self._settlements(), *self._takings()] for _ in range(batches)]
        self._ready.reverse()
        gc.collect()
        gc.freeze()

    def step(self) -> None:
        """Run one prepared batch."""
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
        """Return CPU microseconds of this thread per miss."""
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
    """Open batches on a new file in `folder`, after a warm-up."""
    file = folder / f"{batches.misses}-of-{batches.accounts}.db"
    owners = trio.run(_make_owners, f"sqlite:///{file}", batches.accounts)
    with own(file) as ownership, closing(connect(file)) as connection, closing(connect(file)) as watching:
        name_life(connection)
        engine = SqliteEngine(connection, FileWatch(file, ownership, watching, lambda _fault: None))
        store = cast("Store", None)  # the batches run here, without the store
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
    """Print one line for each kind of batch: the best of its turns."""
    with TemporaryDirectory(prefix="sluice-bench-writer-") as folder:
        for name, batches in KINDS.items():
            with open_load(Path(folder), batches) as load:
                best = min(load.measure_us() for _ in range(TURNS))
            verdict = "" if name != TWENTY else f", at most {WRITER_US:g}: {'met' if best <= WRITER_US else 'not met'}"
            print(f"{name}: {best:.1f} us of CPU per miss{verdict}", flush=True)


if __name__ == "__main__":
    main()
