"""Monitors and their runs as stored rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

RunStatus: TypeAlias = Literal["pending", "running", "ok", "partial", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Monitor:
    """A monitor's row. `params`, `cadence`, `track` and `alert_rules` are JSON text as they were sent.

    `rule_state` is the state of the alert rules. `version` counts the owner's changes. `key_id` is the key that created
    the monitor: its runs count toward that key's counter and limit, and its events belong to that key while the key is
    usable.
    """

    id: str
    account_id: str
    key_id: str | None
    name: str
    recipe: str
    params: str
    cadence: str
    track: str | None
    alert_rules: str
    webhook_format: Literal["full", "rows"]
    suppress: bool
    status: Literal["active", "paused"]
    next_slot_at: float | None
    rule_state: str
    baseline_run_id: str | None
    runs_total: int
    credits_spent: int
    created_at: float
    updated_at: float
    version: int
    web: str | None = None
    """The web watch as JSON (`scheduler.monitors.web.watch`); None for other monitors."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run's row: one slot of one monitor, with any outcome. `legs`, `alerts` and `warnings` are JSON text.

    `attempt` is 0 until the first attempt starts. `rows_count` is the number of rows of a list result.
    """

    id: str
    monitor_id: str
    account_id: str
    scheduled_for: float
    status: RunStatus
    start_at: float
    attempt: int = 0
    node: str | None = None
    lease_until: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    credits_used: int = 0
    skip_reason: str | None = None
    legs: str = "[]"
    alerts: str = "[]"
    warnings: str = "[]"
    rows_count: int | None = None
    keep_until: float | None = None
    """When the run is deleted, if that is earlier than for other runs."""

    def request_id(self, attempt: int | None = None) -> str:
        """Return the id under which an attempt is charged: the run's id, with a number for attempts after the first."""
        number = self.attempt if attempt is None else attempt
        return self.id if number <= 1 else f"{self.id}.{number}"


@dataclass(frozen=True, slots=True)
class RunData:
    """The stored data of a run, as JSON bytes: the recipe's `data`, its tracked numbers, and their changes."""

    result: bytes | None = None
    numbers: bytes | None = None
    deltas: bytes | None = None
    is_packed: bool = False
    """Whether the bytes are already compressed for storage."""
