"""The protocols that every database engine offers to the packages above."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Req = TypeVar("Req")
Res = TypeVar("Res")

Item: TypeAlias = int | float | str | None
Value: TypeAlias = Item | bytes
# Columns have no static types at this border; the function that runs the SQL makes a typed record of the row.
Row: TypeAlias = tuple[Any, ...]


class Tx(Protocol):
    """One transaction. Placeholders are `?`; the SQL is the subset that SQLite and PostgreSQL share.

    `{lock}` at the end of a query locks its rows where several nodes write (in the order of the query, so let it have
    one), and `{now}` is the database's own clock in Unix seconds.
    """

    def all(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        """All rows."""
        ...

    def one(self, sql: str, params: Sequence[Value] = ()) -> Row | None:
        """The first row, if any."""
        ...

    def run(self, sql: str, params: Sequence[Value] = ()) -> int:
        """Run a statement that changes rows; how many it changed."""
        ...

    def run_many(self, sql: str, rows: Sequence[Sequence[Value]], *, one: str | None = None) -> None:
        """Run one set-based statement for all `rows`, which stand as `(?, ?), (?, ?)` where the SQL says `{rows}`.

        `one` does the same to a single row, by `?1`, `?2`, for a database that pays much for joining a list of one.
        """
        ...

    def count_many(self, sql: str, rows: Sequence[Sequence[Value]], params: Sequence[Value] = ()) -> int:
        """As `run_many`, but waited for: how many rows it changed. `params` all stand behind `{rows}`.

        The statement begins with its verb, since drivers look for that.
        """
        ...

    def all_in(self, sql: str, values: Sequence[Value]) -> list[Row]:
        """All rows of a query over `values`; none for no values.

        They stand where the SQL says `{in}`, once: after a column as `IN {in}`, or as a table `{in} AS asked` with the
        column `value`. As `FROM {in} AS asked, ...` with one `asked.value`, a list of one costs no more than a value.
        Bytes stand after a column only.
        """
        ...

    def run_in(self, sql: str, values: Sequence[Value], params: Sequence[Value] = ()) -> int:
        """As `all_in` for a statement that changes rows; how many it changed. `params` all stand before `{in}`."""
        ...

    def lock(self, names: Sequence[str]) -> None:
        """Hold `names` until the end of the transaction where several nodes write: rows that are not there yet."""
        ...

    def pin(self, table: str) -> None:
        """Keep the table's partitions as they are until the end of the transaction, which has done nothing before.

        Without it a partition may go between the first look at the data, which all later ones see, and the first look
        at the table.
        """
        ...

    def recall(self, kind: type[T]) -> T | None:
        """The last that was remembered, if it is a `kind` and nothing at all was written since; else a new one.

        None where other nodes write, or nobody does.
        """
        ...

    def remember(self, what: object) -> None:
        """Leave to `recall` what this transaction knows of the rows, as they are now.

        It is forgotten if this does not happen. One thing is remembered at a time: a write of another would end it.
        """
        ...

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the Trio side after the commit, in commit order, before anyone who waits for it resumes.

        It must not raise nor block. On a query-only transaction this is a bug.
        """
        ...

    def on_doubt(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the Trio side should the connection be lost in the commit, and nobody know if it happened.

        Whoever waits gets CommitUnknown. No later call of this store runs before the lost commit has happened or not.
        """
        ...


class Read(Protocol):
    """Runs a function on one snapshot of the data, as `Store.read` does."""

    async def __call__(self, fn: Callable[[Tx], T], /) -> T:
        """As `Store.read`."""
        ...


class Write(Protocol):
    """Runs a function in a transaction, as `Store.write` does; so that a caller may record there what came of it."""

    async def __call__(self, fn: Callable[[Tx], T], /) -> T:
        """As `Store.write`."""
        ...


# One result (or refusal) per request, in order. Runs on the writer's thread, inside a savepoint.
BatchHandler: TypeAlias = Callable[[Tx, Sequence[Req]], Sequence[Res | Exception]]


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Counts of the writer since it was opened."""

    waiting: int
    commits: int
    calls: int
    failed_commits: int
    unheard_errors: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of a table; `bytes` without its indexes. `rows` is None where the engine has not counted them yet."""

    name: str
    rows: int | None
    bytes: int
    index_bytes: int


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The size of a database: all that it uses, and of each table, the largest first.

    Tables are estimated from samples where they are large. `free_bytes` are the database's own already and will be used
    again; None where the engine does not tell.
    """

    bytes: int
    free_bytes: int | None
    tables: tuple[TableSize, ...]


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The disk that a database grows on."""

    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a table: its rows whose ids are at least `begin` and below `end`."""

    table: str
    name: str
    begin: bytes
    end: bytes


class PartitionTx(Tx, Protocol):
    """A transaction that changes partitions; ids are column `id`, the table's primary key."""

    def add_partition(self, part: Partition) -> None:
        """Make it, with the rows that came before it and were kept apart.

        Raises:
            PartitionRefused: there are too many of these; they stay where they are.
        """
        ...

    def note_inserts(self, part: Partition) -> None:
        """Enter the id of every row that comes from now on into the table that was named for that."""
        ...

    def close_table(self, table: str) -> None:
        """Keep everybody from the table until the end of the transaction.

        Raises:
            StoreContended: somebody is just using it, and nobody waits for that.
        """
        ...

    def detach_partition(self, part: Partition) -> None:
        """Take it from its table. Its rows are for `drop_partition` only."""
        ...

    def drop_partition(self, part: Partition) -> None:
        """Remove one that was detached."""
        ...


class Partitions(Protocol):
    """Changes of partitions, on a connection of their own: neither the writer nor a reader waits for the disk."""

    async def change(self, fn: Callable[[PartitionTx], T]) -> T:
        """Run `fn` in a transaction, in a worker thread; again, for some seconds, while others use its table.

        Nobody waits for more than an instant behind it, so it gives way each time.

        Raises:
            PartitionRefused, StoreContended, StoreUnavailable: nothing happened.
            CommitUnknown: it may have happened.
        """
        ...


class Store(Protocol):
    """A database with one writer that groups commits, and query-only readers."""

    @property
    def partitions(self) -> Partitions | None:
        """Where the engine keeps tables in partitions."""
        ...

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a savepoint of the next transaction; for everything rare.

        `fn` runs on the writer's thread, more than once where it meets other nodes' locks. What it raises is raised
        here, and none of its changes happened.

        Raises:
            CommitUnknown: it may have happened.
            StoreBusy, StoreUnavailable, ConstraintViolated: nothing happened.
        """
        ...

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a worker thread on a query-only connection, on one snapshot of the data."""
        ...

    def submit(self, handler: BatchHandler[Req, Res], request: Req) -> Awaitable[Res]:
        """Hand `request` to `handler` together with all that waits for the same handler; for hot writes."""
        ...

    def submit_nowait(
        self, handler: BatchHandler[Req, Res], request: Req, on_failure: Callable[[], None] | None = None
    ) -> None:
        """As `submit`, but nobody waits: an error is logged, counted and told to `on_failure`.

        Raises:
            StoreBusy, StoreUnavailable: at once, when the request was not even queued.
        """
        ...

    async def ping(self) -> None:
        """Prove that the store can be written, by writing. Unlike other calls it may be cancelled at any time."""
        ...

    def announce(self, note: Mapping[str, str]) -> None:
        """Leave a note (such as the admin address) for other processes, readable while this one owns the store."""
        ...

    def statistics(self) -> StoreStatistics:
        """Counters for the operator."""
        ...

    async def measure(self) -> StoreSize:
        """The size of the database and its tables, in a worker thread, by a bounded number of looks."""
        ...

    async def scrub(self, table: str) -> bool:
        """Leave nothing in the files of what was overwritten or deleted in a small table, nor in the log of commits.

        False: somebody was using it, so it has to be tried again. A server's own log is its operator's.

        Raises:
            StorageError: nobody knows.
        """
        ...

    async def flush_log(self) -> None:
        """Write what the log of commits holds into the file, beside the writer, which would else do so between commits.

        For work that writes much and is in no hurry: the fewer pages are left to the writer, the shorter others wait. A
        server does so by itself.

        Raises:
            StorageError: it could not be done.
        """
        ...

    async def disk(self) -> DiskSpace | None:
        """The disk below the database; None where it is another machine's, which does not tell."""
        ...
