"""The SQL of runs: opening, leasing, ending and reading. Each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

from scheduler import packing
from scheduler.clock.catch_up import Ready
from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor, Run, RunData
from scheduler.rows import values_of
from storage.store import Tx

LEASE_S: Final = 30.0

COLUMNS: Final = """
runs.id, runs.monitor_id, runs.account_id, runs.scheduled_for, runs.status, runs.start_at, runs.attempt, runs.node,
runs.lease_until, runs.started_at, runs.finished_at, runs.credits_used + runs.failure_credits, runs.skip_reason,
runs.legs, runs.alerts, runs.warnings, runs.rows_count, runs.keep_until
"""
WIDTH: Final = len(COLUMNS.split(","))
_values = values_of(Run)
ADD = """
INSERT INTO runs (id, monitor_id, account_id, scheduled_for, status, start_at, attempt, node, lease_until, started_at,
                  finished_at, credits_used, skip_reason, legs, alerts, warnings, rows_count, keep_until)
VALUES {rows} ON CONFLICT (monitor_id, scheduled_for) DO NOTHING
"""
READ = f"SELECT {COLUMNS} FROM runs WHERE id = ?"  # noqa: S608 - made of constants
READ_SLOT = f"SELECT {COLUMNS} FROM runs WHERE monitor_id = ? AND scheduled_for = ?"  # noqa: S608 - made of constants
ACTIVE = "SELECT DISTINCT monitor_id FROM runs WHERE monitor_id IN {in} AND status IN ('pending', 'running')"
TAKEN = """
SELECT runs.monitor_id, runs.scheduled_for FROM {in} AS asked JOIN monitors ON monitors.id = asked.value
JOIN runs ON runs.monitor_id = monitors.id AND runs.scheduled_for >= monitors.next_slot_at
"""
PENDING = (
    "SELECT start_at, account_id, id FROM runs WHERE status = 'pending' AND start_at <= ? ORDER BY start_at LIMIT ?"
)
EXPIRED = """
SELECT lease_until, account_id, id FROM runs WHERE status = 'running' AND lease_until < ? ORDER BY lease_until LIMIT ?
"""
NEXT_START = "SELECT MIN(start_at) FROM runs WHERE status = 'pending' AND start_at > ?"
LOCK = "SELECT id, status, lease_until FROM runs WHERE id IN {in} ORDER BY id {lock}"
LEASE = """
UPDATE runs SET status = 'running', attempt = attempt + 1, node = ?, lease_until = ?, started_at = ? WHERE id IN {in}
"""
LEASED = f"""
SELECT {COLUMNS}, {store.COLUMNS} FROM {{in}} AS asked
JOIN runs ON runs.id = asked.value JOIN monitors ON monitors.id = runs.monitor_id
"""  # noqa: S608 - made of constants
RENEW = "UPDATE runs SET lease_until = ? WHERE node = ? AND status = 'running' AND id IN {in}"
ORPHANED = "UPDATE runs SET lease_until = ? WHERE status = 'running'"
HELD = "SELECT id FROM runs WHERE id = ? AND status = 'running' AND attempt = ? AND node = ? {lock}"
END = """
UPDATE runs SET status = ?, lease_until = NULL, finished_at = ?, credits_used = ?, failure_credits = ?,
                skip_reason = ?, legs = ?, alerts = ?, warnings = ?, rows_count = ?, keep_until = ?
WHERE id = ?
"""
GIVE_BACK = """
UPDATE runs SET status = 'pending', lease_until = NULL
WHERE id = ? AND status = 'running' AND attempt = ? AND node = ?
"""
ADD_DATA = "INSERT INTO run_data (run_id, result, numbers, deltas, kept_at) VALUES (?, ?, ?, ?, ?)"
READ_DATA = "SELECT run_id, {parts} FROM run_data WHERE run_id IN {in}"
READ_NUMBERS = "SELECT numbers FROM run_data WHERE run_id = ?"
DELIVERY_OF = """
SELECT attempts, last_status, delivered_at, failed_at FROM deliveries WHERE run_id = ? ORDER BY created_at DESC LIMIT 1
"""


DataPart = Literal["result", "numbers", "deltas"]


class Delivered(NamedTuple):
    """The progress of a run's newest delivery."""

    attempts: int
    last_status: int | None
    delivered_at: float | None
    failed_at: float | None


class RunLease(NamedTuple):
    """A run that this node has leased, and its monitor."""

    run: Run
    monitor: Monitor


def add_runs(tx: Tx, runs: Sequence[Run]) -> None:
    """Store new runs. A slot that already has a run keeps it."""
    if runs:
        tx.run_many(ADD, [_values(run) for run in runs])


def read_run(tx: Tx, run_id: str) -> Run | None:
    """Return the run with this id, or None."""
    row = tx.one(READ, (run_id,))
    return None if row is None else Run(*row)


