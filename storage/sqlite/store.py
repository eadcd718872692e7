"""The store on an SQLite file, which one process owns. It commits in groups and reads on worker threads."""

import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import trio

from storage.batching import Writer, open_writer
from storage.errors import StoreInUse, StoreUnavailable, StoreUnusable
from storage.migrations import MigrationSet
from storage.sqlite.engine import SqliteEngine
from storage.sqlite.files import check, damaged, make_data_folder, migrate, name_life
from storage.sqlite.marks import mark_made, refuse_missing, refuse_mixed
from storage.sqlite.owner import Ownership, own
from storage.sqlite.sizes import measure
from storage.sqlite.transaction import BUSY_MS, SqliteTx, connect, translate
from storage.sqlite.watch import FileWatch
from storage.store import BatchHandler, DiskSpace, Req, Res, StoreSize, StoreStatistics, T, Tx
from storage.transactions import Callback, Job, run_batch

READERS = 4
OPEN_TRIES = 10  # another process that checks whether the store is in use holds the lock for a moment
OPEN_RETRY_S = 0.02
SCRUB_BUSY_MS = 50  # the longest time that a scrub makes the writer wait
WATCH_CLOSE_S = 10.0  # as CLOSE_S in storage.batching: an unresponsive disk must not keep the process alive for longer


class SqliteStore:
    """An open file (see `storage.store.Store`)."""

    partitions = None

    def __init__(
        self, writer: Writer, readers: Sequence[sqlite3.Connection], ownership: Ownership, watch: FileWatch
    ) -> None:
        """Use `open_sqlite`, which creates and closes the arguments."""
        self._writer = writer
        self._watch = watch
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
        """Pass `request` to `handler`, together with all other requests that wait for the same handler."""
        return self._writer.submit(Job(handler, request))  # type: ignore[arg-type, return-value]  # the queue mixes them

    def submit_nowait(
        self, handler: BatchHandler[Req, Res], request: Req, on_failure: Callable[[], None] | None = None
    ) -> None:
        """Like `submit`, without waiting for the result."""
        self._writer.submit_nowait(Job(handler, request, on_failure))  # type: ignore[arg-type]  # as above

    async def ping(self) -> None:
        """Verify that the store is writable, by writing to it."""
        await self._writer.submit(Job(fn=_touch, abandonable=True))

    def announce(self, note: Mapping[str, str]) -> None:
        """Write the note for other processes."""
        self._ownership.announce(note)

    def statistics(self) -> StoreStatistics:
        """Return counters for the operator."""
        return self._writer.statistics()

    async def measure(self) -> StoreSize:
        """Return the size of the file and its tables."""
        return await trio.to_thread.run_sync(self._measure, limiter=self._limiter)

    async def scrub(self, table: str) -> bool:  # noqa: ARG002 - one log for all tables
        """Write the log into the file and truncate the log, because only the log still contains overwritten rows."""
        return await trio.to_thread.run_sync(self._empty_log, limiter=self._limiter)

    async def flush_log(self) -> None:
        """Write as much of the log into the file as the readers allow. Meanwhile the writer continues."""
        await trio.to_thread.run_sync(self._flush_log, limiter=self._limiter)

    async def disk(self) -> DiskSpace:
        """Return the space of the disk that contains the file."""
        return await trio.to_thread.run_sync(self._disk, abandon_on_cancel=True)

    def _measure(self) -> StoreSize:
        """Measure the file. First write the log into it, because the tables are read from the file itself."""
        self._flush_log()
        return self._read(partial(measure, self._ownership.file))

    def _flush_log(self) -> None:
        """Write the log into the file. Do nothing if the file was removed or replaced."""
        self._watch.check()
        connection = self._idle.pop()
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as exc:
            raise translate(exc) from exc
        finally:
            self._idle.append(connection)

    def _empty_log(self) -> bool:
        """Truncate the log. Return False if a reader still uses the log."""
        self._watch.check()
        connection = self._idle.pop()
        try:
            connection.execute(f"PRAGMA busy_timeout = {SCRUB_BUSY_MS}")
            ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return not is_busy
        except sqlite3.Error as exc:
            raise translate(exc) from exc
        finally:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            self._idle.append(connection)

    def _disk(self) -> DiskSpace:
        try:
            found = os.fstatvfs(self._ownership.file)
        except OSError as exc:
            raise StoreUnavailable(f"the disk cannot be checked: {exc.strerror}") from exc
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def _read(self, fn: Callable[[Tx], T]) -> T:
        self._watch.check()
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
async def open_sqlite(
    path: Path, migrations: Sequence[MigrationSet], *, new_store: bool = False
) -> AsyncIterator[SqliteStore]:
    """Take ownership of the file at `path`, check it, migrate it, and yield a store on it.

    `path` must contain no links.

    The file is created if no store existed there. If the file of an earlier store is missing, a new one is created only
    with `new_store`.

    Raises:
        StoreInUse, StoreCorrupt, StoreTooNew, StoreUnusable: with a message for the operator.
    """
    make_data_folder(path.parent)
    refuse_missing(path, new_store=new_store)
    token = trio.lowlevel.current_trio_token()
    with ExitStack() as stack:
        ownership = await _own_with_retries(path, stack)
        refuse_mixed(path)
        connections = await trio.to_thread.run_sync(_open_connections, path, migrations, stack)
        mark_made(path)
        watch = _watch(path, ownership, connections.watching, lambda fault: _call_soon(token, refuse, fault))
        engine = SqliteEngine(connections.writing, watch, lambda doubts: _call_soon(token, _call_all, doubts))

        def refuse(fault: str | None) -> None:
            writer.refuse(fault)

        async with open_writer(partial(run_batch, engine)) as writer:
            # the watch must run until everything is committed, because it then checks the file once more
            stack.enter_context(_running(watch))
            yield SqliteStore(writer, connections.readers, ownership, watch)


