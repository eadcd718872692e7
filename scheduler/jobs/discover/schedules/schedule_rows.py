"""The SQL of discover schedules and their occurrences; each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.errors import ScheduleUnknown
from scheduler.jobs.discover.schedules.records import DiscoverSchedule, Occurrence
from scheduler.rows import values_of
from storage.store import Tx

DROPPED_AT_ONCE: Final = 500
COLUMNS: Final = """
id, account_id, key_id, name, body, cadence, status, paused_because, next_slot_at, skips, last_run_id, created_at,
updated_at
"""
_values, _occurrence_values = values_of(DiscoverSchedule), values_of(Occurrence)
ADD = f"INSERT INTO discover_schedules ({COLUMNS}) VALUES {{rows}}"  # noqa: S608 - made of constants
READ = f"SELECT {COLUMNS} FROM discover_schedules WHERE id = ?"  # noqa: S608 - made of constants
LIST = f"""
SELECT {COLUMNS} FROM discover_schedules WHERE account_id = ? AND (created_at < ? OR (created_at = ? AND id < ?))
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
SAVE = """
UPDATE discover_schedules SET name = ?, body = ?, cadence = ?, status = ?, paused_because = ?, next_slot_at = ?,
    skips = ?, last_run_id = ?, updated_at = ?
WHERE id = ?
"""
COUNT = "SELECT COUNT(*) FROM discover_schedules WHERE account_id = ?"
NEXT = "SELECT MIN(next_slot_at) FROM discover_schedules WHERE status = 'active'"
DUE = """
SELECT id, account_id FROM discover_schedules WHERE status = 'active' AND next_slot_at <= ?
ORDER BY next_slot_at, id LIMIT ?
"""
LOCKED = f"""
SELECT {COLUMNS} FROM discover_schedules WHERE id IN {{in}} AND status = 'active' ORDER BY id {{lock}}
"""  # noqa: S608 - made of constants
AHEAD = f"""
SELECT {COLUMNS} FROM discover_schedules WHERE status = 'active' AND next_slot_at > ?
ORDER BY next_slot_at DESC, id LIMIT ? {{lock}}
"""  # noqa: S608 - made of constants
MAKE_OLDER = "UPDATE discover_schedules SET created_at = ? WHERE id = ?"
ADD_OCCURRENCES = """
INSERT INTO discover_occurrences (schedule_id, scheduled_for, run_id, skip_reason, at) VALUES {rows}
ON CONFLICT DO NOTHING
"""
TAKEN = "SELECT 1 FROM discover_occurrences WHERE schedule_id = ? AND scheduled_for = ?"
OCCURRENCES = """
SELECT schedule_id, scheduled_for, run_id, skip_reason, at FROM discover_occurrences
WHERE schedule_id = ? AND scheduled_for < ? ORDER BY scheduled_for DESC LIMIT ?
"""
DROP_SEEN = """
DELETE FROM discover_seen WHERE schedule_id = ?
AND row_id IN (SELECT row_id FROM discover_seen WHERE schedule_id = ? ORDER BY row_id LIMIT ?)
"""
DROP_OCCURRENCES = """
DELETE FROM discover_occurrences WHERE schedule_id = ? AND scheduled_for IN
    (SELECT scheduled_for FROM discover_occurrences WHERE schedule_id = ? ORDER BY scheduled_for LIMIT ?)
"""
DROP = "DELETE FROM discover_schedules WHERE id = ?"
OLD = "SELECT schedule_id, scheduled_for FROM discover_occurrences WHERE at < ? ORDER BY at LIMIT ?"
DROP_OLD = "DELETE FROM discover_occurrences WHERE schedule_id = ? AND scheduled_for = ?"
OF_ACCOUNT = "SELECT id FROM discover_schedules WHERE account_id = ? LIMIT 1"
HALT = "UPDATE discover_schedules SET status = 'paused', next_slot_at = NULL WHERE id = ?"


def add_schedule(tx: Tx, schedule: DiscoverSchedule) -> None:
    """Store a new schedule."""
    tx.run_many(ADD, [_values(schedule)])


