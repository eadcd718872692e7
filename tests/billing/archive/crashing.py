"""Ends the process that archives at each of its steps, on either engine, and verifies the resulting state.

A step is a read or a write of the store, or a change of its partitions. The process ends before the step, within its
transaction, or after its commit. `python -m tests.billing.archive.crashing` does so at every step of more days, and
then kills processes with SIGKILL, one after the other (`docs/testing.md`).
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar, cast

import click
import trio

from billing.archive import archiver
from billing.archive.archiver import Archiver
from billing.archive.archives import read_archives
from billing.archive.days import DAY_S
from billing.archive.files import members_of, read_manifest
from billing.archive.months import make_months
from billing.archive.verification import next_day, verify_chain, verify_day
from billing.ledger.rules import Violation
from billing.ledger.verification import verify
from billing.migrations import MIGRATIONS
from storage.opening import open_store
from storage.postgres.link import open_link
from storage.store import Store, Tx
from tests.billing.archive.past import PastDesk, last_days_of_a_month, play
from tests.fakes.inline_store import InlineSqlite, InlineStore
from tests.servers.postgres import open_postgres

T = TypeVar("T")
Copies: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens a copy of the same store each time."""
Copying: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Copies, float]]]

DETAIL_DAYS = 10
TEMPLATE = "template_of_archive"
COPY = "copy_of_archive"


class Crash(Exception):
    """Raised to end the process."""


class CrashAt:
    """Ends the process, by calling `end`, after the given number of points."""

    def __init__(self, point: int, end: Callable[[], None]) -> None:
        self.left = point
        self._end = end

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._end()


class CrashingStore:
    """A store whose process ends at a point: before a call, inside its transaction, or after its commit."""

    def __init__(self, store: Store, crash: Callable[[], None]) -> None:
        self._store = store
        self._crash = crash
        self.partitions = None if store.partitions is None else self

    async def write(self, fn: Callable[[Tx], T]) -> T:
        return await self._around(self._store.write, fn)

    async def read(self, fn: Callable[[Tx], T]) -> T:
        return await self._around(self._store.read, fn)

    async def change(self, fn: Callable[[Any], T]) -> T:
        assert self._store.partitions is not None
        return await self._around(self._store.partitions.change, fn)

    async def flush_log(self) -> None:
        self._crash()
        await self._store.flush_log()
        self._crash()

    async def _around(self, call: Callable[[Callable[[Any], T]], Awaitable[T]], fn: Callable[[Any], T]) -> T:
        def within(tx: Tx) -> T:
            result = fn(tx)
            self._crash()
            return result

        self._crash()
        result = await call(within)
        self._crash()
        return result


def crash() -> None:
    raise Crash


def ids(tx: Tx) -> list[str]:
    """Return the ids of the journal's rows."""
    return [row[0].hex() for row in tx.all("SELECT id FROM journal ORDER BY id")]


def left_and_archived(tx: Tx, folder: Path) -> list[str]:
    """Return the ids of all rows: in the journal, and in the archive if they have left the journal."""
    found = ids(tx)
    for archive in read_archives(tx):
        members = members_of(folder, archive.file.name) if archive.left else []
        found += [row.id for member in members if member.begin < archive.left_to for row in member.rows]
    return sorted(found)


def archived(folder: Path) -> list[str]:
    """Return the ids of all rows of the archive."""
    files = read_manifest(folder)
    return sorted(row.id for file in files for member in members_of(folder, file.name) for row in member.rows)


async def faults(store: Store, folder: Path) -> list[Violation]:
    """Return all violations that the proofs of the ledger and of the archive find."""
    found = await store.read(verify) + await store.read(partial(verify_chain, folder=folder))
    day: int | None = -1
    while (day := await store.read(partial(next_day, after=day))) is not None:
        found += await store.read(partial(verify_day, folder=folder, day=day))
    return found


