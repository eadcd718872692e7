"""The protocols that every database engine implements, for use by the other packages."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Req = TypeVar("Req")
Res = TypeVar("Res")

Item: TypeAlias = int | float | str | None
Value: TypeAlias = Item | bytes
# Columns have no static types. The function that runs the SQL converts the row into a typed record.
Row: TypeAlias = tuple[Any, ...]


class Tx(Protocol):
    """One transaction. Placeholders are `?`; the SQL is the subset that SQLite and PostgreSQL share.

    `{lock}` at the end of a query locks its rows if several nodes write. Rows are locked in the order of the query, so
    the query should have an ORDER BY. `{now}` is the database's clock in Unix seconds.
    """

    def all(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        """Return all rows."""
        ...

    def one(self, sql: str, params: Sequence[Value] = ()) -> Row | None:
        """Return the first row, if any."""
        ...

    def run(self, sql: str, params: Sequence[Value] = ()) -> int:
        """Run a statement that changes rows. Return how many it changed."""
        ...

    def run_many(self, sql: str, rows: Sequence[Sequence[Value]], *, one: str | None = None) -> None:
        """Run one set-based statement for all `rows`, which replace `{rows}` in the SQL in the form `(?, ?), (?, ?)`.

        `one` is an equivalent statement for a single row, with `?1` and `?2`, for a database on which joining a list of
        one is costly.
        """
        ...

    def count_many(self, sql: str, rows: Sequence[Sequence[Value]], params: Sequence[Value] = ()) -> int:
        """Like `run_many`, but wait for the result. Return how many rows it changed. All `params` come after `{rows}`.

        The statement must begin with its verb, because drivers check that.
        """
        ...

    def all_in(self, sql: str, values: Sequence[Value]) -> list[Row]:
        """Return all rows of a query over `values`. Return no rows if `values` is empty.

        The values replace `{in}`, which occurs once in the SQL, either after a column as `IN {in}`, or as a table `{in}
        AS asked` with the column `value`. With `FROM {in} AS asked, ...` and a single `asked.value`, a list of one is
        as cheap as a single value. Bytes are allowed only in the form `IN {in}`.
        """
        ...

    def run_in(self, sql: str, values: Sequence[Value], params: Sequence[Value] = ()) -> int:
        """Like `all_in`, but for a statement that changes rows. Return how many it changed.

        All `params` come before `{in}`.
        """
        ...

    def lock(self, names: Sequence[str]) -> None:
        """Lock `names` until the end of the transaction if several nodes write.

        Use it for rows that do not exist yet.
        """
        ...

    def pin(self, table: str) -> None:
        """Keep the table's partitions unchanged until the end of the transaction.

        This must be the transaction's first statement. Otherwise a partition may be removed between the transaction's
        snapshot and its first use of the table.
        """
        ...

    def recall(self, kind: type[T]) -> T | None:
        """Return the value from the last `remember` if it is a `kind` and nothing was written since.

        Otherwise return a new `kind`. Return None if other nodes can write, or in a query-only transaction.
        """
        ...

    def remember(self, what: object) -> None:
        """Keep a value that is derived from the current rows for a later `recall`.

        The value is dropped if the transaction is rolled back. Only one value is kept, because any later write
        invalidates it.
        """
        ...

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the Trio side after the commit, in commit order, and before waiting callers resume.

        It must not raise or block. Using this in a query-only transaction is a bug.
        """
        ...

    def on_doubt(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the Trio side if the connection is lost during the commit and the outcome is unknown.

        The waiting caller gets CommitUnknown. The store runs no later call until the lost commit has either taken
        effect or failed.
        """
        ...


class Read(Protocol):
    """Runs a function on one snapshot of the data, like `Store.read`."""

    async def __call__(self, fn: Callable[[Tx], T], /) -> T:
        """Like `Store.read`."""
        ...


class Write(Protocol):
    """Runs a function in a transaction, like `Store.write`.

    With another `Write`, a caller can record the result in the same transaction.
    """

    async def __call__(self, fn: Callable[[Tx], T], /) -> T:
        """Like `Store.write`."""
        ...


# Returns one result (or error) per request, in order. Runs on the writer's thread, inside a savepoint.
BatchHandler: TypeAlias = Callable[[Tx, Sequence[Req]], Sequence[Res | Exception]]


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Counters of the writer since it was opened."""

    waiting: int
    commits: int
    calls: int
    failed_commits: int
    background_errors: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of a table. `bytes` excludes its indexes. `rows` is None if the engine has not counted the rows yet."""

    name: str
    rows: int | None
    bytes: int
    index_bytes: int


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The size of a database and of each table, largest first. The sizes of large tables are estimated from samples.

    `free_bytes` are part of the database and will be reused. None if the engine does not report them.
    """

    bytes: int
    free_bytes: int | None
    tables: tuple[TableSize, ...]


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The disk that contains the database."""

    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a table: its rows with ids of at least `begin` and below `end`."""

    table: str
    name: str
    begin: bytes
    end: bytes


class PartitionTx(Tx, Protocol):
    """A transaction that changes partitions. Tables are partitioned by their primary key, the column `id`."""

    def add_partition(self, part: Partition) -> None:
        """Create the partition, and move into it its rows that arrived earlier and were stored separately.

        Raises:
            PartitionRefused: there are too many of these rows, so they stay where they are.
        """
        ...

    def note_inserts(self, part: Partition) -> None:
        """From now on, add the id of each row inserted into the partition to the table of late ids."""
        ...

    def close_table(self, table: str) -> None:
        """Lock the table exclusively until the end of the transaction.

        Raises:
            StoreContended: the table is in use. The call does not wait.
        """
        ...

    def detach_partition(self, part: Partition) -> None:
        """Detach the partition from its table. After that, only `drop_partition` may be called for it."""
        ...

    def drop_partition(self, part: Partition) -> None:
        """Drop a detached partition."""
        ...


class Partitions(Protocol):
    """Changes partitions on a separate connection, so that neither the writer nor readers wait for the disk."""

    async def change(self, fn: Callable[[PartitionTx], T]) -> T:
        """Run `fn` in a transaction in a worker thread. Retry for a few seconds while the table is in use.

        Each attempt gives up after a moment, so that other users of the table never wait for long.

        Raises:
            PartitionRefused, StoreContended, StoreUnavailable: nothing was changed.
            CommitUnknown: the change may have taken effect.
        """
        ...


class Store(Protocol):
    """A database with one writer that groups commits, and query-only readers."""

    @property
    def partitions(self) -> Partitions | None:
        """The partitions, if the engine supports them."""
        ...

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a savepoint of the next transaction. Use this for rare writes.

        `fn` runs on the writer's thread, and again if other nodes' locks block it. If `fn` raises an exception, none of
        its changes take effect, and this method raises the same exception.

        Raises:
            CommitUnknown: the changes may have taken effect.
            StoreBusy, StoreUnavailable, ConstraintViolated: nothing was changed.
        """
        ...

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a worker thread on a query-only connection, on one snapshot of the data."""
        ...

    def submit(self, handler: BatchHandler[Req, Res], request: Req) -> Awaitable[Res]:
        """Pass `request` to `handler`, together with all other requests that wait for the same handler.

        Use this for hot writes.
        """
        ...

    def submit_nowait(
        self, handler: BatchHandler[Req, Res], request: Req, on_failure: Callable[[], None] | None = None
    ) -> None:
        """Like `submit`, without waiting for the result. Errors are logged, counted and passed to `on_failure`.

        Raises:
            StoreBusy, StoreUnavailable: immediately, if the request was not queued.
        """
        ...

    async def ping(self) -> None:
        """Prove that the store can be written, by writing to it.

        Unlike other calls, this one can be cancelled at any time.
        """
        ...

    def announce(self, note: Mapping[str, str]) -> None:
        """Write a note for other processes, such as the admin address.

        They can read it while this process owns the store.
        """
        ...

    def statistics(self) -> StoreStatistics:
        """Return counters for the operator."""
        ...

    async def measure(self) -> StoreSize:
        """Return the size of the database and its tables. Runs in a worker thread, with a bounded number of reads."""
        ...

    async def scrub(self, table: str) -> bool:
        """Remove overwritten and deleted data of a small table from the files and from the commit log.

        Return False if the table was in use and the call must be repeated. The log of a database server is the
        operator's responsibility.

        Raises:
            StorageError: the result is unknown.
        """
        ...

    async def flush_log(self) -> None:
        """Write the commit log into the file in parallel with the writer, which would otherwise do so between commits.

        Call this in work that writes much and is not urgent. Other calls then wait less, because fewer pages remain for
        the writer. A database server does this automatically.

        Raises:
            StorageError: the log could not be written.
        """
        ...

    async def disk(self) -> DiskSpace | None:
        """Return the space of the disk that contains the database; None if a remote server does not report it."""
        ...
