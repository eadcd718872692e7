"""The SQL of discover runs, their legs and rows; each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from scheduler import packing
from scheduler.errors import DiscoverRunUnknown, JobInvalid, JobUnknown
from scheduler.jobs import job_rows
from scheduler.jobs.discover.records import (
    DiscoverLeg,
    DiscoverRecord,
    DiscoverRow,
    DiscoverView,
    FailedLeg,
)
from scheduler.jobs.discover.spec import KIND
from scheduler.jobs.records import JobRecord
from scheduler.rows import values_of
from storage.store import Tx

LEGS_REPORTED: Final = 20
"""The maximum number of failed legs that are reported with a run."""
RUN_COLUMNS: Final = """
run_id, key_id, view, is_told, schedule_id, max_credits, max_rows, version, rows_total, rows_kept, rows_new, is_cut,
legs_planned, legs_done, legs_empty, legs_failed, told_tenths, told_version, told_new
"""
LEG_COLUMNS: Final = "run_id, number, status, pages, rows_found, credits_used, state, error, rest"
ROW_COLUMNS: Final = """
run_id, number, row_id, key, kind, platform, endpoint, found_in, record, judged, is_new, first_seen_at, first_version,
version, is_gone
"""
_run_values, _leg_values, _row_values = values_of(DiscoverRecord), values_of(DiscoverLeg), values_of(DiscoverRow)
ADD_RUN = f"INSERT INTO discover_runs ({RUN_COLUMNS}) VALUES {{rows}}"  # noqa: S608 - made of constants
READ_RUN = f"SELECT {RUN_COLUMNS} FROM discover_runs WHERE run_id = ?"  # noqa: S608 - made of constants
READ_RUNS = f"SELECT {RUN_COLUMNS} FROM discover_runs WHERE run_id IN {{in}}"  # noqa: S608 - made of constants
SAVE_RUN = """
UPDATE discover_runs SET max_credits = ?, version = ?, rows_total = ?, rows_kept = ?, rows_new = ?, is_cut = ?,
    legs_done = ?, legs_empty = ?, legs_failed = ?, told_tenths = ?, told_version = ?, told_new = ?
WHERE run_id = ?
"""
ADD_LEGS = f"INSERT INTO discover_legs ({LEG_COLUMNS}) VALUES {{rows}}"  # noqa: S608 - made of constants
READ_LEG = f"SELECT {LEG_COLUMNS} FROM discover_legs WHERE run_id = ? AND number = ?"  # noqa: S608 - constants
SAVE_LEG = """
UPDATE discover_legs SET status = ?, pages = ?, rows_found = ?, credits_used = ?, state = ?, error = ?, rest = ?
WHERE run_id = ? AND number = ?
"""
FAILED_LEGS = f"""
SELECT run_id, number, error FROM (
    SELECT run_id, number, error, ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY number) AS place
    FROM discover_legs WHERE run_id IN {{in}} AND status = 'failed'
) AS failed WHERE place <= {LEGS_REPORTED} ORDER BY run_id, number
"""  # noqa: S608 - a number
# Each half uses its own index. With OR, both engines would read all rows of the run.
FIND = f"""
SELECT {ROW_COLUMNS} FROM discover_rows WHERE run_id = ? AND is_gone = 0 AND key IN ({{keys}})
UNION ALL SELECT {ROW_COLUMNS} FROM discover_rows WHERE run_id = ? AND row_id IN ({{ids}})
"""  # noqa: S608 - made of constants
READ_ROW = f"SELECT {ROW_COLUMNS} FROM discover_rows WHERE run_id = ? AND row_id = ?"  # noqa: S608 - constants
SAVE_ROWS = f"""
INSERT INTO discover_rows ({ROW_COLUMNS}) VALUES {{rows}}
ON CONFLICT (run_id, number) DO UPDATE SET key = excluded.key, found_in = excluded.found_in, record = excluded.record,
    judged = excluded.judged, version = excluded.version, is_gone = excluded.is_gone
