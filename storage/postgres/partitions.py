"""Converts tables into tables that are partitioned by ranges of ids, and adds and removes partitions.

No rows are copied: the original table becomes the partition `{table}_before`, for all ids below the first range. Rows
that belong to no partition are stored in `{table}_others`. The other partitions are created like it, with their own
checks and indexes. Only the index of the ids covers the whole table.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg
import trio

from storage.errors import CommitUnknown, PartitionRefused, StoreContended, StoreUnavailable
from storage.postgres.link import LinkLost, PostgresLink, open_link
from storage.postgres.transaction import PostgresTx, translate
from storage.store import Partition, PartitionTx, T

LOCK_MS: Final = 10
"""How many milliseconds a change waits for the table's lock.

This is short, because all later users of the table wait for the change.
"""
TRIES: Final = 20
"""How many times a change is tried."""
PAUSE_S: Final = 0.25
"""The pause in seconds between two tries, in which the users that waited for the change can continue."""
CHANGE_MS: Final = 600_000
MOVED_MAX: Final = 10_000

# All rows of `{table}_before` must be in the range of that partition. This is validated in advance, in parallel with
# normal traffic, so that attaching the partition scans no rows.
PREPARE: Final = (
    "DROP TABLE IF EXISTS {table}_others",
    "CREATE TABLE {table}_others (LIKE {table} INCLUDING ALL)",
    "ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_is_before",
)
FIND_ABOVE: Final = "SELECT 1 FROM {table} WHERE id >= {below} LIMIT 1"
PROVE: Final = (
    "ALTER TABLE {table} ADD CONSTRAINT {table}_is_before CHECK (id < {below}) NOT VALID",
    "ALTER TABLE {table} VALIDATE CONSTRAINT {table}_is_before",
)
CONVERT: Final = (
    "ALTER TABLE {table} RENAME TO {table}_before",
    "ALTER INDEX {table}_pkey RENAME TO {table}_before_pkey",
    "DROP TRIGGER {table}_refuses_deletes ON {table}_before",
    "WITH moved AS (DELETE FROM {table}_before WHERE id >= {below} RETURNING *) "
    "INSERT INTO {table}_others SELECT * FROM moved",
    "CREATE TABLE {table} (LIKE {table}_others INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY RANGE (id)",
    "ALTER TABLE {table} ADD PRIMARY KEY (id)",
    "ALTER TABLE {table} ATTACH PARTITION {table}_before FOR VALUES FROM (MINVALUE) TO ({below})",
    "ALTER TABLE {table}_before DROP CONSTRAINT IF EXISTS {table}_is_before",
    "ALTER TABLE {table} ATTACH PARTITION {table}_others DEFAULT",
    """
    CREATE TRIGGER {table}_refuses_deletes BEFORE DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION {table}_refuses_deletes()
    """,
    """
    CREATE FUNCTION {table}_notes_late() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {late} (id) VALUES (NEW.id); RETURN NULL; END $$
    """,
)
# A statement trigger applies only to the table that the statement names, so each partition needs its own.
REFUSE_CHANGES: Final = """
CREATE TRIGGER {table}_refuses_changes BEFORE UPDATE OR TRUNCATE ON {name}
FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuses_changes()
"""
COUNT_APART: Final = """
SELECT COUNT(*) FROM (SELECT 1 FROM {table}_others WHERE id >= ? AND id < ? LIMIT {limit}) AS apart
"""
MAKE: Final = "CREATE TABLE {name} (LIKE {table}_others INCLUDING ALL)"
MOVE_APART: Final = (
    "ALTER TABLE {table}_others DISABLE TRIGGER {table}_refuses_deletes",
    "WITH moved AS (DELETE FROM {table}_others WHERE id >= {begin} AND id < {end} RETURNING *) "
    "INSERT INTO {name} SELECT * FROM moved",
    "ALTER TABLE {table}_others ENABLE TRIGGER {table}_refuses_deletes",
)
ATTACH: Final = "ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})"
NOTE_INSERTS: Final = """
CREATE TRIGGER {table}_notes_late AFTER INSERT ON {name} FOR EACH ROW EXECUTE FUNCTION {table}_notes_late()
"""
CLOSE: Final = "LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
DETACH: Final = "ALTER TABLE {table} DETACH PARTITION {name}"
DROP: Final = "DROP TABLE {name}"


class PostgresPartitionTx(PostgresTx):
    """A transaction that changes partitions (see `storage.store.PartitionTx`)."""

    __slots__ = ()

    def add_partition(self, part: Partition) -> None:
        """Create the partition with the structure of `{table}_others`, and move the partition's rows from there."""
        count = COUNT_APART.format(table=part.table, limit=MOVED_MAX + 1)
        ((apart,),) = self.all(count, (part.begin, part.end))
        if apart > MOVED_MAX:
            raise PartitionRefused(f"{part.table}_others has more than {MOVED_MAX} rows of {part.name}")
        statements = (MAKE, *(MOVE_APART if apart else ()), ATTACH, REFUSE_CHANGES)
        for statement in statements:
            self._define(statement, part)

    def note_inserts(self, part: Partition) -> None:
        """Wait for transactions that write to the partition, then add the trigger that records inserted ids."""
        self._define(NOTE_INSERTS, part)

    def close_table(self, table: str) -> None:
        """Lock the table."""
        self.run(CLOSE.format(table=table))

    def detach_partition(self, part: Partition) -> None:
        """Detach the partition. This scans no rows."""
        self._define(DETACH, part)

    def drop_partition(self, part: Partition) -> None:
        """Delete the partition's files."""
        self._define(DROP, part)

    def _define(self, statement: str, part: Partition) -> None:
        """Run a statement that defines tables. Such statements cannot have parameters."""
        begin, end = literal(part.begin), literal(part.end)
        self.run(statement.format(table=part.table, name=part.name, begin=begin, end=end))


