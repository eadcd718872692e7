"""The writer's transactions on an SQLite file."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress

from storage.errors import CommitUnknown
from storage.sqlite.memo import Memo
from storage.sqlite.transaction import SqliteTx, translate
from storage.sqlite.watch import FileWatch
from storage.transactions import Callback


class SqliteEngine:
    """The writing connection (see `storage.transactions.Engine`)."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        watch: FileWatch | None = None,
        publish_doubts: Callable[[Sequence[Callback]], None] = lambda _doubts: None,
    ) -> None:
        """Only the writer's thread uses the connection. `watch` is None for a database in memory.

        `publish_doubts` runs the `on_doubt` callbacks on the Trio side.
        """
        self._cursor = connection.cursor()
        self._connection = connection
        self._memo = Memo(self._cursor)
        self._watch = watch
        self._publish_doubts = publish_doubts
        self._doubts: list[Callback] = []

    def begin(self) -> None:
        """Open a transaction, with the write lock from the start."""
        if self._connection.in_transaction:  # still open, because the rollback after an earlier error failed
            self.rollback()
        if self._watch is not None:
            self._watch.check()
            self._doubts = []
        self._cursor.execute("BEGIN IMMEDIATE")
        self._memo.begin()

    def commit(self) -> None:
        """Make the transaction durable, and check that the file was not removed or replaced.

        Raises CommitUnknown if it was.
        """
        if self._watch is None:
            self._cursor.execute("COMMIT")
            return
        if count := self._watch.next_count():
            self._cursor.execute(f"PRAGMA user_version = {count}")
        self._cursor.execute("COMMIT")
        try:
            self._watch.check_commit()
        except CommitUnknown:
            self._publish_doubts(self._doubts)
            raise

    def rollback(self) -> None:
        """Undo the transaction. After some errors SQLite has already done so."""
        self._memo.forget()
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._cursor.execute("ROLLBACK")

    def mark(self) -> None:
        """Set the savepoint."""
        self._cursor.execute("SAVEPOINT call")

    def settle(self) -> None:
        """Do nothing, because every statement has completed when its call returns."""

    def keep(self) -> None:
        """Release the savepoint."""
        self._cursor.execute("RELEASE call")

    def undo(self) -> bool:
        """Return to the savepoint. Return False if SQLite has undone the whole transaction, such as on a full disk."""
        self._memo.forget()
        if not self._connection.in_transaction:
            return False
        self._cursor.execute("ROLLBACK TO call")
        self._cursor.execute("RELEASE call")
        return True

    def transaction(self, callbacks: list[Callback]) -> SqliteTx:
        """Return the transaction for the calls."""
        return SqliteTx(self._cursor, callbacks, self._doubts, self._memo)

    def translate(self, error: Exception) -> Exception:
        """Translate an error of the driver."""
        return translate(error)
