"""Pages of monitors and of runs, newest first. Each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal, NamedTuple

from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor, Run, RunData
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.run_rows import DataPart, Delivered
from scheduler.packing import Unpacker, rows_within
from storage.store import Tx

MONITORS = f"""
SELECT {store.COLUMNS} FROM monitors
WHERE account_id = ? AND (? = 'all' OR status = ?) AND CASE WHEN web IS NULL THEN 0 ELSE 1 END = ?
    AND (created_at < ? OR (created_at = ? AND id < ?))
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
RUNS = f"""
SELECT {run_rows.COLUMNS} FROM runs
WHERE monitor_id = ? AND (? = '' OR status = ?) AND scheduled_for >= ? AND scheduled_for < ?
ORDER BY scheduled_for DESC LIMIT ?
"""  # noqa: S608 - made of constants
# A run can have 4,000 alerts and megabytes of data, so the sizes are read first, without the values.
RUN_SIZES = """
SELECT runs.scheduled_for, length(runs.alerts) + length(runs.legs) + length(runs.warnings){parts}
FROM runs LEFT JOIN run_data ON run_data.run_id = runs.id
WHERE runs.monitor_id = ? AND (? = '' OR runs.status = ?) AND runs.scheduled_for >= ? AND runs.scheduled_for < ?
ORDER BY runs.scheduled_for DESC LIMIT ?
"""
RUN = f"SELECT {run_rows.COLUMNS} FROM runs WHERE monitor_id = ? AND id = ?"  # noqa: S608 - made of constants
# If a run has several deliveries, the last row is the newest.
DELIVERIES = """
SELECT run_id, attempts, last_status, delivered_at, failed_at FROM deliveries
WHERE run_id IN {in} ORDER BY created_at, id
"""
ACTIVE = "SELECT COUNT(*) FROM monitors WHERE account_id = ? AND status = 'active'"
ALL = "SELECT COUNT(*) FROM monitors WHERE account_id = ?"
LAST_SLOT = "SELECT MAX(scheduled_for) FROM runs WHERE monitor_id = ? AND scheduled_for <= ?"
SAVE = """
UPDATE monitors SET name = ?, params = ?, cadence = ?, track = ?, alert_rules = ?, webhook_format = ?, suppress = ?,
                    status = ?, next_slot_at = ?, rule_state = ?, baseline_run_id = ?, updated_at = ?, version = ?
WHERE id = ?
"""
DROP_PENDING = "DELETE FROM runs WHERE monitor_id = ? AND status = 'pending'"
DROP_RUNS = "DELETE FROM runs WHERE id IN (SELECT id FROM runs WHERE monitor_id = ? LIMIT ?)"

StatusFilter = Literal["active", "paused", "all"]
_FIRST = (9e15, "")


class SlotSpan(NamedTuple):
    """Slots from `since` (inclusive) to `until` (exclusive)."""

    since: float = -inf
    until: float = inf

    @property
    def bounds(self) -> tuple[float, float]:
        """Both times as numbers that every store accepts."""
        return max(-9e15, self.since), min(self.until, 9e15)


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run in a list, with its delivery and the requested parts of its data, in stored form."""

    run: Run
    delivery: Delivered | None = None
    data: RunData = field(default_factory=RunData)


class RunsPage(NamedTuple):
    """A page of runs, and whether there are older ones."""

    entries: list[RunEntry]
    has_more: bool


def monitors_page(
    tx: Tx,
    account_id: str,
    status: StatusFilter,
    *,
    before: tuple[float, str] | None,
    limit: int,
    of_web: bool = False,
) -> list[Monitor]:
    """Return at most `limit` monitors of an account that are older than `before`.

    If `of_web`, return only web watches, otherwise only ordinary monitors.
    """
    at, id_ = before or _FIRST
    rows = tx.all(MONITORS, (account_id, status, status, int(of_web), at, at, id_, limit))
    return [store.monitor_of(row) for row in rows]


def runs_page(
    tx: Tx, monitor_id: str, *, status: str | None, window: SlotSpan, limit: int, parts: Sequence[DataPart]
) -> RunsPage:
    """Return at most `limit` runs of a monitor in a window of slots, within the size of a page."""
    stored = "".join(f" + COALESCE(length(run_data.{part}), 0)" for part in parts)
    chosen = (monitor_id, status or "", status or "")
    since, until = window.bounds
    sizes = tx.all(RUN_SIZES.replace("{parts}", stored), (*chosen, since, until, limit + 1))
    count = min(limit, rows_within(size for _, size in sizes))
    rows = tx.all(RUNS, (*chosen, sizes[count - 1][0], until, count)) if count else []
    ids = [row[0] for row in rows]
    ends = {row[0]: Delivered(*row[1:]) for row in tx.all_in(DELIVERIES, ids)}
    data = run_rows.read_data(tx, ids, parts)
    entries = [RunEntry(Run(*row), ends.get(row[0]), data.get(row[0], RunData())) for row in rows]
    return RunsPage(entries, len(sizes) > count)


def unpacked_entries(entries: Iterable[RunEntry], unpacker: Unpacker) -> Iterator[RunEntry]:
    """Yield the first runs with their data decompressed, as many as the unpacker has room for."""
    for entry in entries:
        data = entry.data
        if (bodies := unpacker.take(data.result, data.numbers, data.deltas)) is None:
            return
        result, numbers, deltas = bodies
        yield replace(entry, data=RunData(result, numbers, deltas))


def run_entry(tx: Tx, monitor_id: str, run_id: str, *, parts: Sequence[DataPart]) -> RunEntry | None:
    """Return a monitor's run with its latest delivery, or None if the monitor has no such run."""
    row = tx.one(RUN, (monitor_id, run_id))
    if row is None:
        return None
    ends = [Delivered(*end[1:]) for end in tx.all_in(DELIVERIES, [run_id])]
    data = run_rows.read_data(tx, [run_id], parts).get(run_id, RunData())
    return RunEntry(Run(*row), ends[-1] if ends else None, data)


def active_monitors(tx: Tx, account_id: str) -> int:
    """Return the number of the account's monitors that count toward its plan's limit."""
    return _count(tx, ACTIVE, account_id)


def all_monitors(tx: Tx, account_id: str) -> int:
    """Return the number of the account's monitors."""
    return _count(tx, ALL, account_id)


def save_monitor(tx: Tx, monitor: Monitor) -> None:
    """Save the fields that an owner may change."""
    sent = (monitor.name, monitor.params, monitor.cadence, monitor.track, monitor.alert_rules, monitor.webhook_format)
    state = (int(monitor.suppress), monitor.status, monitor.next_slot_at, monitor.rule_state, monitor.baseline_run_id)
    tx.run(SAVE, (*sent, *state, monitor.updated_at, monitor.version, monitor.id))


def last_slot_at(tx: Tx, monitor_id: str, now: float) -> float | None:
    """Return the newest past slot of the monitor that has a run."""
    row = tx.one(LAST_SLOT, (monitor_id, now))
    return None if row is None else row[0]


def drop_pending(tx: Tx, monitor_id: str) -> None:
    """Delete the pending runs of a locked monitor. The lock prevents new ones."""
    tx.run(DROP_PENDING, (monitor_id,))


def drop_runs(tx: Tx, monitor_id: str, limit: int) -> int:
    """Delete at most `limit` runs of a monitor with their data, and return their number."""
    return tx.run(DROP_RUNS, (monitor_id, limit))


def _count(tx: Tx, sql: str, account_id: str) -> int:
    row = tx.one(sql, (account_id,))
    return 0 if row is None else int(row[0])
