"""The SQL of cohort queries and their results; each function runs in the caller's transaction."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from scheduler.errors import CohortQueryUnknown
from scheduler.jobs import job_rows
from scheduler.jobs.records import JobRecord
from scheduler.packing import rows_within
from storage.store import Tx


def _of(table: str, columns: str) -> str:
    return ", ".join(f"{table}.{name.strip()}" for name in columns.split(","))


KIND: Final = "cohort-query"
KINDS: Final = (KIND,)
"""The job kind of cohort queries."""
COLUMNS: Final = """
id, cohort_id, account_id, max_credits, members, routes, members_completed, routes_completed, pages_succeeded,
pages_failed, matches, gone
"""
ADD = """
INSERT INTO cohort_queries (id, cohort_id, account_id, max_credits, members, routes) VALUES (?, ?, ?, ?, ?, ?)
"""
READ = f"SELECT {COLUMNS} FROM cohort_queries WHERE id = ? AND account_id = ?"  # noqa: S608 - made of constants
LIST = """
SELECT {queries}, {jobs} FROM cohort_queries AS q JOIN jobs AS j ON j.id = q.id
WHERE q.cohort_id = ? AND q.account_id = ? AND q.gone IS NULL
AND (j.created_at < ? OR (j.created_at = ? AND j.id < ?)) ORDER BY j.created_at DESC, j.id DESC LIMIT ?
""".format(queries=_of("q", COLUMNS), jobs=_of("j", job_rows.COLUMNS))
COUNT = """
UPDATE cohort_queries SET members_completed = members_completed + ?, routes_completed = routes_completed + ?,
    pages_succeeded = pages_succeeded + ?, pages_failed = pages_failed + ?, matches = matches + ?
WHERE id = ?
"""
ADD_RESULTS = "INSERT INTO cohort_results (query_id, number, sealed) VALUES (?, ?, ?)"
EXPIRED = "SELECT 1 FROM cohorts WHERE id = ? AND expires_at <= ?"
RESULT_SIZES = """
SELECT number, length(sealed) FROM cohort_results WHERE query_id = ? AND number >= ? ORDER BY number LIMIT ?
"""
RESULTS = """
SELECT number, sealed FROM cohort_results WHERE query_id = ? AND number >= ? AND number <= ? ORDER BY number
"""
LIVE = """
SELECT q.id FROM cohort_queries AS q JOIN jobs AS j ON j.id = q.id
WHERE q.cohort_id = ? AND q.gone IS NULL AND j.finished_at IS NULL ORDER BY q.id
"""
LEAVE = "UPDATE cohort_queries SET gone = ?, gone_at = ? WHERE cohort_id = ? AND gone IS NULL"
DELETED = "SELECT id FROM cohort_queries WHERE gone = 'deleted' AND gone_at IS NOT NULL ORDER BY gone_at, id LIMIT 1"
OLD = "SELECT id FROM cohort_queries WHERE gone = 'expired' AND gone_at < ? ORDER BY gone_at, id LIMIT 1"
FULL = """
SELECT id FROM cohort_queries AS q WHERE gone_at IS NOT NULL
AND EXISTS (SELECT 1 FROM cohort_results WHERE query_id = q.id) ORDER BY gone_at, id LIMIT 1
"""
DROP_RESULTS = """
DELETE FROM cohort_results WHERE query_id = ?
AND number IN (SELECT number FROM cohort_results WHERE query_id = ? ORDER BY number LIMIT ?)
"""
Gone = Literal["deleted", "expired"]


class QueryRecord(NamedTuple):
    """The part of a query that its job does not store."""

    id: str
    cohort_id: str
    account_id: str
    max_credits: int
    members: int
    routes: int
    """The number of members on platforms that this node can read."""
    members_completed: int = 0
    routes_completed: int = 0
    pages_succeeded: int = 0
    pages_failed: int = 0
    matches: int = 0
    gone: Gone | None = None


class ShardCounts(NamedTuple):
    """The numbers that a shard adds to the progress of its query."""

    members: int
    routes: int
    pages_succeeded: int
    pages_failed: int
    matches: int


def add_query(tx: Tx, query: QueryRecord) -> None:
    """Store a new query whose job is already stored."""
    tx.run(ADD, query[:6])


def owned(tx: Tx, account_id: str, query_id: str, now: float) -> tuple[QueryRecord, JobRecord]:
    """Return an account's query with its job. The query counts as expired if its cohort has expired.

    Raises:
        CohortQueryUnknown: the account has no such query, or its cohort was deleted.
    """
    row = tx.one(READ, (query_id, account_id))
    query = None if row is None else QueryRecord(*row)
    if query is not None and query.gone is None and tx.one(EXPIRED, (query.cohort_id, now)) is not None:
        query = query._replace(gone="expired")
    job = None if query is None or query.gone == "deleted" else job_rows.read_job(tx, query_id)
    if query is None or job is None:
        raise CohortQueryUnknown(query_id)
    return query, job


def queries_of(
    tx: Tx, account_id: str, cohort_id: str, *, before: tuple[float, str] | None, limit: int
) -> list[tuple[QueryRecord, JobRecord]]:
    """Return a page of a cohort's queries with their jobs, newest first."""
    at, id_ = before or (9e15, "")
    found = tx.all(LIST, (cohort_id, account_id, at, at, id_, limit))
    parts = len(QueryRecord._fields)
    return [(QueryRecord(*row[:parts]), JobRecord(*row[parts:])) for row in found]