def owned(tx: Tx, account_id: str, schedule_id: str, *, locked: bool = False) -> DiscoverSchedule:
    """Return the account's schedule.

    Raises:
        ScheduleUnknown: the account has no such schedule.
    """
    row = tx.one(f"{READ} {{lock}}" if locked else READ, (schedule_id,))
    if row is None or row[1] != account_id:
        raise ScheduleUnknown(schedule_id)
    return DiscoverSchedule(*row)


def schedules_page(tx: Tx, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[DiscoverSchedule]:
    """Return at most `limit` schedules of an account, newest first."""
    at, id_ = before or (9e15, "")
    return [DiscoverSchedule(*row) for row in tx.all(LIST, (account_id, at, at, id_, limit))]


def save_schedule(tx: Tx, schedule: DiscoverSchedule) -> None:
    """Save the changed fields of a schedule."""
    one = schedule
    values = (one.name, one.body, one.cadence, one.status, one.paused_because, one.next_slot_at, one.skips)
    tx.run(SAVE, (*values, one.last_run_id, one.updated_at, one.id))


def count_schedules(tx: Tx, account_id: str) -> int:
    """Return the number of schedules of an account."""
    row = tx.one(COUNT, (account_id,))
    assert row is not None, "COUNT returns one row"
    return int(row[0])


def next_due_at(tx: Tx) -> float | None:
    """Return the earliest next slot of all schedules, or None."""
    row = tx.one(NEXT)
    return None if row is None else row[0]


def due_schedules(tx: Tx, now: float, limit: int) -> list[tuple[str, str]]:
    """Return the ids of schedules whose slot has arrived, with their accounts."""
    return [(row[0], row[1]) for row in tx.all(DUE, (now, limit))]


def lock_schedules(tx: Tx, ids: Sequence[str]) -> list[DiscoverSchedule]:
    """Lock these schedules and return the active ones."""
    return [DiscoverSchedule(*row) for row in tx.all_in(LOCKED, ids)]


def schedules_ahead(tx: Tx, now: float, limit: int) -> list[DiscoverSchedule]:
    """Lock and return active schedules with a future slot, furthest first."""
    return [DiscoverSchedule(*row) for row in tx.all(AHEAD, (now, limit))]


def make_older(tx: Tx, schedule_id: str, created_at: float) -> None:
    """Correct a creation time that a fast clock has set."""
    tx.run(MAKE_OLDER, (created_at, schedule_id))


def add_occurrences(tx: Tx, occurrences: Sequence[Occurrence]) -> None:
    """Store the outcomes of slots. Existing outcomes are kept."""
    if occurrences:
        tx.run_many(ADD_OCCURRENCES, [_occurrence_values(one) for one in occurrences])


def is_taken(tx: Tx, schedule_id: str, slot: float) -> bool:
    """Return whether a slot of a schedule was already run or skipped."""
    return tx.one(TAKEN, (schedule_id, slot)) is not None


def occurrences_page(tx: Tx, schedule_id: str, *, before: float | None, limit: int) -> list[Occurrence]:
    """Return at most `limit` occurrences of a schedule, newest first."""
    return [Occurrence(*row) for row in tx.all(OCCURRENCES, (schedule_id, 9e15 if before is None else before, limit))]


def halt(tx: Tx, schedule_id: str) -> None:
    """Pause a schedule, so that none of its slots are opened any more."""
    tx.run(HALT, (schedule_id,))


def drop_some(tx: Tx, schedule_id: str) -> bool:
    """Delete a batch of a schedule's rows, and the schedule together with the last batch.

    Return True once it is deleted.
    """
    for sql in (DROP_SEEN, DROP_OCCURRENCES):
        if tx.run(sql, (schedule_id, schedule_id, DROPPED_AT_ONCE)) == DROPPED_AT_ONCE:
            return False
    tx.run(DROP, (schedule_id,))
    return True


def forget_schedules_of(tx: Tx, account_id: str) -> int:
    """Delete a batch of rows of a deleted account's schedules. Return 0 once none are left."""
    row = tx.one(OF_ACCOUNT, (account_id,))
    if row is None:
        return 0
    halt(tx, row[0])
    drop_some(tx, row[0])
    return 1


def drop_old_occurrences(tx: Tx, before: float) -> int:
    """Delete a batch of occurrences that were recorded before the time `before`, and return their number."""
    old = tx.all(OLD, (before, DROPPED_AT_ONCE))
    for row in old:
        tx.run(DROP_OLD, (row[0], row[1]))
    return len(old)
