"""Webhooks, deliveries and their attempts as stored rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Status: TypeAlias = Literal["queued", "delivered", "failed"]
FailReason: TypeAlias = Literal["attempts_used_up", "gone", "webhook_paused", "webhook_removed"]
PAUSED: Final[FailReason] = "webhook_paused"
REMOVED: Final[FailReason] = "webhook_removed"
ACCOUNT_PREFIX: Final = "wh_"
"""The id prefix of account webhooks."""
JOB_PREFIX: Final = "job_"
"""The id prefix of jobs. A job's webhook has the job's id."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook's row. Its URL and its secrets are sealed.

    Until `previous_until`, deliveries are also signed with the previous secret.

    `monitor_id` is the id of its monitor or job; an account webhook has its own id there, `wh_...`. `failures` counts
    consecutive failed deliveries. If `host` is None, the URL is not sealed yet.
    """

    monitor_id: str
    url: str
    secret: str
    previous_secret: str | None = None
    previous_until: float | None = None
    status: Literal["active", "paused"] = "active"
    failures: int = 0
    last_delivery_at: float | None = None
    host: str | None = None

    @property
    def may_pause(self) -> bool:
        """Whether failures pause the webhook. A job's webhook is called only once, so a pause would have no effect."""
        return not self.monitor_id.startswith(JOB_PREFIX)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery's row without its body. While a node has leased it, `next_at` is the end of the lease.

    `monitor_id` is the id of the monitor, the account webhook or the job; only a monitor's delivery has a `run_id`.
    `redelivered_after` is the number of attempts before the owner's last redelivery request. It is 0 for a test, and
    None if there was no such request.
    """

    id: str
    run_id: str | None
    monitor_id: str
    account_id: str
    host: str
    status: Status
    attempts: int
    next_at: float | None
    node: str | None
    lease_until: float | None
    created_at: float
    delivered_at: float | None
    failed_at: float | None
    last_status: int | None
    redelivered_after: int | None
    fail_reason: FailReason | None

    @property
    def next_of_series(self) -> int:
        """The number of the next attempt in its series, from 1."""
        return self.attempts - (self.redelivered_after or 0) + 1


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt's row: the receiver's `status` and the start of its response, or the `error` instead."""

    delivery_id: str
    number: int
    at: float
    status: int | None
    error: str | None
    latency_ms: int
    answer: str


class Leased(NamedTuple):
    """A delivery leased by this node, with its body and its webhook."""

    delivery: Delivery
    body: bytes
    webhook: Webhook
