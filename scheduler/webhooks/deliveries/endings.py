"""Pure functions that decide how a finished attempt changes its delivery and webhook (spec 3, 6.1; decisions 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from scheduler.webhooks.deliveries.schedule import DeliveryVerdict, count, judge
from scheduler.webhooks.records import PAUSED, REMOVED, AttemptRow, Delivery, FailReason, Leased, Webhook

GONE: Final = 410


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """A finished attempt that started at `at`: the response's `status`, or the `error` that prevented a response.

    `draw`, from [0, 1), sets the jitter of the next pause.
    """

    leased: Leased
    at: float
    status: int | None
    error: str | None
    latency_s: float
    answer: str
    retry_after_s: float | None
    draw: float


class Conclusion(NamedTuple):
    """The rows as an attempt changes them.

    `webhook` is None if it did not change, and `is_paused` is set if this attempt paused it.
    """

    delivery: Delivery
    attempt: AttemptRow
    webhook: Webhook | None
    is_paused: bool


def is_held(delivery: Delivery, leased: Leased) -> bool:
    """Return whether this lease still holds the current delivery. This prevents stale attempts from writing."""
    mine = leased.delivery
    held = (delivery.status, delivery.node, delivery.lease_until)
    return held == ("queued", mine.node, mine.lease_until)


def conclude(
    delivery: Delivery, webhook: Webhook | None, ended: EndedAttempt, *, now: float, backoff_s: Sequence[float]
) -> Conclusion:
    """Return the changes that an attempt makes to the current rows.

    An attempt at a URL that the webhook no longer has does not change the webhook.
    """
    has_moved = webhook is not None and webhook.url != ended.leased.webhook.url
    verdict = judge(
        None if has_moved and ended.status == GONE else ended.status,
        attempt=delivery.next_of_series,
        draw=ended.draw,
        retry_after_s=ended.retry_after_s,
        backoff_s=backoff_s,
    )
    after = _after(delivery, verdict, ended, reason=_reason(verdict, webhook), now=now)
    if webhook is None or has_moved:
        return Conclusion(after, _attempt(after, ended), None, is_paused=False)
    counted = count(webhook.failures, verdict, is_redelivery=delivery.redelivered_after is not None)
    is_paused = counted.pause is not None and webhook.status == "active" and webhook.may_pause
    changed = replace(
        webhook,
        failures=counted.failures,
        status="paused" if is_paused else webhook.status,
        last_delivery_at=now if verdict.state == "delivered" else webhook.last_delivery_at,
    )
    return Conclusion(after, _attempt(after, ended), None if changed == webhook else changed, is_paused)


def _reason(verdict: DeliveryVerdict, webhook: Webhook | None) -> FailReason | None:
    """Return why the delivery has failed, or None. A delivery never waits for a paused or removed webhook: it fails."""
    if verdict.state == "delivered":
        return None
    if verdict.state == "failed":
        return "gone" if verdict.is_gone else "attempts_used_up"
    if webhook is None:
        return REMOVED
    return PAUSED if webhook.status == "paused" else None


def _after(
    delivery: Delivery, verdict: DeliveryVerdict, ended: EndedAttempt, *, reason: FailReason | None, now: float
) -> Delivery:
    attempted = replace(
        delivery, attempts=delivery.attempts + 1, last_status=ended.status, next_at=None, node=None, lease_until=None
    )
    if verdict.state == "delivered":
        return replace(attempted, status="delivered", delivered_at=now)
    if reason is not None:
        return replace(attempted, status="failed", failed_at=now, fail_reason=reason)
    assert verdict.pause_s is not None, "a waiting verdict has a pause"
    return replace(attempted, next_at=now + verdict.pause_s)


def _attempt(after: Delivery, ended: EndedAttempt) -> AttemptRow:
    latency_ms = round(ended.latency_s * 1000)
    return AttemptRow(after.id, after.attempts, ended.at, ended.status, ended.error, latency_ms, ended.answer)