class PostgresPartitions:
    """Changes the partitions of a database (see `storage.store.Partitions`)."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def change(self, fn: Callable[[PartitionTx], T]) -> T:
        """Run `fn` in a transaction on a new connection, and close the connection. Retry if the table is in use."""
        for _ in range(TRIES - 1):
            with suppress(StoreContended):
                return await trio.to_thread.run_sync(self._change, fn)
            await trio.sleep(PAUSE_S)
        return await trio.to_thread.run_sync(self._change, fn)

    def _change(self, fn: Callable[[PartitionTx], T]) -> T:
        try:
            link = open_link(self._url, name="sluice-partitions", statement_ms=CHANGE_MS, lock_ms=LOCK_MS)
        except psycopg.OperationalError as exc:
            raise StoreUnavailable(f"the database cannot be reached: {str(exc).strip()}") from exc
        try:
            link.queue("BEGIN")
            result = fn(PostgresPartitionTx(link))
            _commit(link)
            return result
        except (psycopg.Error, LinkLost) as exc:
            raise translate(exc) from exc
        finally:
            link.close()


def convert(link: PostgresLink, table: str, *, below: bytes, late: str) -> PartitionTx:
    """Convert a table into a partitioned one, in a migration that runs on `link`.

    If the process dies before the last step, the table is unchanged, and the migration starts again from the beginning.
    """
    tx = PostgresPartitionTx(link)
    words = {"table": table, "below": literal(below), "late": late}
    for statement in PREPARE:
        tx.run(statement.format(**words))
    if tx.one(FIND_ABOVE.format(**words)) is None:
        for statement in PROVE:
            tx.run(statement.format(**words))
            _commit(link)
            link.queue("BEGIN")
    for statement in (*CONVERT, REFUSE_CHANGES):
        tx.run(statement.format(**words, name=table))
    tx.run(REFUSE_CHANGES.format(table=table, name=f"{table}_others"))
    return tx


def literal(value: bytes) -> str:
    """Return a value as an SQL literal."""
    return f"'\\x{value.hex()}'::bytea"


def _commit(link: PostgresLink) -> None:
    link.queue("COMMIT")
    try:
        link.fetch()
    except LinkLost as exc:
        raise CommitUnknown(f"the connection was lost during a commit: {exc}") from exc
