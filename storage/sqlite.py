"""The store on one SQLite file: a writer that groups commits, readers on worker threads, one owner."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import cast

import trio

from storage.batching import Writer, open_writer
from storage.errors import StoreInUse, StoreUnavailable, StoreUnusable
from storage.migrations import MigrationSet
from storage.owner import Ownership, own
from storage.sqlite_files import check, damaged, make_file, make_folder, migrate
from storage.sqlite_transaction import SqliteEngine, SqliteTx, connect, translate
from storage.store import BatchHandler, Req, Res, StoreStatistics, T, Tx
from storage.transactions import Job, run_batch

READERS = 4
OPEN_TRIES = 10  # somebody who only looks whether the store is in use holds the lock for a moment
OPEN_RETRY_S = 0.02


class SqliteStore:
    """An open file (see `storage.store.Store`)."""

    def __init__(self, writer: Writer, readers: Sequence[sqlite3.Connection], ownership: Ownership) -> None:
        """Everything given is owned by `open_sqlite`."""
        self._writer = writer
        self._idle = list(readers)
        self._limiter = trio.CapacityLimiter(len(readers))
        self._ownership = ownership

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a savepoint of the next transaction."""
        return cast("T", await self._writer.submit(Job(fn=fn)))

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a worker thread on one snapshot."""
        return await trio.to_thread.run_sync(self._read, fn, limiter=self._limiter)

    def submit(self, handler: BatchHandler[Req, Res], request: Req) -> Awaitable[Res]:
        """Hand `request` to `handler` together with all that waits for it."""
        return self._writer.submit(Job(handler, request))  # type: ignore[arg-type, return-value]  # the queue mixes them

    def submit_nowait(
        self, handler: BatchHandler[Req, Res], request: Req, on_failure: Callable[[], None] | None = None
    ) -> None:
        """As `submit`, and nobody waits."""
        self._writer.submit_nowait(Job(handler, request, on_failure))  # type: ignore[arg-type]  # as above

    async def ping(self) -> None:
        """Prove that the store can be written, by writing."""
        await self._writer.submit(Job(fn=_touch, abandonable=True))

    def announce(self, note: Mapping[str, str]) -> None:
        """Leave a note for other processes."""
        self._ownership.announce(note)

    def statistics(self) -> StoreStatistics:
        """Counters for the operator."""
        return self._writer.statistics()

    def _read(self, fn: Callable[[Tx], T]) -> T:
        connection = self._idle.pop()
        try:
            connection.execute("BEGIN")
            return fn(SqliteTx(connection.cursor()))
        except sqlite3.Error as exc:
            raise translate(exc) from exc
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._idle.append(connection)


@asynccontextmanager
async def open_sqlite(path: Path, migrations: Sequence[MigrationSet]) -> AsyncIterator[SqliteStore]:
    """Own, check and migrate the file at `path`, which is made when it is not there, and serve it.

    Raises:
        StoreInUse, StoreCorrupt, StoreTooNew, StoreUnusable: with words for the operator.
    """
    make_folder(path)
    with ExitStack() as stack:
        ownership = await _own_soon(path, stack)
        writing, readers = await trio.to_thread.run_sync(_open_connections, path, migrations, stack)
        async with open_writer(partial(run_batch, SqliteEngine(writing))) as writer:
            yield SqliteStore(writer, readers, ownership)


async def _own_soon(path: Path, stack: ExitStack) -> Ownership:
    await trio.lowlevel.checkpoint()
    for _ in range(OPEN_TRIES - 1):
        try:
            return stack.enter_context(own(path))
        except StoreInUse:
            await trio.sleep(OPEN_RETRY_S)
    return stack.enter_context(own(path))


def _open_connections(
    path: Path, migrations: Sequence[MigrationSet], stack: ExitStack
) -> tuple[sqlite3.Connection, list[sqlite3.Connection]]:
    """The checked and migrated file's writing connection and its readers; the writer's, closed last, tidies the log."""
    make_file(path)
    try:
        writing = stack.enter_context(closing(connect(path)))
        check(writing, path)
        migrate(writing, migrations)
        return writing, [stack.enter_context(closing(connect(path, query_only=True))) for _ in range(READERS)]
    except sqlite3.DatabaseError as exc:
        if getattr(exc, "sqlite_errorcode", None) in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
            raise damaged(path, str(exc)) from exc
        if isinstance(refusal := translate(exc), StoreUnavailable):
            raise StoreUnusable(f"cannot open {path}: {refusal}") from exc
        raise  # a bug in a migration


def _touch(tx: Tx) -> None:
    """A write that changes nothing anyone reads."""
    tx.run("PRAGMA user_version = 1")
