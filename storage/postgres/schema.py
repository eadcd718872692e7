"""Checks the version of the database server, and migrates the schema on one node at a time."""

from collections.abc import Sequence

from storage.errors import StoreUnusable
from storage.migrations import Migration, MigrationSet, refuse_newer
from storage.postgres.link import PostgresLink
from storage.postgres.partitions import convert
from storage.postgres.text import rows_of
from storage.postgres.transaction import PostgresTx
from storage.store import PartitionTx

VERSION_LEAST = 15
MIGRATION_LOCK = 0x51_01_CE  # an arbitrary number that all nodes use

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS store_migrations (
        migration_set TEXT NOT NULL,
        name TEXT NOT NULL,
        applied_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        PRIMARY KEY (migration_set, name)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS store_writers (
        id TEXT PRIMARY KEY,
        batch BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL
    )
    """,
)
REFUSE_CHANGES = """
CREATE FUNCTION {table}_refuses_changes() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{table} is append-only' USING ERRCODE = 'restrict_violation'; END $$
"""
ON_CHANGES = """
CREATE TRIGGER {table}_refuses_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuses_changes()
"""

# Each deleted row is checked against the condition. Updates and TRUNCATE are still refused.
REFUSE_DELETES = """
CREATE FUNCTION {table}_refuses_deletes() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF NOT ({condition}) THEN
        RAISE EXCEPTION '{table} is append-only' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$
"""
ON_DELETES = (
    "DROP TRIGGER {table}_refuses_changes ON {table}",
    """
    CREATE TRIGGER {table}_refuses_changes BEFORE UPDATE OR TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuses_changes()
    """,
    """
    CREATE TRIGGER {table}_refuses_deletes BEFORE DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION {table}_refuses_deletes()
    """,
)


class PostgresSchema:
    """Runs migrations on PostgreSQL (see `storage.migrations.Schema`)."""

    def __init__(self, link: PostgresLink) -> None:
        """Create the schema. The migrations run on `link`."""
        self._link = link

    def execute(self, sql: str) -> None:
        """Run one statement."""
        serial = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
        self._link.queue(sql.replace("{serial}", serial).replace("{clustered}", ""))
        self._link.fetch()

    def append_only(self, table: str) -> None:
        """Add a trigger that refuses changes."""
        self.execute(REFUSE_CHANGES.replace("{table}", table))
        self.execute(ON_CHANGES.replace("{table}", table))

    def allow_deletes(self, table: str, condition: str) -> None:
        """Add a trigger that checks deleted rows."""
        self.execute(REFUSE_DELETES.replace("{table}", table).replace("{condition}", condition))
        for statement in ON_DELETES:
            self.execute(statement.replace("{table}", table))

    def drop_append_only(self, table: str) -> None:
        """Drop the table, and the function of its trigger."""
        self.execute(f"DROP TABLE {table}")
        self.execute(f"DROP FUNCTION {table}_refuses_changes")

    def partition(self, table: str, *, below: bytes, late: str) -> PartitionTx:
        """Convert the table into a partitioned one."""
        return convert(self._link, table, below=below, late=late)

    def reword(self, table: str, words: str, others: str) -> None:
        """Do nothing, because PostgreSQL stores conditions in parsed form, not as text."""

    @property
    def tx(self) -> PostgresTx:
        """The migration's transaction."""
        return PostgresTx(self._link)

    def commit(self) -> None:
        """Commit, and begin a new transaction."""
        self._link.queue("COMMIT")
        self._link.queue("BEGIN")
        self._link.fetch()


def check_version(link: PostgresLink) -> None:
    """Raise StoreUnusable if the server is too old."""
    link.queue("SELECT current_setting('server_version_num')::bigint / 10000, current_setting('server_version')")
    ((major, text),) = rows_of(link.fetch())
    if major < VERSION_LEAST:
        raise StoreUnusable(f"the database server is PostgreSQL {text}; {VERSION_LEAST} or later is required")


def migrate(link: PostgresLink, sets: Sequence[MigrationSet]) -> None:
    """Apply missing migrations, each in its own transaction, on one node at a time.

    Raises:
        StoreTooNew: the database has a migration that this program does not have.
    """
    link.queue("SELECT pg_advisory_lock(?)", (MIGRATION_LOCK,))
    for table in TABLES:
        link.queue(table)
    link.queue("SELECT migration_set, name FROM store_migrations")
    applied = {(set_name, name) for set_name, name in rows_of(link.fetch())}
    refuse_newer(applied, sets)
    for one in sets:
        for migration in one.migrations:
            if (one.name, migration.__name__) not in applied:
                _apply(link, one.name, migration)


def _apply(link: PostgresLink, set_name: str, migration: Migration) -> None:
    link.queue("BEGIN")
    migration(PostgresSchema(link))
    link.queue("INSERT INTO store_migrations (migration_set, name) VALUES (?, ?)", (set_name, migration.__name__))
    link.queue("COMMIT")
    link.fetch()
