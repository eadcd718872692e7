"""The SQL of monitors. Each function runs in the caller's transaction.

Code that locks several kinds of rows locks accounts first, then monitors, then runs and deliveries, and feeds last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scheduler.errors import MonitorUnknown
from scheduler.monitors.model.records import Monitor
from scheduler.rows import values_of
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.urls import host_in
from storage.store import Row, Tx

COLUMNS: Final = """
monitors.id, monitors.account_id, monitors.key_id, monitors.name, monitors.recipe, monitors.params, monitors.cadence,
monitors.track, monitors.alert_rules, monitors.webhook_format, monitors.suppress, monitors.status,
monitors.next_slot_at, monitors.rule_state, monitors.baseline_run_id, monitors.runs_total, monitors.credits_spent,
monitors.created_at, monitors.updated_at, monitors.version, monitors.web
"""
SUPPRESS: Final = 10
"""The index of `suppress` in COLUMNS. It needs conversion, because the databases share no boolean type."""
_values = values_of(Monitor)
ADD = """
INSERT INTO monitors (id, account_id, key_id, name, recipe, params, cadence, track, alert_rules, webhook_format,
                      suppress, status, next_slot_at, rule_state, baseline_run_id, runs_total, credits_spent,
                      created_at, updated_at, version, web)
VALUES {rows}
"""
READ = f"SELECT {COLUMNS} FROM monitors WHERE id = ?"  # noqa: S608 - made of constants
READ_DUE = f"""
SELECT {COLUMNS} FROM monitors WHERE status = 'active' AND next_slot_at <= ?
ORDER BY next_slot_at, id LIMIT ? {{lock}}
"""  # noqa: S608 - made of constants
CROWDS = """
SELECT next_slot_at, COUNT(*) FROM monitors WHERE status = 'active' AND next_slot_at <= ? GROUP BY next_slot_at
"""
NEXT_SLOT = "SELECT MIN(next_slot_at) FROM monitors WHERE status = 'active'"
SCHEDULE = """
WITH changed (id, next_slot_at) AS (VALUES {rows})
UPDATE monitors SET next_slot_at = changed.next_slot_at FROM changed WHERE monitors.id = changed.id
"""
UNSCHEDULE = "UPDATE monitors SET next_slot_at = NULL WHERE id IN {in}"
SETTLE = """
UPDATE monitors SET baseline_run_id = ?, rule_state = ?, runs_total = runs_total + 1, credits_spent = credits_spent + ?
WHERE id = ?
"""
HOOK = "SELECT host, url FROM webhooks WHERE monitor_id = ? AND status = 'active'"
OF_ACCOUNT = "SELECT id FROM monitors WHERE account_id = ? ORDER BY created_at, id"
REMOVE = "DELETE FROM monitors WHERE id = ? AND account_id = ?"


def add_monitor(tx: Tx, monitor: Monitor) -> None:
    """Store a new monitor."""
    row = list(_values(monitor))
    row[SUPPRESS] = int(monitor.suppress)
    tx.run_many(ADD, [row])


def read_monitor(tx: Tx, monitor_id: str, *, locked: bool = False) -> Monitor | None:
    """Return the monitor with this id, or None. If `locked`, lock it until the end of the transaction."""
    row = tx.one(f"{READ} {{lock}}" if locked else READ, (monitor_id,))
    return None if row is None else monitor_of(row)


def owned(tx: Tx, account_id: str, monitor_id: str, *, locked: bool = False) -> Monitor:
    """Return the account's monitor.

    Raises:
        MonitorUnknown: the account has no such monitor.
    """
    monitor = read_monitor(tx, monitor_id, locked=locked)
    if monitor is None or monitor.account_id != account_id:
        raise MonitorUnknown(monitor_id)
    return monitor


def monitor_of(row: Row) -> Monitor:
    """Convert a row of `COLUMNS` to a record."""
    values = list(row)
    values[SUPPRESS] = bool(values[SUPPRESS])
    return Monitor(*values)


def due_monitors(tx: Tx, now: float, limit: int) -> list[Monitor]:
    """Lock and return the active monitors whose slot has arrived, longest overdue first."""
    return [monitor_of(row) for row in tx.all(READ_DUE, (now, limit))]


def crowds(tx: Tx, now: float) -> Mapping[float, int]:
    """Return, for each slot that has arrived, the number of monitors that share it."""
    return dict(tx.all(CROWDS, (now,)))


def next_slot_at(tx: Tx) -> float | None:
    """Return the earliest next slot of all monitors, or None."""
    found = tx.one(NEXT_SLOT)
    return None if found is None else found[0]


def schedule(tx: Tx, slots: Sequence[tuple[str, float]]) -> None:
    """Set the next slots of monitors by id."""
    if slots:
        tx.run_many(SCHEDULE, slots)


def unschedule(tx: Tx, monitor_ids: Sequence[str]) -> None:
    """Remove the next slots of these monitors."""
    tx.run_in(UNSCHEDULE, monitor_ids)


def settle(tx: Tx, monitor: Monitor, *, credits_used: int) -> None:
    """Count one more finished run, and save the monitor's baseline and rule state."""
    tx.run(SETTLE, (monitor.baseline_run_id, monitor.rule_state, credits_used, monitor.id))


def hook_host(tx: Tx, monitor_id: str) -> str | None:
    """Return the host that receives the monitor's runs, or None if they are not delivered."""
    row = tx.one(HOOK, (monitor_id,))
    if row is None:
        return None
    host, url = row
    found: str = host_in(url) if host is None else host
    return found


def remove_monitor(tx: Tx, monitor_id: str, account_id: str) -> bool:
    """Delete a monitor of this account with its webhook, runs and deliveries. Return False if it does not exist."""
    is_removed = tx.run(REMOVE, (monitor_id, account_id)) == 1
    if is_removed:
        hook_rows.forget_webhook(tx, monitor_id)
    return is_removed


def monitors_of(tx: Tx, account_id: str) -> list[str]:
    """Return the ids of all monitors of an account."""
    return [row[0] for row in tx.all(OF_ACCOUNT, (account_id,))]
