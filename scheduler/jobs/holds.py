"""Waits when a source asks for a pause, because background work is better late than incomplete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from limits.errors import LimitError, Throttled
from scheduler.recipes import GatheringFailed
from upstreams.model.errors import UpstreamError, UpstreamThrottled

T = TypeVar("T")
Refusals = tuple[type[LimitError] | type[UpstreamError], ...]
HELD_BACK: Final[Refusals] = (Throttled, UpstreamThrottled)
"""The errors by which a source, or its rate limit, asks for a later retry."""
TRIES: Final = 3
WAIT_S: Final = 5.0
"""How many seconds to wait if the source does not say how long."""
WAIT_MAX_S: Final = 60.0
"""The longest wait in seconds. If a source asks for more, the read is not retried."""


async def patiently(read: Callable[[], Awaitable[T]], on: Refusals = HELD_BACK) -> T:
    """Return the result of a read. Retry later if it fails with an error in `on`.

    Raises:
        GatheringFailed: all attempts failed, or an attempt failed with an error that is not retried.
    """
    for _ in range(TRIES - 1):
        try:
            return await read()
        except GatheringFailed as exc:
            refusal = exc.__cause__
            wait_s = getattr(refusal, "retry_after_s", None) or WAIT_S
            if not isinstance(refusal, on) or wait_s > WAIT_MAX_S:
                raise
        await trio.sleep(max(1.0, wait_s))
    return await read()
