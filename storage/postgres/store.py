"""The store on a PostgreSQL server, which several nodes can share. It commits in groups and reads on worker threads."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import cast

import psycopg
import trio

from storage.batching import Writer, open_writer
from storage.errors import StoreUnavailable, StoreUnusable
from storage.migrations import MigrationSet
from storage.postgres.link import LinkLost, PostgresLink, open_link
from storage.postgres.membership import FORGET_OLD, WriterConnection, new_id, prepare_writer
from storage.postgres.partitions import PostgresPartitions
from storage.postgres.schema import check_version, migrate
from storage.postgres.transaction import PostgresEngine, PostgresTx, run_patiently, translate
from storage.store import BatchHandler, Req, Res, StoreSize, StoreStatistics, T, TableSize, Tx
from storage.transactions import Callback, Job

READERS = 4
READ_MS = 60_000
MIGRATE_MS = 3_600_000
MIGRATE_LOCK_MS = 60_000
CLOSE_S = 5.0
SCRUB_LOCK_MS = 500

# The size of a partitioned table is the sum of its partitions. The server counts rows only when it vacuums or analyzes
# the table; before that, the count is -1.
TABLES = """
SELECT COALESCE(whole.relname, part.relname)::text,
    CASE WHEN MIN(part.reltuples) >= 0 THEN SUM(part.reltuples::float8)::bigint END,
    SUM(pg_table_size(part.oid))::bigint, SUM(pg_indexes_size(part.oid))::bigint
