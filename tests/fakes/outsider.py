"""Another program that uses a gateway's store, on either engine. It reads, changes, locks, and makes commits fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from tests.fakes.stores import engine

WAIT_S = 60
BOUNDED = f"-c lock_timeout={WAIT_S}s -c statement_timeout={WAIT_S}s"
REFUSE = {
    "sqlite": (
        "CREATE TRIGGER refuse BEFORE INSERT ON {table} WHEN {when}"
        " BEGIN SELECT RAISE(ABORT, 'a test lets the store refuse this'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'a test lets the store refuse this' USING ERRCODE = 'restrict_violation'; END $$",
        "CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION refuse()",
    ),
}
ADMIT = {"sqlite": "DROP TRIGGER refuse", "postgresql": "DROP FUNCTION refuse CASCADE"}


class Outsider:
    """Another program's connection to a store, which commits each statement."""

    def __init__(self, connection: sqlite3.Connection | psycopg.Connection[Any]) -> None:
        """The caller must close `connection`."""
        self._connection = connection
        self._engine = "sqlite" if isinstance(connection, sqlite3.Connection) else "postgresql"

    def run(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run one statement with `?` for each parameter. Return its rows."""
        if isinstance(self._connection, sqlite3.Connection):
            return self._connection.execute(sql, params).fetchall()
        cursor = self._connection.execute(sql.replace("?", "%s").encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def holding_the_lock(self) -> Iterator[None]:
        """Block all other writers until the block ends."""
        if self._engine == "sqlite":
            self.run("BEGIN IMMEDIATE")
        else:
            tables = self.run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            self.run("BEGIN")
            self.run(f"LOCK TABLE {', '.join(name for (name,) in tables)} IN EXCLUSIVE MODE")
        yield
        self.run("ROLLBACK")

    @contextmanager
    def refusing(self, table: str, when: str) -> Iterator[None]:
        """Refuse commits of new rows of `table` that satisfy `when`, while the block runs."""
        for sql in refuse(table, when):
            self.run(sql)
        yield
        self.run(admit())

    def everything(self) -> bytes:
        """Return every stored value of every table."""
        of = {
            "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table'",
            "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
        }
        rows = [row for (name,) in self.run(of[self._engine]) for row in self.run(f"SELECT * FROM {name}")]
        return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for row in rows for value in row)


def refuse(table: str, when: str) -> list[str]:
    """Return the statements that make the store refuse new rows of `table` that satisfy `when`, until `admit`."""
    return [sql.format(table=table, when=when) for sql in REFUSE[engine()]]


def admit() -> str:
    """Return the statement that ends `refuse`."""
    return ADMIT[engine()]


@contextmanager
def open_outsider(url: str) -> Iterator[Outsider]:
    """Open another program's connection to the store at this address."""
    if url.startswith("sqlite:///"):
        file = url.removeprefix("sqlite:///")
        with closing(
            sqlite3.connect(file, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        ) as connection:
            yield Outsider(connection)
    else:
        with psycopg.connect(url, autocommit=True, connect_timeout=WAIT_S, options=BOUNDED) as server:
            yield Outsider(server)