async def fill(store: Store, *, days: int, calls: int) -> float:
    """Add days with rows, on PostgreSQL around the end of a month. Return a time at which all must be archived."""
    desk = PastDesk(store)
    if store.partitions is not None:
        desk.time = last_days_of_a_month(days // 2)
        await make_months(store, desk.time)
    await play(desk, days=days, calls=calls)
    return desk.time + 45 * DAY_S


@asynccontextmanager
async def sqlite_copies(*, days: int, calls: int) -> AsyncIterator[tuple[Copies, float]]:
    """Return copies of a filled store on SQLite, and a time at which all of it must be archived."""
    filled = InlineStore([MIGRATIONS])
    now = await fill(filled, days=days, calls=calls)
    image = filled.connection.serialize()
    filled.close()

    @asynccontextmanager
    async def copy() -> AsyncIterator[Store]:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.deserialize(image)
        store = InlineSqlite(connection)
        yield store
        store.close()

    yield copy, now


@asynccontextmanager
async def postgres_copies(url: str, *, days: int, calls: int) -> AsyncIterator[tuple[Copies, float]]:
    """Like `sqlite_copies`, for databases of the server at `url`."""
    define(url, f"DROP DATABASE IF EXISTS {TEMPLATE}", f"CREATE DATABASE {TEMPLATE}")
    async with open_store(database(url, TEMPLATE), [MIGRATIONS]) as store:
        now = await fill(store, days=days, calls=calls)

    @asynccontextmanager
    async def copy() -> AsyncIterator[Store]:
        define(
            url, "DROP DATABASE IF EXISTS of_archive WITH (FORCE)", f"CREATE DATABASE of_archive TEMPLATE {TEMPLATE}"
        )
        async with open_store(database(url, "of_archive"), [MIGRATIONS]) as store:
            yield store

    yield copy, now
    define(url, "DROP DATABASE IF EXISTS of_archive WITH (FORCE)", f"DROP DATABASE {TEMPLATE} WITH (FORCE)")


def database(url: str, name: str) -> str:
    """Return the address of another database of the same server."""
    return f"{url.rpartition('/')[0]}/{name}"


def define(url: str, *statements: str) -> None:
    """Run statements that define databases."""
    link = open_link(url, name="tests", statement_ms=60_000)
    try:
        for statement in statements:
            link.queue(statement)
            link.fetch()
    finally:
        link.close()


async def end_at_each_point(copies: Copies, now: float, *, every: int) -> int:
    """End an archiver at each of these points, verify the state, and let another continue. Return the last point."""
    point, ended = 0, True
    while ended:
        point += every
        with TemporaryDirectory() as name:
            folder = Path(name)
            async with copies() as store:
                before = await store.read(ids)
                crashing = cast("Store", CrashingStore(store, CrashAt(point, crash)))
                ended = False
                try:
                    await Archiver(crashing, folder, detail_days=DETAIL_DAYS).run(now)
                except Crash:
                    ended = True
                assert await store.read(verify) == []
                assert await store.read(partial(left_and_archived, folder=folder)) == before
                assert (await Archiver(store, folder, detail_days=DETAIL_DAYS).run(now)).is_done
                assert await store.read(ids) == []
                assert archived(folder) == before
                assert await faults(store, folder) == []
    return point


RUN = """
import os, signal, sys, trio
from pathlib import Path
from billing.archive import archiver
from billing.migrations import MIGRATIONS
from storage.opening import open_store
from tests.billing.archive.crashing import CrashAt, CrashingStore
archiver.ROWS_A_MEMBER = 7
async def main():
    url, folder, now, point = sys.argv[1:]
    async with open_store(url, [MIGRATIONS]) as store:
        store = CrashingStore(store, CrashAt(int(point), lambda: os.kill(os.getpid(), signal.SIGKILL)))
        await archiver.Archiver(store, Path(folder), detail_days=10).run(float(now))
trio.run(main)
"""


async def kill_one_after_another(url: str, folder: Path, points: Sequence[int], *, days: int, calls: int) -> int:
    """Kill archiving processes, each some points after its start. Verify the state each time, and let one finish.

    At the end a fault is planted in each file in turn, and must be found. Return how many processes were killed.
    """
    async with open_store(url, [MIGRATIONS]) as store:
        now = await fill(store, days=days, calls=calls)
        before = await store.read(ids)
    kills = 0
    for point in points:
        command = [sys.executable, "-c", RUN, url, str(folder), str(now), str(point)]
        done = await trio.run_process(command, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        kills += 1
        async with open_store(url, [MIGRATIONS]) as store:
            assert await store.read(verify) == []
            assert await store.read(partial(left_and_archived, folder=folder)) == before
    async with open_store(url, [MIGRATIONS]) as store:
        assert (await Archiver(store, folder, detail_days=DETAIL_DAYS).run(now)).is_done
        assert await store.read(ids) == []
        assert archived(folder) == before
        assert await faults(store, folder) == []
        for file in read_manifest(folder):
            await trio.to_thread.run_sync(flip, folder / file.name)
            assert await faults(store, folder)
            await trio.to_thread.run_sync(flip, folder / file.name)
        assert await faults(store, folder) == []
    return kills


def flip(path: Path) -> None:
    """Flip one bit in the middle of a file, or flip it back."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@click.command()
@click.option("--store", type=click.Choice(["sqlite", "postgresql"]), default="sqlite")
@click.option("--days", type=click.IntRange(2, 28), default=6)
@click.option("--calls", type=click.IntRange(1, 1_000), default=20, help="Charges per day of each of two accounts.")
@click.option("--kills", type=click.IntRange(1, 1_000), default=100)
@click.option("--seed", type=int, default=1)
def main(store: str, days: int, calls: int, kills: int, seed: int) -> None:
    """End an archiver at every step, then kill one process after another. Fail if rows are lost or duplicated."""
    archiver.ROWS_A_MEMBER, archiver.PAUSE_S, archiver.REST_RATIO = 7, 0.0, 0.0
    rng, size = Random(seed), {"days": days, "calls": calls}

    async def run(copies_of: Copying, fresh: Callable[[Path], str]) -> None:
        async with copies_of(**size) as (copies, now):
            click.echo(f"ended at {await end_at_each_point(copies, now, every=1)} points")
        killed = 0
        while killed < kills:
            points = [rng.randint(1, 40) for _ in range(kills - killed)]
            with TemporaryDirectory() as name:
                killed += await kill_one_after_another(fresh(Path(name)), Path(name) / "archive", points, **size)
        click.echo(f"killed {killed} processes")

    if store == "sqlite":
        trio.run(run, sqlite_copies, lambda folder: f"sqlite:///{folder}/store.db")
    else:
        with open_postgres() as server:
            trio.run(run, partial(postgres_copies, server.fresh()), lambda _folder: server.fresh())


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.getcwd())
    main()
