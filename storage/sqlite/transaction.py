"""Sets up SQLite connections, runs transactions on them, and translates their errors."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from storage.errors import ConstraintViolated, StoreUnavailable
from storage.sqlite.memo import Memo
from storage.store import Row, T, Value
from storage.transactions import Callback

# Rows are sent in pieces of `ROWS_MAX` or of a multiple of `STEP`, plus one piece for the rest. This keeps the number
# of different statements small. Starting a statement costs 10,000 to 20,000 instructions. If every length had its own
# statement, preparing a new one would cost 60,000.
ROWS_MAX = 64
STEP = 4
STATEMENTS_KEPT = 512
NOW = "((julianday('now') - 2440587.5) * 86400.0)"
# The SQL does not depend on the list's length, so it is prepared only once. The whole list is one parameter, because
# one parameter per value would cost 600 instructions each.
LIST = "(SELECT value FROM json_each(?))"
BUSY_MS = 5000  # the writer waits only for other programs that use the file
CACHE_KIB = 8192
# Pages between checkpoints. A checkpoint costs two more fsyncs, so it should cover many commits (16 MB of log).
CHECKPOINT_PAGES = 4000
LOG_BYTES_KEPT = 67108864

_ENVIRONMENT = {
    sqlite3.SQLITE_BUSY: "the database is locked by another program",
    sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk reports an I/O error",
    sqlite3.SQLITE_LOCKED: "the database is locked",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_NOTADB: "the file is not a database",
    sqlite3.SQLITE_PROTOCOL: "the database's locks do not work; it may be on a network disk",
    sqlite3.SQLITE_READONLY: "the database is read-only",
}


def connect(path: Path, *, query_only: bool = False) -> sqlite3.Connection:
    """Open a connection with explicit transactions, durable commits and foreign keys."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_KEPT, timeout=BUSY_MS / 1000
    )
    try:
        for pragma in _pragmas(query_only=query_only):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


# The file is not mapped into memory. If it were and another program truncated the file, as `cp` does when it overwrites
# a file, SIGBUS would end the process at the next page read.
def _pragmas(*, query_only: bool) -> Iterator[str]:
    yield "journal_mode = WAL"
    # Some builds of SQLite overwrite deleted data by default. This is costly, because every closed charge is deleted,
    # and unnecessary, because the store contains no plain secrets.
    yield "secure_delete = OFF"
    yield "synchronous = FULL"
    yield "foreign_keys = ON"
    yield "temp_store = MEMORY"
    if query_only:
        yield "query_only = ON"
        return
    yield f"cache_size = -{CACHE_KIB}"
    yield f"wal_autocheckpoint = {CHECKPOINT_PAGES}"
    yield f"journal_size_limit = {LOG_BYTES_KEPT}"


def translate(error: Exception) -> Exception:
    """Translate an error of the driver or file system into a StorageError.

    Other errors, which are bugs, are unchanged.
    """
    if isinstance(error, sqlite3.IntegrityError):
        return _with_cause(ConstraintViolated(str(error)), error)
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, sqlite3.Error) and isinstance(code, int) and code & 0xFF in _ENVIRONMENT:
        return _with_cause(StoreUnavailable(f"{_ENVIRONMENT[code & 0xFF]} ({error})"), error)
    return error


def _with_cause(refusal: Exception, cause: Exception) -> Exception:
    refusal.__cause__ = cause
    return refusal