def add_results(tx: Tx, query_id: str, number: int, sealed: bytes, counts: ShardCounts) -> None:
    """Store the results of a shard, and add its counts to the query."""
    tx.run(ADD_RESULTS, (query_id, number, sealed))
    tx.run(COUNT, (*counts, query_id))


def results_from(tx: Tx, query_id: str, number: int, limit: int) -> list[tuple[int, bytes]]:
    """Return the sealed results of shard `number` and of later shards, up to `limit` shards.

    The results end early where they would exceed the size of a page.
    """
    sizes = tx.all(RESULT_SIZES, (query_id, number, limit))
    if not sizes:
        return []
    last = sizes[rows_within(size for _, size in sizes) - 1][0]
    return [(found, bytes(sealed)) for found, sealed in tx.all(RESULTS, (query_id, number, last))]


def live_queries(tx: Tx, cohort_id: str) -> list[str]:
    """Return the queries of a cohort that have not ended."""
    return [row[0] for row in tx.all(LIVE, (cohort_id,))]


def leave(tx: Tx, cohort_id: str, gone: Gone, now: float) -> None:
    """Record in each query of a cohort why the cohort is being destroyed."""
    tx.run(LEAVE, (gone, now, cohort_id))


def is_left(tx: Tx) -> bool:
    """Return whether there are results without a key, or queries of a deleted cohort."""
    return tx.one(FULL) is not None or tx.one(DELETED) is not None


def next_expired(tx: Tx, before: float) -> str | None:
    """Return a query whose cohort expired before the time `before`."""
    row = tx.one(OLD, (before,))
    return None if row is None else str(row[0])


def drop_results(tx: Tx, limit: int) -> int:
    """Delete a batch of results whose key was destroyed, and return their number."""
    row = tx.one(FULL)
    return 0 if row is None else tx.run(DROP_RESULTS, (row[0], row[0], limit))


def drop_deleted(tx: Tx, limit: int) -> int:
    """Delete a batch of rows of a query whose cohort was deleted. Return 0 if there is no such query."""
    row = tx.one(DELETED)
    if row is not None:
        job_rows.drop_some(tx, row[0], limit)
    return int(row is not None)


def drop_expired(tx: Tx, before: float, limit: int) -> int:
    """Delete a batch of rows of a query whose cohort expired before the time `before`.

    Return 0 if there is no such query.
    """
    query_id = next_expired(tx, before)
    if query_id is not None:
        job_rows.drop_some(tx, query_id, limit)
    return int(query_id is not None)
