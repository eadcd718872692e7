"""Waits for sources that ask to hold back: work that nobody waits for is better late than left out."""

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
"""The source, or its pace, asks to come later."""
TRIES: Final = 3
WAIT_S: Final = 5.0
"""The time that a read waits where the source does not say how long."""
WAIT_MAX_S: Final = 60.0
"""The longest wait: whoever asks for more is asked no further."""


async def patiently(read: Callable[[], Awaitable[T]], on: Refusals = HELD_BACK) -> T:
    """The result of a read; of a later try, where it was refused as in `on`.

    Raises:
        GatheringFailed: nothing came.
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
