"""Fills a store with settled misses of many accounts, with the rows that a node would have written."""

import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from bench.core.tasks import run_side_by_side
from bench.peers.shared_servers import open_postgres
from bench.scenarios.growth import CREDITS
from billing.accounts.accounts import Accounts
from billing.accounts.balances import Balances
from billing.archive.days import DAY_S, month_of
from billing.archive.months import make_months
from billing.journal import REQUEST
from gateway.config.ids import id_maker
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from storage.postgres.link import open_link
from storage.store import Store, Tx

SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
MADE_AT_ONCE: Final = 1_000
SQLITE_ROWS: Final = 1_000_000
"""The number of rows per statement. It is lower on PostgreSQL, where a statement may take only three seconds."""
POSTGRES_ROWS: Final = 20_000
CACHE_KIB: Final = 262_144
POSTGRES_SETTINGS: Final = ("shared_buffers=2GB", "max_wal_size=8GB")
"""PostgreSQL settings for ten million rows, as an operator would choose them.

They give memory to the pages, and make checkpoints rare.
"""
MONTH_DAYS: Final = 30
PIECES: Final = 100
"""The maximum number of hours in `usage`, each with one row per account.

It applies regardless of the time that the misses cover.
"""

ADD_ENDPOINT: Final = "INSERT INTO endpoints (platform, path) VALUES ('github', '/v1/github/bench') RETURNING id"
_COLUMNS: Final = "id, kind, account, endpoint, taken, taken_at, closed_after, balance_after, balance_closed, place"
_VALUES: Final = f"""{REQUEST}, account, :endpoint, 1, ms * 1000, 5000, {CREDITS} - turn - 1, {CREDITS} - turn - 1,
    turn + 2"""
_MISSED: Final = """
SELECT number, number / :accounts AS turn, number % :accounts + 1 AS account,
    :began_ms + number * :span_ms / :rows AS ms FROM counted
"""
PAIRS: Final = "CREATE TEMP TABLE pairs (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL)"
# Ids are joined from the two-byte values in `pairs`, because SQLite before 3.41 cannot convert a number to bytes.
FILL_SQLITE: Final = f"""
WITH RECURSIVE counted (number) AS (SELECT :first UNION ALL SELECT number + 1 FROM counted WHERE number + 1 < :end),
missed AS ({_MISSED})
INSERT INTO journal ({_COLUMNS})
SELECT CAST(p1.bytes || p2.bytes || p3.bytes || zeroblob(6) || p4.bytes || p5.bytes AS BLOB), {_VALUES}
FROM missed JOIN pairs AS p1 ON p1.number = ms >> 32 JOIN pairs AS p2 ON p2.number = ms >> 16 & 65535
JOIN pairs AS p3 ON p3.number = ms & 65535 JOIN pairs AS p4 ON p4.number = missed.number >> 16
JOIN pairs AS p5 ON p5.number = missed.number & 65535
"""
FILL_POSTGRES: Final = f"""
WITH counted (number) AS (SELECT generate_series(:first, :end - 1)), missed AS ({_MISSED})
INSERT INTO journal ({_COLUMNS})
SELECT substring(int8send(ms) FROM 3) || int4send(0) || substring(int4send(0) FROM 3) || int4send(number::int),
    {_VALUES} FROM missed
"""
# The numbers in a range whose rows belong to the account.
FILL_USAGE: Final = """
INSERT INTO usage (account, hour, endpoint, key, calls, credits, refunds, failures)
SELECT number, :hour, :endpoint, 0, calls, calls, 0, 0 FROM (
    SELECT number, (:end - number + :accounts) / :accounts - (:first - number + :accounts) / :accounts AS calls
    FROM accounts
) AS counted WHERE calls > 0
"""
MOVE_ACCOUNTS: Final = "UPDATE accounts SET balance = balance - :each, place = place + :each, version = version + 1"


