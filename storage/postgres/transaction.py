"""Runs transactions on PostgreSQL, and translates its errors.

Statements whose result is not needed are queued. They are sent with the next statement whose result is needed, or with
the commit. Each batch of calls locks its rows in a fixed order, so that nodes can wait for each other without
deadlocks.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import psycopg

from storage.errors import CommitUnknown, ConstraintViolated, StoreContended, StoreUnavailable
from storage.postgres.link import LinkLost, PostgresLink
from storage.postgres.membership import MARK, WriterConnection
from storage.postgres.text import rows_of
from storage.store import Row, T, Value
from storage.transactions import Callback, Job, groups_of, run_batch

# If another node's locks block a group of calls, the group is retried in a transaction of its own. This transaction
# holds no locks at first, so it can wait longer without blocking others.
TRIES = 4
AGAIN_S = 3.0
# A transaction that already holds the locks of one group of calls waits only briefly for the locks of the next group,
# because two nodes could wait for each other. In a test, three nodes that appended to eight feeds wrote two to five
# times as much with 10 ms as with 100 ms.
LOCK_MS_IN_PASSING = 10

LOCK_NAMES = "SELECT pg_advisory_xact_lock(hashtextextended(asked.value, 0)) FROM {in} AS asked"

_CONTENDED: Final = {"40001", "40P01", "55P03"}
_UNAVAILABLE: Final = {"08", "25", "53", "57", "58", "XX"}
# Missing tables, schema or columns: they were dropped, or the database was recreated.
_GONE: Final = {"42P01", "42703", "3F000"}
_ROWS: Final = {"22", "23"}


def translate(error: Exception) -> Exception:
    """Translate an error of the driver or server into a StorageError.

    Other errors, which are bugs, are returned unchanged.
    """
    if isinstance(error, LinkLost):
        return _with_cause(StoreContended(f"the connection to the database was lost: {error}"), error)
    code = error.sqlstate if isinstance(error, psycopg.Error) else None
    if code is None:
        return error
    text = str(error).partition("\n")[0]
    if code in _CONTENDED:
        return _with_cause(StoreContended(text), error)
    if code in _GONE:
        return _with_cause(StoreUnavailable(f"the database was emptied or changed ({text}): restore it"), error)
    if code[:2] in _ROWS:
        return _with_cause(ConstraintViolated(text), error)
    return _with_cause(StoreUnavailable(text), error) if code[:2] in _UNAVAILABLE else error


def _with_cause(refusal: Exception, cause: Exception) -> Exception:
    refusal.__cause__ = cause
    return refusal


class PostgresTx:
    """A transaction on one connection (see `storage.store.Tx`)."""

    __slots__ = ("_callbacks", "_doubts", "_link")

    def __init__(
        self, link: PostgresLink, callbacks: list[Callback] | None = None, doubts: list[Callback] | None = None
    ) -> None:
        """`on_commit` and `on_doubt` append callbacks to the two lists, which are None on a query-only connection."""
        self._link = link
        self._callbacks = callbacks
        self._doubts = doubts

    def all(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        """Return all rows."""
        self._link.queue(sql, params)
        return rows_of(self._link.fetch())

    def one(self, sql: str, params: Sequence[Value] = ()) -> Row | None:
        """Return the first row, if any."""
        rows = self.all(sql, params)
        return rows[0] if rows else None

    def run(self, sql: str, params: Sequence[Value] = ()) -> int:
        """Run a statement that changes rows. Return how many it changed."""
        self._link.queue(sql, params)
        return self._link.fetch().command_tuples or 0

    def run_many(self, sql: str, rows: Sequence[Sequence[Value]], *, one: str | None = None) -> None:  # noqa: ARG002
        """Run one statement for all rows, at the latest with the commit."""
        if rows:
            self._link.queue_rows(sql, rows)

    def count_many(self, sql: str, rows: Sequence[Sequence[Value]], params: Sequence[Value] = ()) -> int:
        """Like `run_many`, but run immediately. Return how many rows it changed."""
        if not rows:
            return 0
        self._link.queue_rows(sql, rows, params)
        return self._link.fetch().command_tuples or 0

    def all_in(self, sql: str, values: Sequence[Value]) -> list[Row]:
        """Return all rows of a query over the list `{in}`."""
        if not values:
            return []
        self._link.queue_list(sql, values)
        return rows_of(self._link.fetch())

    def run_in(self, sql: str, values: Sequence[Value], params: Sequence[Value] = ()) -> int:
        """Run a statement that changes rows over the list `{in}`. Return how many it changed."""
        if not values:
            return 0
        self._link.queue_list(sql, values, params)
        return self._link.fetch().command_tuples or 0

    def lock(self, names: Sequence[str]) -> None:
        """Lock the names until the end of the transaction, in sorted order."""
        if names and self._callbacks is not None:
            self._link.queue_list(LOCK_NAMES, sorted(names))

    def pin(self, table: str) -> None:
        """Lock the table before the transaction's snapshot is taken.

        The lock itself does not take the snapshot. Planning a query over many partitions takes longer than running it,
        so one plan is used for all parameters.
        """
        self._link.queue(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
        self._link.queue("SET LOCAL plan_cache_mode = force_generic_plan")

    def recall(self, kind: type[T]) -> T | None:  # noqa: ARG002 - several nodes write
        """Return None. No value is kept, because other nodes write too."""
        return None

    def remember(self, what: object) -> None:
        """Do nothing."""

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` after the commit."""
        assert self._callbacks is not None, "nothing is committed on a query-only connection"
        self._callbacks.append(callback)

    def on_doubt(self, callback: Callable[[], None]) -> None:
        """Call `callback` if it is unknown whether the commit happened."""
        assert self._doubts is not None, "nothing is committed on a query-only connection"
        self._doubts.append(callback)


