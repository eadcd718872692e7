"""Webhooks, deliveries and their attempts as rows: what the store keeps of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Status: TypeAlias = Literal["queued", "delivered", "failed"]
FailReason: TypeAlias = Literal["attempts_used_up", "gone", "webhook_paused", "webhook_removed"]
PAUSED: Final[FailReason] = "webhook_paused"
REMOVED: Final[FailReason] = "webhook_removed"
ACCOUNT_PREFIX: Final = "wh_"
"""Begins the ids of webhooks that belong to an account."""
JOB_PREFIX: Final = "job_"
"""Begins the ids of jobs, which are those of their webhooks."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook's row; its URL and its secrets are sealed. The previous secret signs too, until `previous_until`.

    `monitor_id` is the monitor that it belongs to, or the job; that of an account is its own id there, `wh_...`.
    `failures` are its failed deliveries in a row. Without a `host` its URL is one that still stands in clear.
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
        """Whether failures pause it: that of a job is called once, so that nothing else would wait."""
        return not self.monitor_id.startswith(JOB_PREFIX)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery's row without its body. While a node has it to itself, `next_at` is when its lease passes.

    That of an account's webhook has the webhook's id as its `monitor_id`, that of a job's the job's, and neither a run.
    `redelivered_after` counts the attempts that had been made when its owner last requested it; it is 0 for a test,
    and None if its owner never did.
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
        """The number that the next attempt has in its series, from 1 on."""
        return self.attempts - (self.redelivered_after or 0) + 1


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt's row: the receiver's `status` and the beginning of its answer, or the `error` in its way."""

    delivery_id: str
    number: int
    at: float
    status: int | None
    error: str | None
    latency_ms: int
    answer: str


class Leased(NamedTuple):
    """A delivery that this node has to itself for a while: what to send, and to whom."""

    delivery: Delivery
    body: bytes
    webhook: Webhook