class SqliteTx:
    """A transaction on one connection (see `storage.store.Tx`)."""

    __slots__ = ("_callbacks", "_cursor", "_doubts", "_memo")

    def __init__(
        self,
        cursor: sqlite3.Cursor,
        callbacks: list[Callback] | None = None,
        doubts: list[Callback] | None = None,
        memo: Memo | None = None,
    ) -> None:
        """`on_commit` appends to `callbacks`, which is None if the transaction cannot commit.

        `on_doubt` appends to `doubts`, which is None if a commit cannot be lost. Without a `memo`, no values are kept.
        """
        self._cursor = cursor
        self._callbacks = callbacks
        self._doubts = doubts
        self._memo = memo

    def all(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        """Return all rows."""
        if params and isinstance(params[0], bytes):
            params = [bytearray(value) if isinstance(value, bytes) else value for value in params]  # type: ignore[misc]
        return self._cursor.execute(_plain(sql), params).fetchall()

    def one(self, sql: str, params: Sequence[Value] = ()) -> Row | None:
        """Return the first row, if any."""
        rows = self._cursor.execute(_plain(sql), params).fetchall()
        return rows[0] if rows else None

    def run(self, sql: str, params: Sequence[Value] = ()) -> int:
        """Run a statement that changes rows. Return how many it changed."""
        return self._cursor.execute(_plain(sql), params).rowcount

    def run_many(self, sql: str, rows: Sequence[Sequence[Value]], *, one: str | None = None) -> None:
        """Run one statement for all rows.

        `executemany` is not used, because it releases the interpreter lock at every step, and under load has to wait
        for the lock each time.
        """
        if one is not None and len(rows) == 1:  # faster than `UPDATE ... FROM` with a list of one row
            self._cursor.execute(one, rows[0])
        elif rows:
            self.count_many(sql, rows)

    def count_many(self, sql: str, rows: Sequence[Sequence[Value]], params: Sequence[Value] = ()) -> int:
        """Like `run_many`. Return how many rows it changed."""
        if len(rows) == 1:
            row = [*rows[0], *params]
            if isinstance(row[0], bytes):
                row[0] = bytearray(row[0])  # type: ignore[call-overload]
            return self._cursor.execute(_rows(sql, 1, len(rows[0])), row).rowcount
        changed = 0
        for piece in _pieces(rows):
            width, values = len(piece[0]), [*chain.from_iterable(piece)]
            if isinstance(values[0], bytes):
                values[::width] = _plain_bytes(values[::width])
            values += params
            changed += self._cursor.execute(_rows(sql, len(piece), width), values).rowcount
        return changed

    def all_in(self, sql: str, values: Sequence[Value]) -> list[Row]:
        """Return all rows of a query over the list `{in}`."""
        if not values:
            return []
        if isinstance(values[0], bytes):
            values = _plain_bytes(values)
        if len(values) == 1 and (alone := _over_one(sql)):
            return self._cursor.execute(alone, values).fetchall()
        if isinstance(values[0], bytearray):  # JSON cannot represent bytes
            return [row for one in _filled(values) for row in self._cursor.execute(_over_marks(sql, len(one)), one)]
        return self._cursor.execute(_over_list(sql), (_listed(values),)).fetchall()

    def run_in(self, sql: str, values: Sequence[Value], params: Sequence[Value] = ()) -> int:
        """Run a statement that changes rows over the list `{in}`. Return how many it changed."""
        if not values:
            return 0
        if isinstance(values[0], bytes):
            values = _plain_bytes(values)
        if len(values) == 1 and (alone := _over_one(sql)):
            return self._cursor.execute(alone, (*params, values[0])).rowcount
        if isinstance(values[0], bytearray):  # JSON cannot represent bytes
            pieces = _filled(values)
            return sum(self._cursor.execute(_over_marks(sql, len(one)), (*params, *one)).rowcount for one in pieces)
        return self._cursor.execute(_over_list(sql), (*params, _listed(values))).rowcount

    def lock(self, names: Sequence[str]) -> None:
        """Do nothing, because there is only one writer, so everything is locked."""

    def pin(self, table: str) -> None:
        """Do nothing, because tables on SQLite have no partitions."""

    def recall(self, kind: type[T]) -> T | None:
        """Return the kept value of this kind, if it is still valid."""
        return self._memo.recall(kind) if self._memo is not None else None

    def remember(self, what: object) -> None:
        """Keep `what`, if there is a memo."""
        if self._memo is not None:
            self._memo.remember(what)

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` after the commit."""
        assert self._callbacks is not None, "nothing is committed on a query-only connection"
        self._callbacks.append(callback)

    def on_doubt(self, callback: Callable[[], None]) -> None:
        """Call `callback` if the commit may have been written to a file that was removed or replaced."""
        if self._doubts is not None:
            self._doubts.append(callback)


def _plain_bytes(values: Sequence[Any]) -> list[Any]:
    """Return bytes in a type that the driver binds directly.

    For `bytes`, it would spend 4,000 instructions on adapters.
    """
    return [*map(bytearray, values)]


def _filled(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield pieces of a list for `IN`.

    Pieces are padded with repeated values, because each length needs its own statement.
    """
    for start in range(0, len(values), ROWS_MAX):
        piece = values[start : start + ROWS_MAX]
        yield [*piece, *[piece[-1]] * (-len(piece) % STEP)]


def _pieces(values: Sequence[T]) -> Sequence[Sequence[T]]:
    count = len(values)
    if count <= STEP or (count <= ROWS_MAX and count % STEP == 0):
        return (values,)
    end = count - count % STEP
    pieces = [values[start : min(start + ROWS_MAX, end)] for start in range(0, end, ROWS_MAX)]
    return [*pieces, values[end:]] if end < count else pieces


@lru_cache(maxsize=STATEMENTS_KEPT)
def _over_list(sql: str) -> str:
    """Return `sql` over a list, in SQLite's syntax.

    Cached, because building it took a thirtieth of a lone charge's commit.
    """
    return _plain(sql).replace("{in}", LIST)


@lru_cache(maxsize=STATEMENTS_KEPT)
def _over_marks(sql: str, count: int) -> str:
    """Return `sql` over a list of `count` parameters."""
    return _plain(sql).replace("{in}", "(" + ",".join("?" * count) + ")")


@lru_cache(maxsize=STATEMENTS_KEPT)
def _over_one(sql: str) -> str | None:
    """Return `sql` for a list of one, with the value as the parameter, or None if the SQL has another form.

    For a list, SQLite builds and sorts a table, even if the list has only one value.
    """
    if " IN {in}" in sql and " NOT IN {in}" not in sql:
        return _plain(sql).replace(" IN {in}", " = ?")
    if "FROM {in} AS asked, " in sql and sql.count("asked.value") == 1:
        return _plain(sql).replace("{in} AS asked, ", "").replace("asked.value", "?")
    return None


@lru_cache(maxsize=STATEMENTS_KEPT)
def _rows(sql: str, count: int, columns: int) -> str:
    """Return `sql` over `count` rows."""
    marks = "(" + ",".join("?" * columns) + ")"
    return _plain(sql).replace("{rows}", ",".join([marks] * count))


def _plain(sql: str) -> str:
    """Return `sql` in SQLite's syntax."""
    return sql.replace("{lock}", "").replace("{now}", NOW) if "{" in sql else sql


def _listed(values: Sequence[Value]) -> str:
    """Return the list as JSON. Texts with a NUL are refused, because SQLite would ignore everything after the NUL."""
    text = orjson.dumps(values).decode()
    if "\\u0000" in text and any(isinstance(value, str) and "\0" in value for value in values):
        raise ConstraintViolated("a text contains a NUL")
    return text