class PostgresEngine:
    """The writer's side of a transaction (see `storage.transactions.Engine`)."""

    def __init__(self, membership: WriterConnection, publish_doubts: Callable[[Sequence[Callback]], None]) -> None:
        """`publish_doubts` runs the `on_doubt` callbacks on the Trio side."""
        self._membership = membership
        self._publish_doubts = publish_doubts
        self._doubts: list[Callback] = []
        self._link: PostgresLink | None = None
        self._batch = 0
        self._groups = 0

    def begin(self) -> None:
        """Open a transaction. Raises StoreUnavailable while the server is unavailable."""
        self.rollback()  # in case a transaction is still open after an earlier error
        link = self._membership.link()
        self._doubts = []
        self._groups = 0
        # The server does not adapt its plans as tables grow, so discard them whenever the number of batches has
        # doubled.
        if self._batch & (self._batch - 1) == 0:
            link.queue("DISCARD PLANS")
        link.queue("BEGIN")
        self._link = link

    def commit(self) -> None:
        """Make the transaction durable.

        If the connection is lost meanwhile, find out whether the commit took effect.
        """
        link = self._open_link()
        self._batch += 1
        try:
            link.queue(MARK, (self._membership.id, self._batch))
            link.queue("COMMIT")
            tag = link.fetch().command_status
        except LinkLost as exc:
            self._link = None
            self._membership.lose(link, str(exc), unresolved=self._batch)
            self._check_happened()
            return
        if tag != b"COMMIT":
            raise StoreUnavailable(f"the database responded to a commit with {tag!r}")
        self._link = None

    def rollback(self) -> None:
        """Undo the transaction. Replace the connection if it was lost."""
        link, self._link = self._link, None
        if link is None:
            return
        try:
            _drain(link)
            link.queue("ROLLBACK")
            link.fetch()
        except (psycopg.Error, LinkLost) as exc:
            self._membership.lose(link, str(exc))

    def mark(self) -> None:
        """Set the savepoint."""
        link = self._open_link()
        self._groups += 1
        if self._groups == 2:
            link.queue(f"SET LOCAL lock_timeout = {LOCK_MS_IN_PASSING}")
        link.queue("SAVEPOINT call")

    def settle(self) -> None:
        """Wait for the statements in progress, so that their errors are raised by this call."""
        link = self._open_link()
        if link.is_pending:
            link.fetch()

    def keep(self) -> None:
        """Release the savepoint."""
        self._open_link().queue("RELEASE call")

    def undo(self) -> bool:
        """Return to the savepoint."""
        link = self._open_link()
        _drain(link)
        link.queue("ROLLBACK TO call")
        link.queue("RELEASE call")
        link.fetch()
        return True

    def transaction(self, callbacks: list[Callback]) -> PostgresTx:
        """Return the transaction for the calls."""
        return PostgresTx(self._open_link(), callbacks, self._doubts)

    def translate(self, error: Exception) -> Exception:
        """Translate an error of the driver."""
        return translate(error)

    def _open_link(self) -> PostgresLink:
        assert self._link is not None, "no transaction is open"
        return self._link

    def _check_happened(self) -> None:
        try:
            self._membership.check_happened()
        except CommitUnknown:
            self._publish_doubts(self._doubts)
            raise


def _drain(link: PostgresLink) -> None:
    """Wait for statements in progress. Ignore their errors, which were already reported or no longer matter."""
    if link.is_pending:
        with suppress(psycopg.Error):
            link.fetch()


def run_patiently(engine: PostgresEngine, jobs: Sequence[Job]) -> list[Callback] | None:
    """Like `run_batch`, but retry each group of calls that is blocked by other nodes' locks, in its own transaction.

    A group runs at most `TRIES` times, and is not retried after `AGAIN_S`, because all later calls wait for it.
    """
    callbacks = run_batch(engine, jobs)
    give_up_at = time.monotonic() + AGAIN_S
    for group in groups_of([job for job in jobs if _is_contended(job)]):
        for _ in range(TRIES - 1):
            if not _is_contended(group[0]) or time.monotonic() > give_up_at:
                break
            for job in group:
                job.error = None
            more = run_batch(engine, group)
            if more is not None:
                callbacks = [*(callbacks or ()), *more]
    return callbacks


def _is_contended(job: Job) -> bool:
    return isinstance(job.error, StoreContended)
