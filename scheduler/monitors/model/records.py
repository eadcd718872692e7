"""Monitors and their runs as rows: what the store keeps of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

RunStatus: TypeAlias = Literal["pending", "running", "ok", "partial", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Monitor:
    """A monitor's row; what was sent as JSON is JSON text: `params`, `cadence`, `track` and `alert_rules`.

    `rule_state` is what alert rules remember. `version` counts the owner's changes. `key_id` names the key that made
    it: its runs count toward that key's counter and limit, and its events are that key's while the key can be used.
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
    """Its watch of the web, as JSON (`scheduler.monitors.web.watch`); None for any other monitor."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run's row: one slot of one monitor, whatever came of it. `legs`, `alerts` and `warnings` are JSON text.

    `attempt` is 0 until somebody begins it. `rows_count` tells how many rows a list had.
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
    """Set where it goes before other runs do."""

    def request_id(self, attempt: int | None = None) -> str:
        """Return the id that an attempt is charged under: the run's own for the first, then numbered ones."""
        number = self.attempt if attempt is None else attempt
        return self.id if number <= 1 else f"{self.id}.{number}"


@dataclass(frozen=True, slots=True)
class RunData:
    """The stored data of a run, as JSON bytes: the recipe's `data`, the numbers kept of it, and how they changed."""

    result: bytes | None = None
    numbers: bytes | None = None
    deltas: bytes | None = None
    is_packed: bool = False
    """They are compressed already, as they are kept."""
