"""Stores without threads: on SQLite in memory, and on the run's own engine."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from storage.migrations import MigrationSet
from storage.sqlite.engine import SqliteEngine
from storage.sqlite.files import migrate
from storage.sqlite.transaction import SqliteTx
from storage.store import Tx
from tests.fakes.inline_calls import FailingCommits, InlineCalls
from tests.fakes.inline_postgres import InlinePostgres
from tests.fakes.stores import drop_store, engine, store_at

T = TypeVar("T")


class InlineSqlite(InlineCalls):
    """A store on an SQLite database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """The store takes ownership of `connection`."""
        self.connection = connection
        self.connection.execute("PRAGMA foreign_keys = ON")
        self._engine = _Engine(self, self.connection)

    def look(self, fn: Callable[[Tx], T]) -> T:
        return fn(SqliteTx(self.connection.cursor()))

    def close(self) -> None:
        self.connection.close()


class InlineStore(InlineSqlite):
    """Open a store on SQLite in memory."""

    def __init__(self, migrations: Sequence[MigrationSet]) -> None:
        super().__init__(sqlite3.connect(":memory:", isolation_level=None))
        migrate(self.connection, migrations)


class _Engine(FailingCommits, SqliteEngine):
    """SQLite's engine, whose commits can be made to fail."""


class InlineOwnPostgres(InlinePostgres):
    """An inline store on its own database on the server. Closing it drops the database."""

    def __init__(self, migrations: Sequence[MigrationSet]) -> None:
        self._url = store_at(Path(f"inline-{uuid4()}"))
        super().__init__(self._url, migrations)

    def close(self) -> None:
        super().close()
        drop_store(self._url)


def open_inline(migrations: Sequence[MigrationSet]) -> InlineCalls:
    """Return an empty store on the run's engine. The caller must close it."""
    return InlineStore(migrations) if engine() == "sqlite" else InlineOwnPostgres(migrations)
