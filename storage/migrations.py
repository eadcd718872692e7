"""Named, append-only sets of migrations, in the subset of SQL that both engines share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from storage.errors import StoreTooNew
from storage.store import PartitionTx, Tx


class Schema(Protocol):
    """The statements that a migration may run, on either engine."""

    def execute(self, sql: str) -> None:
        """Run one statement; `{serial}` stands for the type of a primary key that counts by itself.

        `{clustered}` behind a table's columns keeps its rows in the order of the primary key, where that saves bytes.
        """
        ...

    def append_only(self, table: str) -> None:
        """Make the database refuse to change or delete rows of `table`."""
        ...

    def allow_deletes(self, table: str, condition: str) -> None:
        """Let rows of a table that is append-only go which fulfil a condition on `OLD`; changes stay refused."""
        ...

    def drop_append_only(self, table: str) -> None:
        """Drop a table that was append-only."""
        ...

    def partition(self, table: str, *, below: bytes, late: str) -> PartitionTx | None:
        """Keep a table that `allow_deletes` in partitions, where the engine does that; gives the way to make them.

        Rows whose ids are `below` lie together, as do those that have no partition. `late` is a table of ids, see
        `PartitionTx.note_inserts`. What was done before is committed.
        """
        ...

    def reword(self, table: str, words: str, others: str) -> None:
        """Write `others`, which mean the same, for `words` in the definition of `table`, where the words have a cost.

        No row is read. An engine to which both are one does nothing.
        """
        ...

    @property
    def tx(self) -> Tx:
        """The migration's transaction, for rows; nothing may be asked for after its commit."""
        ...

    def commit(self) -> None:
        """Make durable what was done so far: should the process end now, the migration is run again from its begin."""
        ...


Migration: TypeAlias = Callable[[Schema], None]


@dataclass(frozen=True, slots=True)
class MigrationSet:
    """One package's migrations, oldest first; each is known by its function's name and never edited once landed."""

    name: str
    migrations: tuple[Migration, ...]

    def names(self) -> tuple[str, ...]:
        """The migrations' names, oldest first."""
        return tuple(migration.__name__ for migration in self.migrations)


def refuse_newer(applied: Iterable[tuple[str, str]], known: Iterable[MigrationSet]) -> None:
    """Compare what a database has (set, migration) with what this program knows.

    Raises:
        StoreTooNew: the database holds a migration that this program does not know.
    """
    expected = {(one.name, name) for one in known for name in one.names()}
    strange = sorted(set(applied) - expected)
    if strange:
        names = ", ".join(f"{set_name}/{name}" for set_name, name in strange)
        raise StoreTooNew(f"the database was migrated by a newer version of this program ({names}): run that version")