def _watch(
    path: Path, ownership: Ownership, connection: sqlite3.Connection, publish: Callable[[str | None], None]
) -> FileWatch:
    try:
        return FileWatch(path, ownership, connection, publish)
    except OSError as exc:
        raise StoreUnusable(f"{path} was removed while it was being opened: {exc.strerror}") from exc


@contextmanager
def _running(watch: FileWatch) -> Iterator[None]:
    """Run the thread of `watch` while the block runs."""
    thread = threading.Thread(target=watch.run, name="storage-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watch.stop()
        thread.join(WATCH_CLOSE_S)


def _call_soon(token: trio.lowlevel.TrioToken, fn: Callable[..., None], *args: object) -> None:
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(fn, *args)


def _call_all(callbacks: Sequence[Callback]) -> None:
    for callback in callbacks:
        callback()


async def _own_with_retries(path: Path, stack: ExitStack) -> Ownership:
    await trio.lowlevel.checkpoint()
    for _ in range(OPEN_TRIES - 1):
        try:
            return stack.enter_context(own(path))
        except StoreInUse:
            await trio.sleep(OPEN_RETRY_S)
    return stack.enter_context(own(path))


@dataclass(frozen=True, slots=True)
class _Connections:
    """All connections to the file. Only one thread at a time uses each of them."""

    writing: sqlite3.Connection
    watching: sqlite3.Connection
    readers: list[sqlite3.Connection]


def _open_connections(path: Path, migrations: Sequence[MigrationSet], stack: ExitStack) -> _Connections:
    """Open the connections to the checked and migrated file.

    The writing connection is closed last, and removes the log when it closes.
    """
    try:
        writing = stack.enter_context(closing(connect(path)))
        check(writing, path)
        migrate(writing, migrations)
        name_life(writing)
        watching = stack.enter_context(closing(connect(path)))
        readers = [stack.enter_context(closing(connect(path, query_only=True))) for _ in range(READERS)]
        return _Connections(writing, watching, readers)
    except sqlite3.DatabaseError as exc:
        if getattr(exc, "sqlite_errorcode", None) in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
            raise damaged(path, str(exc)) from exc
        if isinstance(refusal := translate(exc), StoreUnavailable):
            raise StoreUnusable(f"cannot open {path}: {refusal}") from exc
        raise  # the error is a bug in a migration, not a problem of the file


def _touch(tx: Tx) -> None:
    """Write a value that nothing reads."""
    tx.run(f"PRAGMA user_version = {(tx.one('PRAGMA user_version') or (0,))[0]}")