FROM pg_class AS part LEFT JOIN pg_class AS whole ON whole.oid = pg_partition_root(part.oid)
WHERE part.relkind = 'r' AND part.relnamespace = current_schema()::regnamespace
GROUP BY 1 ORDER BY SUM(pg_total_relation_size(part.oid)) DESC, 1
"""


class PostgresReaders:
    """Query-only connections. They are created when needed, and only one thread at a time uses each of them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[PostgresLink] = []
        self._busy: set[PostgresLink] = set()
        self._why: str | None = None

    def run(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` on one snapshot. If the connection is lost, run `fn` again on a new connection."""
        if self._why is not None:
            raise StoreUnavailable(self._why)
        link = self._idle.pop() if self._idle else None
        if link is not None:
            with suppress(LinkLost):
                return self._run(link, fn)
        try:
            return self._run(open_link(self._url, name="sluice-reader", query_only=True, statement_ms=READ_MS), fn)
        except LinkLost as exc:
            raise StoreUnavailable(f"the connection to the database was lost: {exc}") from exc
        except psycopg.OperationalError as exc:
            raise StoreUnavailable(f"the database cannot be reached: {_first_line(exc)}") from exc

    def refuse(self, why: str | None) -> None:
        """Refuse all calls with this reason, and interrupt running ones. None accepts calls again."""
        self._why = why
        if why is not None:
            for link in list(self._busy):
                link.cut()
            self.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _run(self, link: PostgresLink, fn: Callable[[Tx], T]) -> T:
        self._busy.add(link)
        try:
            link.queue("BEGIN")
            return fn(PostgresTx(link))
        except psycopg.Error as exc:
            refusal = translate(exc)
            raise refusal from (None if refusal is exc else exc)
        finally:
            self._busy.discard(link)
            self._give_back(link)

    def _give_back(self, link: PostgresLink) -> None:
        try:
            if link.is_pending:
                with suppress(psycopg.Error):
                    link.fetch()
            link.queue("ROLLBACK")
            link.fetch()
        except (psycopg.Error, LinkLost):
            link.close()
        else:
            self._idle.append(link)


class PostgresStore:
    """An open connection to the server (see `storage.store.Store`)."""

    def __init__(self, writer: Writer, readers: PostgresReaders, url: str) -> None:
        """Use `open_postgres`, which creates and closes the arguments."""
        self.partitions = PostgresPartitions(url)
        self._url = url
        self._writer = writer
        self._readers = readers
        self._limiter = trio.CapacityLimiter(READERS)

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a savepoint of the next transaction."""
        return cast("T", await self._writer.submit(Job(fn=fn)))

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a worker thread on one snapshot."""
        return await trio.to_thread.run_sync(self._readers.run, fn, limiter=self._limiter)

    def submit(self, handler: BatchHandler[Req, Res], request: Req) -> Awaitable[Res]:
        """Pass `request` to `handler`, together with all other requests that wait for the same handler."""
        return self._writer.submit(Job(handler, request))  # type: ignore[arg-type, return-value]  # the queue mixes them

    def submit_nowait(
        self, handler: BatchHandler[Req, Res], request: Req, on_failure: Callable[[], None] | None = None
    ) -> None:
        """Like `submit`, without waiting for the result."""
        self._writer.submit_nowait(Job(handler, request, on_failure))  # type: ignore[arg-type]  # as above

    async def ping(self) -> None:
        """Prove that the store can be written.

        An empty transaction is sufficient, because every commit writes the writer's mark.
        """
        await self._writer.submit(Job(fn=_nothing, abandonable=True))

    def announce(self, note: Mapping[str, str]) -> None:
        """Do nothing, because other processes use the database directly and need no note."""

    def statistics(self) -> StoreStatistics:
        """Return counters for the operator."""
        return self._writer.statistics()

    async def measure(self) -> StoreSize:
        """Return the size of the database and its tables, from the server's statistics."""
        return await self.read(_measure)

    async def scrub(self, table: str) -> bool:
        """Rewrite the table, so that its file contains only its current rows."""
        return await trio.to_thread.run_sync(_rewrite, self._url, table)

    async def flush_log(self) -> None:
        """Do nothing, because the server does this automatically."""
        await trio.lowlevel.checkpoint()

    async def disk(self) -> None:
        """Return None, because the server's disk cannot be measured from here."""
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_postgres(url: str, migrations: Sequence[MigrationSet]) -> AsyncIterator[PostgresStore]:
    """Migrate the database at `url`, and yield a store on it. Other nodes may use the database at the same time.

    Raises:
        StoreTooNew, StoreUnusable: with a message for the operator.
    """
    token = trio.lowlevel.current_trio_token()
    readers = PostgresReaders(url)
    id_ = new_id()
    link = await trio.to_thread.run_sync(_open_first, url, migrations, id_)
    membership = WriterConnection(url, link, id_=id_, publish=lambda why: _call_soon(token, refuse, why))
    engine = PostgresEngine(membership, lambda doubts: _call_soon(token, _call_all, doubts))

    def refuse(why: str | None) -> None:
        text = None if why is None else f"the database is unavailable: {why}"
        writer.refuse(text)
        readers.refuse(text)

    try:
        async with open_writer(partial(run_patiently, engine)) as writer:
            yield PostgresStore(writer, readers, url)
    finally:
        with trio.move_on_after(CLOSE_S, shield=True):
            await trio.to_thread.run_sync(membership.close, abandon_on_cancel=True)
        readers.close()


def _open_first(url: str, migrations: Sequence[MigrationSet], id_: str) -> PostgresLink:
    """Open the writer's first connection to the migrated database."""
    try:
        link = open_link(url, name="sluice-migrations", statement_ms=MIGRATE_MS, lock_ms=MIGRATE_LOCK_MS)
        try:
            check_version(link)
            migrate(link, migrations)
        finally:
            link.close()
        link = open_link(url, name=id_)
        prepare_writer(link)
        link.queue(FORGET_OLD)
        link.fetch()
        return link
    except (psycopg.OperationalError, LinkLost) as exc:
        raise StoreUnusable(f"cannot open the database: {_first_line(exc)}") from exc


def _call_soon(token: trio.lowlevel.TrioToken, fn: Callable[..., None], *args: object) -> None:
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(fn, *args)


def _call_all(callbacks: Sequence[Callback]) -> None:
    for callback in callbacks:
        callback()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _measure(tx: Tx) -> StoreSize:
    sizes = [TableSize(name, rows, bytes_, index_bytes) for name, rows, bytes_, index_bytes in tx.all(TABLES)]
    ((whole,),) = tx.all("SELECT pg_database_size(current_database())")
    return StoreSize(whole, None, tuple(sizes))


def _rewrite(url: str, table: str) -> bool:
    """Rewrite the table. Return False if the table is in use for too long, or another node is rewriting it."""
    try:
        link = open_link(url, name="sluice-scrub", statement_ms=READ_MS, lock_ms=SCRUB_LOCK_MS)
    except psycopg.OperationalError as exc:
        raise StoreUnavailable(f"the database cannot be reached: {_first_line(exc)}") from exc
    try:
        link.queue(f"VACUUM (FULL) {table}")
        link.fetch()
    except psycopg.errors.LockNotAvailable:
        return False
    except (psycopg.Error, LinkLost) as exc:
        raise translate(exc) from exc
    finally:
        link.close()
    return True


def _nothing(_tx: Tx) -> None:
    """Do nothing, because the commit itself writes."""