"""  # noqa: S608 - made of constants
# Each list takes two queries: the first reads the sizes of its rows without their records, the second reads the rows
# that fit.
_SIZE: Final = "COALESCE(length(record), 0) + length(found_in) + COALESCE(length(judged), 0)"
ROW_SIZES = f"""
SELECT number, {_SIZE} FROM discover_rows WHERE run_id = ? AND number > ? AND is_gone = 0 AND COALESCE(is_new, 0) >= ?
ORDER BY number LIMIT ?
"""  # noqa: S608 - made of constants
LIST_ROWS = f"""
SELECT {ROW_COLUMNS} FROM discover_rows
WHERE run_id = ? AND number > ? AND number <= ? AND is_gone = 0 AND COALESCE(is_new, 0) >= ? ORDER BY number
"""  # noqa: S608 - made of constants
CHANGED_SIZES = f"""
SELECT version, {_SIZE} FROM discover_rows WHERE run_id = ? AND version > ? ORDER BY version LIMIT ?
"""  # noqa: S608 - made of constants
CHANGED = f"""
SELECT {ROW_COLUMNS} FROM discover_rows WHERE run_id = ? AND version > ? AND version <= ? ORDER BY version
"""  # noqa: S608 - made of constants
SEE = "INSERT INTO discover_seen (schedule_id, row_id, run_id) VALUES {rows} ON CONFLICT DO NOTHING"
SEEN_HERE = "SELECT row_id FROM discover_seen WHERE schedule_id = ? AND run_id = ? AND row_id IN ({ids})"


def add_run(tx: Tx, run: DiscoverRecord) -> None:
    """Store a new run with its legs."""
    tx.run_many(ADD_RUN, [_run_values(run)])
    legs = (
        DiscoverLeg(run.run_id, number, "pending", 0, 0, 0, None, None) for number in range(1, run.legs_planned + 1)
    )
    tx.run_many(ADD_LEGS, [_leg_values(one) for one in legs])


def read_run(tx: Tx, run_id: str) -> DiscoverRecord | None:
    """Return the run with this id, or None."""
    row = tx.one(READ_RUN, (run_id,))
    return None if row is None else DiscoverRecord(*row)


def the_run(tx: Tx, run_id: str) -> DiscoverRecord:
    """Return the run of a discover job, which must exist."""
    run = read_run(tx, run_id)
    assert run is not None, "every discover job has a run"
    return run


def owned(tx: Tx, account_id: str, run_id: str, *, locked: bool = False) -> DiscoverView:
    """Return a run of the account.

    Raises:
        DiscoverRunUnknown: the account has no such run.
    """
    try:
        job = job_rows.owned(tx, account_id, run_id, (KIND,), locked=locked)
    except JobUnknown as exc:
        raise DiscoverRunUnknown(run_id) from exc
    return DiscoverView(job, the_run(tx, run_id))


def runs_of(tx: Tx, jobs: Sequence[JobRecord]) -> list[DiscoverView]:
    """Return these jobs with their runs."""
    found = {row[0]: DiscoverRecord(*row) for row in tx.all_in(READ_RUNS, [job.id for job in jobs])}
    return [DiscoverView(job, found[job.id]) for job in jobs if job.id in found]


def save_run(tx: Tx, run: DiscoverRecord) -> None:
    """Save the changed fields of a run."""
    counts = (run.rows_total, run.rows_kept, run.rows_new, run.is_cut, run.legs_done, run.legs_empty, run.legs_failed)
    told = (run.told_tenths, run.told_version, run.told_new)
    tx.run(SAVE_RUN, (run.max_credits, run.version, *counts, *told, run.run_id))


def read_leg(tx: Tx, run_id: str, number: int) -> DiscoverLeg:
    """Return a leg of a run."""
    row = tx.one(READ_LEG, (run_id, number))
    assert row is not None, "a leg is stored with its run"
    return DiscoverLeg(*row)


def save_leg(tx: Tx, leg: DiscoverLeg) -> None:
    """Save the changed fields of a leg."""
    values = (leg.status, leg.pages, leg.rows_found, leg.credits_used, leg.state, leg.error, leg.rest)
    tx.run(SAVE_LEG, (*values, leg.run_id, leg.number))


def failed_legs(tx: Tx, run_ids: Sequence[str]) -> dict[str, list[FailedLeg]]:
    """Return the first failed legs of each of these runs."""
    found: dict[str, list[FailedLeg]] = {}
    for run_id, *leg in tx.all_in(FAILED_LEGS, run_ids):
        found.setdefault(run_id, []).append(FailedLeg(*leg))
    return found


def find_rows(tx: Tx, run_id: str, keys: Sequence[str], row_ids: Sequence[str]) -> list[DiscoverRow]:
    """Return the rows that have one of the `keys` or `row_ids`. Rows found by id may have been dropped."""
    if not keys:
        return []
    sql = FIND.replace("{keys}", _places(keys)).replace("{ids}", _places(row_ids))
    found = (DiscoverRow(*row) for row in tx.all(sql, (run_id, *keys, run_id, *row_ids)))
    return list({one.number: one for one in found}.values())


def read_row(tx: Tx, run_id: str, row_id: str) -> DiscoverRow | None:
    """Return the row with this id, even if it was dropped."""
    row = tx.one(READ_ROW, (run_id, row_id))
    return None if row is None else DiscoverRow(*row)


def save_rows(tx: Tx, rows: Iterable[DiscoverRow]) -> None:
    """Save rows. Dropped rows come first, because another row may already have their key."""
    ordered = sorted(rows, key=lambda row: (not row.is_gone, row.number))
    if ordered:
        tx.run_many(SAVE_ROWS, [_row_values(one) for one in ordered])


def see(tx: Tx, schedule_id: str, run_id: str, row_ids: Sequence[str]) -> set[str]:
    """Record the rows of an occurrence, and return the ids that no earlier occurrence has found."""
    if not row_ids:
        return set()
    # In the same order on every node, to prevent deadlocks.
    tx.run_many(SEE, [(schedule_id, row_id, run_id) for row_id in sorted(row_ids)])
    sql = SEEN_HERE.replace("{ids}", _places(row_ids))
    return {row[0] for row in tx.all(sql, (schedule_id, run_id, *row_ids))}


def rows_after(
    tx: Tx, run_id: str, after: int, *, limit: int, only_new: bool, bytes_max: int
) -> tuple[list[DiscoverRow], bool]:
    """Return at most `limit` rows after number `after`, in order, and whether there are more.

    With `only_new`, return only rows that no earlier occurrence has found. The rows have at most `bytes_max` bytes in
    total in stored form, unless the first row alone is larger.
    """
    sizes = tx.all(ROW_SIZES, (run_id, after, int(only_new), limit + 1))
    count = min(limit, packing.rows_within((size for _, size in sizes), bytes_max))
    if not count:
        return [], False
    rows = tx.all(LIST_ROWS, (run_id, after, sizes[count - 1][0], int(only_new)))
    return [DiscoverRow(*row) for row in rows], len(sizes) > count


def number_after(tx: Tx, run_id: str, row_id: str | None) -> int:
    """Return the number of a row, even if the row was dropped, or 0 if `row_id` is None.

    Raises:
        JobInvalid: the run has no such row.
    """
    if row_id is None:
        return 0
    row = read_row(tx, run_id, row_id)
    if row is None:
        raise JobInvalid(
            "after", "is not a row of this run", "Send the row_id of the last line that you received, or omit it."
        )
    return row.number


def changes_since(tx: Tx, run_id: str, since: int, limit: int) -> tuple[list[DiscoverRow], bool]:
    """Return at most `limit` rows changed after version `since`, in order of version, and whether there are more.

    Their size is limited as in `rows_after`.
    """
    sizes = tx.all(CHANGED_SIZES, (run_id, since, limit + 1))
    count = min(limit, packing.rows_within(size for _, size in sizes))
    if not count:
        return [], False
    rows = tx.all(CHANGED, (run_id, since, sizes[count - 1][0]))
    return [DiscoverRow(*row) for row in rows], len(sizes) > count


def packed(record: Mapping[str, Any]) -> bytes:
    """Return a record in stored form."""
    return packing.packed(orjson.dumps(record))


def rows_with_records(rows: Iterable[DiscoverRow], unpacker: packing.Unpacker) -> Iterator[DiscoverRow]:
    """Yield the first rows with their records decompressed, as many as the unpacker has room for."""
    for row in rows:
        if (bodies := unpacker.take(row.record)) is None:
            return
        yield replace(row, record=bodies[0])


def record_of(row: DiscoverRow) -> dict[str, Any]:
    """Return the record of a row that was not dropped."""
    assert row.record is not None, "the row was not dropped"
    record: dict[str, Any] = orjson.loads(packing.unpacked(row.record))
    return record


def _places(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
