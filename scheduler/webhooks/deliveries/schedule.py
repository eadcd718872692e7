"""Pure functions that decide when a delivery is retried and when its webhook is paused (spec 6.1, decisions 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

BACKOFF_S = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0)
"""Pauses in seconds before the second and each later attempt: six attempts within 7 h 35 min 5 s."""
FAILURES_UNTIL_PAUSE = 10
_JITTER = 0.2
_GONE = 410

Pause = Literal["gone", "failures"]


@dataclass(frozen=True, slots=True)
class DeliveryVerdict:
    """The effect of an attempt on its delivery."""

    state: Literal["delivered", "waiting", "failed"]
    pause_s: float | None = None
    """The pause until the next attempt of a waiting delivery, from the end of the attempt."""
    is_gone: bool = False
    """Whether the receiver is permanently gone (410). If so, its webhook is paused immediately."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A webhook's consecutive failed deliveries, and the reason if it must be paused now."""

    failures: int
    pause: Pause | None


def judge(
    status: int | None,
    *,
    attempt: int,
    draw: float,
    retry_after_s: float | None = None,
    backoff_s: Sequence[float] = BACKOFF_S,
) -> DeliveryVerdict:
    """Return the verdict on an attempt, numbered from 1. `status` is None if there was no response.

    Each pause is its step plus or minus up to 20 %, set by `draw` from [0, 1). If a receiver asks for a longer pause,
    it gets that pause, up to twice the step.
    """
    if status is not None and 200 <= status < 300:
        return DeliveryVerdict("delivered")
    if status == _GONE:
        return DeliveryVerdict("failed", is_gone=True)
    if attempt > len(backoff_s):
        return DeliveryVerdict("failed")
    step_s = backoff_s[attempt - 1]
    own_s = step_s * (1 - _JITTER + 2 * _JITTER * draw)
    return DeliveryVerdict("waiting", max(own_s, min(retry_after_s or 0.0, 2 * step_s)))


def count(failures: int, verdict: DeliveryVerdict, *, is_redelivery: bool = False) -> Counted:
    """Return a webhook's consecutive failures after a verdict. A manual redelivery never changes the count."""
    if not is_redelivery and verdict.state != "waiting":
        failures = 0 if verdict.state == "delivered" else failures + 1
    if verdict.is_gone:
        return Counted(failures, "gone")
    over = not is_redelivery and verdict.state == "failed" and failures >= FAILURES_UNTIL_PAUSE
    return Counted(failures, "failures" if over else None)
