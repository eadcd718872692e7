"""Deletes old data of monitors: full results and deliveries first, runs with their numbers much later.

As in the feed, whole days are deleted, a few rows per transaction and with pauses, so that neither readers nor the
writer wait. An index finds the rows, and no other row refers to them. Several nodes may therefore sweep at the same
time, and an interrupted sweep is completed by the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import trio

from events.log.retention import PAUSE_S, cutoff
from storage.store import Row, Store, Tx

# Each query returns rows as (time, id, whether the row must be kept), starting after a given time and id.
FIND_DELIVERIES = """
SELECT created_at, id, 0 FROM deliveries
WHERE status <> 'queued' AND created_at < ? AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?
"""
DROP_DELIVERIES = "DELETE FROM deliveries WHERE status <> 'queued' AND id IN {in}"
FIND_RESULTS = """
SELECT kept_at, run_id, 0 FROM run_data
WHERE result IS NOT NULL AND kept_at < ? AND (kept_at, run_id) > (?, ?) ORDER BY kept_at, run_id LIMIT ?
"""
DROP_RESULTS = "UPDATE run_data SET result = NULL WHERE result IS NOT NULL AND run_id IN {in}"
HELD = """
(EXISTS (SELECT 1 FROM monitors WHERE monitors.id = runs.monitor_id AND monitors.baseline_run_id = runs.id)
    OR EXISTS (SELECT 1 FROM deliveries WHERE deliveries.run_id = runs.id))
"""
FIND_RUNS = f"""
SELECT finished_at, id, CASE WHEN {HELD} THEN 1 ELSE 0 END FROM runs
WHERE finished_at IS NOT NULL AND finished_at < ? AND (finished_at, id) > (?, ?) ORDER BY finished_at, id LIMIT ?
"""  # noqa: S608 - made of constants
DROP_RUNS = f"DELETE FROM runs WHERE finished_at IS NOT NULL AND NOT {HELD} AND id IN {{in}}"  # noqa: S608 - constants


FIND_CHECKS = f"""
SELECT keep_until, id, CASE WHEN {HELD} THEN 1 ELSE 0 END FROM runs
WHERE keep_until IS NOT NULL AND keep_until < ? AND (keep_until, id) > (?, ?) ORDER BY keep_until, id LIMIT ?
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True)
class Retention:
    """How many whole days data is kept.

    Full results and deliveries are deleted first, runs with their numbers later. Web checks are kept as long as their
    own watch requires.
    """

    runs_days: int = 400
    results_days: int = 30


class Swept(NamedTuple):
    """The numbers of deleted rows."""

    deliveries: int
    results: int
    runs: int


class _Kind(NamedTuple):
    """The statements that find and delete rows of one kind, and how many rows to delete per transaction."""

    find: str
    drop: str
    at_once: int


# Fewer deliveries and results per transaction, because they are large and freeing their pages takes most of the time.
DELIVERIES: Final = _Kind(FIND_DELIVERIES, DROP_DELIVERIES, 20)
RESULTS: Final = _Kind(FIND_RESULTS, DROP_RESULTS, 50)
RUNS: Final = _Kind(FIND_RUNS, DROP_RUNS, 100)
CHECKS: Final = _Kind(FIND_CHECKS, DROP_RUNS, 100)


async def sweep(store: Store, now: float, retention: Retention, *, chunk: int = 500, pause_s: float = PAUSE_S) -> Swept:
    """Delete data that is older than its retention, at most `chunk` rows per transaction.

    Unfinished runs, baselines of monitors, runs with a delivery, and queued deliveries are never deleted.

    Raises:
        StorageError: the next sweep deletes the rest.
    """
    runs_before = cutoff(now, retention.runs_days)
    before = max(runs_before, cutoff(now, retention.results_days))
    drop = partial(_drop, store, chunk=chunk, pause_s=pause_s)
    deliveries, results = await drop(DELIVERIES, before), await drop(RESULTS, before)
    return Swept(deliveries, results, await drop(RUNS, runs_before) + await drop(CHECKS, now))


async def _drop(store: Store, kind: _Kind, before: float, *, chunk: int, pause_s: float) -> int:
    limit, removed = min(chunk, kind.at_once), 0
    after: tuple[float, str] = (-9e15, "")
    while found := await store.read(partial(_find, sql=kind.find, before=before, after=after, limit=limit)):
        after = found[-1][0], found[-1][1]
        if ids := [id_ for _at, id_, stays in found if not stays]:
            removed += await store.write(partial(_drop_some, sql=kind.drop, ids=ids))
            await trio.sleep(pause_s)
    return removed


def _find(tx: Tx, sql: str, before: float, after: tuple[float, str], limit: int) -> list[Row]:
    return tx.all(sql, (before, *after, limit))


def _drop_some(tx: Tx, sql: str, ids: list[str]) -> int:
    return tx.run_in(sql, ids)