@dataclass(frozen=True, slots=True)
class Misses:
    """A description of settled misses, the same number for each account, spread over a period."""

    each: int
    accounts: int
    began_ms: int
    span_ms: int

    @property
    def used_ms(self) -> int:
        """The start of the period in which `usage` counts the misses. It is in the past, even for future months."""
        return min(self.began_ms, int(time.time()) * 1000 - self.span_ms - WEEK_MS)

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.each * self.accounts

    @property
    def words(self) -> dict[str, int]:
        """All values, as parameters of SQL statements."""
        of_time = {"began_ms": self.began_ms, "span_ms": self.span_ms}
        return {"each": self.each, "accounts": self.accounts, "rows": self.rows, **of_time}

    def steps(self, rows: int) -> Iterator[dict[str, int]]:
        """Yield ranges of row numbers, one for each statement."""
        for first in range(0, self.rows, rows):
            yield {"first": first, "end": min(first + rows, self.rows)}

    def hours(self) -> Iterator[dict[str, int]]:
        """Yield the hours in which `usage` counts the misses: all of them, or a selection if there are too many."""
        pieces = max(1, min(PIECES, self.span_ms // HOUR_MS))
        for piece in range(pieces):
            first, end = (self.rows * number // pieces for number in (piece, piece + 1))
            yield {"hour": (self.used_ms + self.span_ms * piece // pieces) // HOUR_MS, "first": first, "end": end}


@asynccontextmanager
async def open_databases(engine: str, folder: Path) -> AsyncIterator[Callable[[str], str]]:
    """Yield a function that returns the address of a new database for a name.

    Until the block ends, the databases are in `folder`. On PostgreSQL, all users must have access to the folder,
    because the server cannot run as root.
    """
    if engine == SQLITE:
        with TemporaryDirectory(prefix="sluice-bench-volume-", dir=folder) as own:
            yield lambda name: f"sqlite:///{own}/{name}.db"
        return
    async with open_postgres(folder, POSTGRES_SETTINGS) as url:
        yield partial(_new_schema, url)


def _new_schema(url: str, name: str) -> str:
    with closing(open_link(url, name="sluice-bench")) as link:
        link.queue(f"CREATE SCHEMA {name}")
        link.fetch()
    return f"{url}?options=-c%20search_path%3D{name}"


async def make_store(url: str, misses: Misses) -> float:
    """Create a store with the misses, and return the seconds that inserting them took.

    On PostgreSQL, also create the months of the misses.
    """
    async with open_store(url, MIGRATIONS) as store:
        made = Accounts(store, Balances(store), now=time.time, make_id=id_maker(time.time, Random(1)))
        for first in range(0, misses.accounts, MADE_AT_ONCE):
            one = partial(made.create, "Bench", credits=CREDITS)
            await run_side_by_side(*[one] * min(MADE_AT_ONCE, misses.accounts - first))
        for day in range(0, misses.span_ms // DAY_MS, MONTH_DAYS):
            await make_months(store, misses.began_ms / 1000 + day * DAY_S)
        began = time.perf_counter()
        if url.startswith(POSTGRESQL):
            await _fill_postgres(store, misses)
    if url.startswith(SQLITE):
        fill_sqlite(Path(url.removeprefix("sqlite:///")), misses)
    return time.perf_counter() - began


def this_month_ms() -> int:
    """Return the start of this month, which is the first month of a new store."""
    return month_of(time.time()) * DAY_MS


def fill_sqlite(file: Path, misses: Misses) -> None:
    """Insert the misses and update the accounts, whose only row so far is their welcome."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        for pragma in (f"cache_size = -{CACHE_KIB}", "synchronous = OFF"):
            database.execute(f"PRAGMA {pragma}")
        database.execute(PAIRS)
        database.executemany("INSERT INTO pairs VALUES (?, ?)", ((n, n.to_bytes(2, "big")) for n in range(1 << 16)))
        (endpoint,) = database.execute(ADD_ENDPOINT).fetchone()
        # The index is created last, so that it receives its entries in order. Row by row, it would take three times as
        # long.
        ((index,),) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'journal_of_account'").fetchall()
        database.execute("DROP INDEX journal_of_account")
        known = {**misses.words, "endpoint": endpoint}
        for step in misses.steps(SQLITE_ROWS):
            database.execute(FILL_SQLITE, known | step)
        database.execute(index)
        for step in misses.hours():
            database.execute(FILL_USAGE, known | step)
        database.execute(MOVE_ACCOUNTS, known)


async def _fill_postgres(store: Store, misses: Misses) -> None:
    """Insert the misses and update the accounts, like `fill_sqlite`."""
    ((endpoint,),) = await store.write(lambda tx: tx.all(ADD_ENDPOINT))
    known = {**misses.words, "endpoint": endpoint}
    for sql, steps in ((FILL_POSTGRES, misses.steps(POSTGRES_ROWS)), (FILL_USAGE, misses.hours())):
        for step in steps:
            await store.write(partial(_run, sql, known | step))
    await store.write(partial(_run, MOVE_ACCOUNTS, known))


def _run(sql: str, words: dict[str, int], tx: Tx) -> None:
    """Run a statement with its named parameters inserted as constants, because PostgreSQL requires constants here."""
    for word in sorted(words, key=len, reverse=True):
        sql = sql.replace(f":{word}", f"{words[word]}::bigint")
    tx.run(sql)
