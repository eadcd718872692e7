"""Pages of monitors and of runs, newest first; each function runs in a transaction of its caller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal, NamedTuple

from scheduler.monitors.model import store
from scheduler.monitors.model.records import Monitor, Run, RunData
from scheduler.monitors.runs import run_rows
from scheduler.monitors.runs.run_rows import Delivered
from storage.store import Tx

PAGE_BYTES: Final = 4_000_000
"""A page of runs ends early when what it shows of them reaches this size: a run may have 4,000 alerts."""

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
RUN = f"SELECT {run_rows.COLUMNS} FROM runs WHERE monitor_id = ? AND id = ?"  # noqa: S608 - made of constants
# Later rows are later deliveries of the same run.
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
    """Slots from `since` on and before `until`."""

    since: float = -inf
    until: float = inf

    @property
    def bounds(self) -> tuple[float, float]:
        """The two instants as every store takes them."""
        return max(-9e15, self.since), min(self.until, 9e15)


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run in a list, with its delivery and, where it is asked for, what it brought."""

    run: Run
    delivery: Delivered | None = None
    data: RunData = field(default_factory=RunData)


class RunsPage(NamedTuple):
    """A page of runs, and whether there are older ones behind it."""

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
    """At most `limit` monitors of an account that were made before the one which `before` names.

    They are either all watches of the web, or none is.
    """
    at, id_ = before or _FIRST
    rows = tx.all(MONITORS, (account_id, status, status, int(of_web), at, at, id_, limit))
    return [store.monitor_of(row) for row in rows]


def runs_page(
    tx: Tx, monitor_id: str, *, status: str | None, window: SlotSpan, limit: int, with_data: bool
) -> RunsPage:
    """At most `limit` runs of a monitor in a window of slots, and only as many as a page holds."""
    rows = tx.all(RUNS, (monitor_id, status or "", status or "", *window.bounds, limit + 1))
    runs = [Run(*row) for row in rows[:limit]]
    data = _data(tx, runs, with_data=with_data)
    ends = {row[0]: Delivered(*row[1:]) for row in tx.all_in(DELIVERIES, [run.id for run in runs[: len(data)]])}
    entries = [RunEntry(run, ends.get(run.id), kept) for run, kept in zip(runs, data, strict=False)]
    return RunsPage(entries, len(rows) > len(entries))


def run_entry(tx: Tx, monitor_id: str, run_id: str, *, with_data: bool) -> RunEntry | None:
    """A monitor's run, with its latest delivery; None: it has no such run."""
    row = tx.one(RUN, (monitor_id, run_id))
    if row is None:
        return None
    ends = [Delivered(*end[1:]) for end in tx.all_in(DELIVERIES, [run_id])]
    data = run_rows.read_data(tx, run_id) if with_data else RunData()
    return RunEntry(Run(*row), ends[-1] if ends else None, data)


def active_monitors(tx: Tx, account_id: str) -> int:
    """Return the number of the account's monitors that count towards its plan's limit."""
    return _count(tx, ACTIVE, account_id)


def all_monitors(tx: Tx, account_id: str) -> int:
    """Return the number of the account's monitors."""
    return _count(tx, ALL, account_id)


def save_monitor(tx: Tx, monitor: Monitor) -> None:
    """Write what an owner may change."""
    sent = (monitor.name, monitor.params, monitor.cadence, monitor.track, monitor.alert_rules, monitor.webhook_format)
    state = (int(monitor.suppress), monitor.status, monitor.next_slot_at, monitor.rule_state, monitor.baseline_run_id)
    tx.run(SAVE, (*sent, *state, monitor.updated_at, monitor.version, monitor.id))


def last_slot_at(tx: Tx, monitor_id: str, now: float) -> float | None:
    """The newest slot of the monitor that came to anything."""
    row = tx.one(LAST_SLOT, (monitor_id, now))
    return None if row is None else row[0]


def drop_pending(tx: Tx, monitor_id: str) -> None:
    """Forget the runs of a monitor that wait to be begun; the monitor is locked, so that no more are opened."""
    tx.run(DROP_PENDING, (monitor_id,))


def drop_runs(tx: Tx, monitor_id: str, limit: int) -> int:
    """Forget at most `limit` runs of a monitor with all that belongs to them; how many they were."""
    return tx.run(DROP_RUNS, (monitor_id, limit))


def _data(tx: Tx, runs: Sequence[Run], *, with_data: bool) -> list[RunData]:
    """The data of the first of these, as many as a page holds; empty where none is wanted."""
    found: list[RunData] = []
    size = 0
    for run in runs:
        if size >= PAGE_BYTES:
            break
        data = run_rows.read_data(tx, run.id) if with_data else RunData()
        size += sum(len(part or b"") for part in (data.result, data.numbers, data.deltas, run.alerts, run.legs))
        found.append(data)
    return found


def _count(tx: Tx, sql: str, account_id: str) -> int:
    row = tx.one(sql, (account_id,))
    return 0 if row is None else int(row[0])
