"""Reads the tables directly from the database."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import psycopg

from tests.fakes.entries import nets, read_entries
from tests.storm.slots.judge import Event, Found, Money, MonitorRow, RunRow

MONITORS: Final = "SELECT id, account_id, params, created_at, runs_total, credits_spent FROM monitors"
RUNS: Final = "SELECT id, monitor_id, account_id, scheduled_for, status, attempt, credits_used, skip_reason FROM runs"
EVENTS: Final = "SELECT type, subject_id, parent_id FROM events WHERE type LIKE 'monitor.run\\_%' ESCAPE '\\'"
ACCOUNTS: Final = "SELECT id, balance, held FROM accounts"
BEHIND: Final = """
SELECT (SELECT COUNT(*) FROM monitors WHERE status = 'active' AND next_slot_at <= ?)
     + (SELECT COUNT(*) FROM runs WHERE status = 'pending' AND start_at <= ?)
     + (SELECT COUNT(*) FROM runs WHERE status = 'running')
"""
COMING: Final = """
SELECT MIN(at) FROM (SELECT MIN(next_slot_at) AS at FROM monitors WHERE status = 'active'
    UNION ALL SELECT MIN(start_at) FROM runs WHERE status = 'pending') AS coming
"""
OPEN: Final = """
SELECT (SELECT COUNT(*) FROM runs WHERE status IN ('pending', 'running')) + (SELECT SUM(held) FROM accounts)
"""
RUNNING: Final = "SELECT COUNT(*) FROM runs WHERE status = 'running'"
RESUMED: Final = "SELECT COUNT(*) FROM runs WHERE attempt > 1"
LET_PASS: Final = "UPDATE runs SET lease_until = lease_until - 60 WHERE status = 'running' AND node <> ALL (?)"


class Tables:
    """A store's tables. Each statement runs in its own transaction."""

    def __init__(self, connection: Any, mark: str) -> None:
        """`mark` is the placeholder of a parameter."""
        self._connection = connection
        self._mark = mark

    def behind(self, now: float) -> int:
        """Return the number of past slots that have not ended."""
        return int(self._one(BEHIND, (now, now)))

    def coming(self) -> float | None:
        """Return the time of the next slot, or of the next start of a run, whichever is earlier."""
        at: float | None = self._one(COMING)
        return at

    def running(self) -> int:
        """Return how many runs are in progress."""
        return int(self._one(RUNNING))

    def resumed(self) -> int:
        """Return the number of runs that were interrupted and taken over."""
        return int(self._one(RESUMED))

    def is_settled(self) -> bool:
        """Return whether every run has ended and no credits are reserved."""
        return int(self._one(OPEN)) == 0

    def expire_leases(self, keeping: Sequence[str]) -> None:
        """Expire the run leases of all other nodes, as if a minute had passed.

        A living node may change the same runs in another order, so that the server ends one of the two transactions.
        """
        while True:
            with suppress(psycopg.errors.DeadlockDetected):
                self._connection.execute(self._marked(LET_PASS), (list(keeping),))
                return

    def found(self) -> Found:
        """Return everything that the judge checks."""
        entries = read_entries(self._all)
        settled = Counter(entry.request_id for entry in entries if entry.kind == "settlement")
        given = Counter[str]()
        for entry in entries:
            given[entry.account] += entry.amount if entry.kind == "bonus" else 0
        return Found(
            monitors=[MonitorRow(*row) for row in self._all(MONITORS)],
            runs=[RunRow(*row) for row in self._all(RUNS)],
            spent={request_id: (settled[request_id], cost) for request_id, cost in nets(entries).items()},
            events=[Event(*row) for row in self._all(EVENTS)],
            money=[Money(id_, balance, held, given[id_]) for id_, balance, held in self._all(ACCOUNTS)],
        )

    def _one(self, sql: str, params: Sequence[object] = ()) -> Any:
        return self._connection.execute(self._marked(sql), params).fetchone()[0]

    def _all(self, sql: str) -> Iterator[Any]:
        return iter(self._connection.execute(sql).fetchall())

    def _marked(self, sql: str) -> str:
        return sql.replace("?", self._mark)


@contextmanager
def open_tables(url: str) -> Iterator[Tables]:
    """Open the store's tables."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            yield Tables(connection, "?")
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            yield Tables(connection, "%s")
