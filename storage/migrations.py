"""Named, append-only sets of migrations, written in the SQL that both engines support."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from storage.errors import StoreTooNew
from storage.store import PartitionTx, Tx


class Schema(Protocol):
    """The operations that a migration can use on both engines."""

    def execute(self, sql: str) -> None:
        """Run one statement. `{serial}` is replaced by the type of an automatic integer primary key.

        With `{clustered}` after a table's columns, the rows are stored in the order of the primary key, on engines
        where this saves space.
        """
        ...

    def append_only(self, table: str) -> None:
        """Make the database refuse to change or delete rows of `table`."""
        ...

    def allow_deletes(self, table: str, condition: str) -> None:
        """Allow deleting the rows of an append-only table that match a condition on `OLD`.

        Changes are still refused.
        """
        ...

    def drop_append_only(self, table: str) -> None:
        """Drop an append-only table."""
        ...

    def partition(self, table: str, *, below: bytes, late: str) -> PartitionTx | None:
        """Partition a table with `allow_deletes` if the engine supports it, and return the transaction for partitions.

        All rows with ids smaller than `below` share one partition, and rows that belong to no partition share another.
        `late` is a table of ids (see `PartitionTx.note_inserts`). The migration's earlier changes are committed.
        """
        ...

    def reword(self, table: str, words: str, others: str) -> None:
        """Replace `words` in the definition of `table` with `others`, which mean the same.

        No row is read. An engine on which both forms cost the same does nothing.
        """
        ...

    @property
    def tx(self) -> Tx:
        """The migration's transaction, for changing rows. Do not use its `on_commit`."""
        ...

    def commit(self) -> None:
        """Make all changes so far durable.

        If the process ends after this, the migration runs again from the beginning.
        """
        ...


Migration: TypeAlias = Callable[[Schema], None]


@dataclass(frozen=True, slots=True)
class MigrationSet:
    """The migrations of a package, oldest first, identified by their functions' names.

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
