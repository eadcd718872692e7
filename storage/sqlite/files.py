"""Prepares the database file: creates its folder, checks its integrity and migrates its schema."""

import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from storage.errors import StoreCorrupt, StoreUnusable
from storage.migrations import Migration, MigrationSet, refuse_newer
from storage.private_files import make_folder
from storage.sqlite.transaction import SqliteTx

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations

_APPLIED = "_sqlite_migrations"
"""The table in which sqlite-utils records applied migrations."""
CHECKED_BYTES_MAX = 268435456  # for a larger file, a full check would delay the start by seconds

RESTORE = (
    "stop the node, then restore the file from a backup, "
    "or recover readable data with: sqlite3 {path} .recover | sqlite3 {path}.new"
)


class SqliteSchema:
    """Runs migrations on SQLite (see `storage.migrations.Schema`)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Create the schema. The migrations run on `connection`."""
        self._connection = connection

    def execute(self, sql: str) -> None:
        """Run one statement. A serial key is SQLite's row id."""
        self._connection.execute(sql.replace("{serial}", "INTEGER PRIMARY KEY").replace("{clustered}", "WITHOUT ROWID"))

    def append_only(self, table: str) -> None:
        """Add triggers that refuse changes."""
        for action in ("UPDATE", "DELETE"):
            self._connection.execute(
                f"CREATE TRIGGER {table}_refuses_{action.lower()} BEFORE {action} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )

    def allow_deletes(self, table: str, condition: str) -> None:
        """Add a condition to the trigger that refuses deletes."""
        self._connection.execute(f"DROP TRIGGER {table}_refuses_delete")
        self._connection.execute(
            f"CREATE TRIGGER {table}_refuses_delete BEFORE DELETE ON {table} WHEN NOT ({condition}) "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )

    def drop_append_only(self, table: str) -> None:
        """Drop the table together with its triggers."""
        self._connection.execute(f"DROP TABLE {table}")

    def partition(self, table: str, *, below: bytes, late: str) -> None:
        """Do nothing, because SQLite has no partitions and rows are deleted one by one."""

    def reword(self, table: str, words: str, others: str) -> None:
        """Change the text of the definition, with the method from SQLite's page about ALTER TABLE."""
        ((version,),) = self._connection.execute("PRAGMA schema_version").fetchall()
        self._connection.execute("PRAGMA writable_schema = ON")
        self._connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = ?",
            (words, others, table),
        )
        self._connection.execute(f"PRAGMA schema_version = {version + 1}")
        self._connection.execute("PRAGMA writable_schema = RESET")

    @property
    def tx(self) -> SqliteTx:
        """The migration's transaction."""
        return SqliteTx(self._connection.cursor())

    def commit(self) -> None:
        """Commit, and begin a new transaction."""
        self._connection.execute("COMMIT")
        self._connection.execute("BEGIN")


def make_data_folder(folder: Path) -> None:
    """Create the folder of the file. Raises StoreUnusable if that fails."""
    try:
        make_folder(folder)
    except OSError as exc:
        raise StoreUnusable(f"cannot create the data folder {folder}: {exc.strerror}") from exc


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Check the file for damage. Raises StoreCorrupt, whose message says how to restore the file."""
    try:
        small = path.stat().st_size <= CHECKED_BYTES_MAX
        found = connection.execute("PRAGMA quick_check(1)" if small else "SELECT 'ok' FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as exc:
        raise damaged(path, str(exc)) from exc
    if found is not None and found[0] != "ok":
        raise damaged(path, str(found[0]))


def damaged(path: Path, what: str) -> StoreCorrupt:
    """Return the error for a damaged file, with instructions to restore it."""
    return StoreCorrupt(f"the database {path} is damaged ({what}): {RESTORE.format(path=path)}")


def migrate(connection: sqlite3.Connection, sets: Sequence[MigrationSet]) -> None:
    """Apply missing migrations, each in its own transaction, recorded in the format of the sqlite-utils command.

    Raises:
        StoreTooNew: the file has a migration that this program does not have.
    """
    applied = _applied(connection)
    refuse_newer(applied, sets)
    if {(one.name, migration.__name__) for one in sets for migration in one.migrations} <= set(applied):
        return
    from sqlite_utils import Database  # noqa: PLC0415 - a tenth of a second, not needed for most starts

    database = Database(connection)
    for one in sets:
        _register(one, SqliteSchema(connection)).apply(database)


def name_life(connection: sqlite3.Connection) -> None:
    """Write a new random application id into the file, which `storage.sqlite.watch` uses to recognize it."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {1 + secrets.randbelow(2**31 - 1)}")
    connection.execute("PRAGMA user_version = 0")
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _applied(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_APPLIED,)).fetchone() is None:
        return []
    return connection.execute(f"SELECT migration_set, name FROM {_APPLIED}").fetchall()  # noqa: S608 - a constant


def _register(one: MigrationSet, schema: SqliteSchema) -> "Migrations":
    from sqlite_utils import Migrations  # noqa: PLC0415 - as above

    migrations = Migrations(one.name)
    for migration in one.migrations:
        _add(migrations, migration, schema)
    return migrations


def _add(migrations: "Migrations", migration: Migration, schema: SqliteSchema) -> None:
    @migrations(name=migration.__name__)
    def apply(_database: "Database") -> None:
        migration(schema)