def run_of_slot(tx: Tx, monitor_id: str, slot: float) -> Run | None:
    """Return the run of one slot, or None."""
    row = tx.one(READ_SLOT, (monitor_id, slot))
    return None if row is None else Run(*row)


def running_monitors(tx: Tx, monitor_ids: Sequence[str]) -> set[str]:
    """Return the given monitors that have an unfinished run."""
    return {row[0] for row in tx.all_in(ACTIVE, monitor_ids)}


def taken_slots(tx: Tx, monitor_ids: Sequence[str]) -> set[tuple[str, float]]:
    """Return the existing runs of these monitors as (monitor, slot), from each monitor's next slot on."""
    return {(row[0], row[1]) for row in tx.all_in(TAKEN, monitor_ids)}


def ready_runs(tx: Tx, now: float, *, leases_at: float, limit: int) -> list[Ready]:
    """Return runs that can start: pending ones after their start time, and running ones whose lease has expired."""
    found = [*tx.all(EXPIRED, (leases_at, limit)), *tx.all(PENDING, (now, limit))]
    return [Ready(*row) for row in found]


def next_start_at(tx: Tx, now: float) -> float | None:
    """Return the next time after `now` at which a pending run starts, or None."""
    row = tx.one(NEXT_START, (now,))
    return None if row is None else row[0]


def lease_runs(tx: Tx, run_ids: Sequence[str], node: str, *, now: float, leases_at: float) -> list[RunLease]:
    """Start an attempt of each run that is still available, and return the leases. Other nodes have leased the rest."""
    rows = tx.all_in(LOCK, run_ids)
    free = [id_ for id_, status, until in rows if status == "pending" or (status == "running" and until < leases_at)]
    tx.run_in(LEASE, free, (node, leases_at + LEASE_S, now))
    return [
        RunLease(Run(*row[:WIDTH]), store.monitor_of(row[WIDTH:]))
        for row in sorted(tx.all_in(LEASED, free), key=lambda row: run_ids.index(row[0]))
    ]


def renew_leases(tx: Tx, run_ids: Sequence[str], node: str, *, leases_at: float) -> int:
    """Extend the leases of `node` on these runs, and return how many of them it still holds."""
    return tx.run_in(RENEW, run_ids, (leases_at + LEASE_S, node))


def orphan_runs(tx: Tx, leases_at: float) -> int:
    """Expire all leases, and return their number. Only for a store that one process owns and has just opened."""
    return tx.run(ORPHANED, (leases_at - 1.0,))


def holds(tx: Tx, run: Run) -> bool:
    """Lock the run and return whether this attempt still holds it. This prevents stale attempts from writing."""
    return tx.one(HELD, (run.id, run.attempt, run.node)) is not None


def end_run(tx: Tx, run: Run) -> None:
    """Store how a run ended."""
    credits_ = (0, run.credits_used) if run.status == "failed" else (run.credits_used, 0)
    ended = (run.status, run.finished_at, *credits_, run.skip_reason, run.legs, run.alerts, run.warnings)
    tx.run(END, (*ended, run.rows_count, run.keep_until, run.id))


def give_back(tx: Tx, run: Run) -> bool:
    """Return a started run to the queue. Return False if this attempt no longer holds it."""
    return tx.run(GIVE_BACK, (run.id, run.attempt, run.node)) == 1


def add_data(tx: Tx, run_id: str, data: RunData, *, at: float) -> None:
    """Store the compressed data of a run that ended at `at`."""
    kept = data if data.is_packed else packed(data)
    tx.run(ADD_DATA, (run_id, kept.result, kept.numbers, kept.deltas, at))


def packed(data: RunData) -> RunData:
    """Return the data of a run in stored form.

    Long data is packed before the transaction, because the transaction blocks all other writes.
    """
    return RunData(_packed(data.result), _packed(data.numbers), _packed(data.deltas), is_packed=True)


def read_data(tx: Tx, run_ids: Sequence[str], parts: Sequence[DataPart]) -> dict[str, RunData]:
    """Return the requested `parts` of the runs' data by run id, in stored form. Runs without data are left out."""
    if not parts:
        return {}
    columns = ", ".join(part if part in parts else "NULL" for part in get_args(DataPart))
    rows = tx.all_in(READ_DATA.replace("{parts}", columns), run_ids)
    return {run_id: RunData(result, numbers, deltas, is_packed=True) for run_id, result, numbers, deltas in rows}


def read_numbers(tx: Tx, run_id: str) -> bytes | None:
    """Return the numbers of a run as JSON, or None if none are stored."""
    row = tx.one(READ_NUMBERS, (run_id,))
    return None if row is None or row[0] is None else packing.unpacked(row[0])


def delivery_of(tx: Tx, run_id: str) -> Delivered | None:
    """Return the progress of a run's newest delivery, or None if none was queued."""
    row = tx.one(DELIVERY_OF, (run_id,))
    return None if row is None else Delivered(*row)


def _packed(text: bytes | None) -> bytes | None:
    return None if text is None else packing.packed(text)
