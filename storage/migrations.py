"""Named, append-only sets of migrations, in the SQL subset that both engines share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from storage.errors import StoreTooNew
from storage.store import PartitionTx, Tx


class Schema(Protocol):
    """The statements that a migration may run on either engine."""

    def execute(self, sql: str) -> None:
        """Run one statement. `{serial}` is replaced by the type of an automatic integer primary key.

        `{clustered}` after a table's columns stores its rows in the order of the primary key, if that saves bytes on
        the engine.
        """
        ...

    def append_only(self, table: str) -> None:
        """Make the database refuse to change or delete rows of `table`."""
        ...

    def allow_deletes(self, table: str, condition: str) -> None:
        """Allow deleting rows of an append-only table that match a condition on `OLD`; changes are still refused."""
        ...

    def drop_append_only(self, table: str) -> None:
        """Drop an append-only table."""
        ...

    def partition(self, table: str, *, below: bytes, late: str) -> PartitionTx | None:
        """Partition a table with `allow_deletes` if the engine supports it, and return the transaction for partitions.

        Rows with ids `below` stay together, and so do rows without a partition. `late` is a table of ids, see
        `PartitionTx.note_inserts`. Earlier changes are committed.
        """
        ...

    def reword(self, table: str, words: str, others: str) -> None:
        """Replace `words` by the equivalent `others` in the definition of `table`, if the original words are costly.

        This reads no row. An engine on which both cost the same does nothing.
        """
        ...

    @property
    def tx(self) -> Tx:
        """The migration's transaction, for changing rows. Do not use its `on_commit`."""
        ...

    def commit(self) -> None:
        """Make all changes so far durable.

        If the process ends after this, the migration is run again from its start.
        """
        ...


Migration: TypeAlias = Callable[[Schema], None]


@dataclass(frozen=True, slots=True)
class MigrationSet:
    """The migrations of one package, oldest first, identified by their functions' names.

    Never edit a released migration.
    """

    name: str
    migrations: tuple[Migration, ...]

    def names(self) -> tuple[str, ...]:
        """Return the migrations' names, oldest first."""
        return tuple(migration.__name__ for migration in self.migrations)


def refuse_newer(applied: Iterable[tuple[str, str]], known: Iterable[MigrationSet]) -> None:
    """Check that this program has every migration (set, migration) that was applied to a database.

    Raises:
        StoreTooNew: the database has a migration that this program does not have.
    """
    expected = {(one.name, name) for one in known for name in one.names()}
    strange = sorted(set(applied) - expected)
    if strange:
        names = ", ".join(f"{set_name}/{name}" for set_name, name in strange)
        raise StoreTooNew(f"the database was migrated by a newer version of this program ({names}): run that version")
