"""Limits how many job steps run at the same time on one node, per account and in total.

No step starts while requests have to wait. While requests arrive, steps start at intervals, so that they use only a
small part of the node.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import Final

import trio

from scheduler.pressure import NO_PRESSURE, Pressure

EACH_MAX: Final = 4
"""The maximum number of concurrent steps of one account's jobs (decisions 17)."""
ALL_MAX: Final = 32
YIELD_S: Final = 0.25
PACE_S: Final = 0.2
"""How many seconds to wait between the starts of two steps while requests arrive.

A step takes about 3 ms of the event loop and the writer. At this interval, fewer than 2 of 100 requests coincide with a
step, and each of these requests waits for only a part of it.
"""
BUSY_PER_S: Final = 100.0
"""The request rate, per second, at and above which steps start at intervals."""
WINDOW_S: Final = 0.1


class Turns:
    """Hands out turns, and delays them while the node is too busy with requests."""

    def __init__(self, pressure: Pressure = NO_PRESSURE) -> None:
        self._pressure = pressure
        self._all = trio.CapacityLimiter(ALL_MAX)
        self._each: dict[str, trio.CapacityLimiter] = {}
        self._begins_at = self._looked_at = -inf
        self._seen, self._is_busy = 0, False

    @asynccontextmanager
    async def of(self, account_id: str) -> AsyncIterator[None]:
        """Wait for a turn of the account, and occupy it while the block runs."""
        own = self._each.setdefault(account_id, trio.CapacityLimiter(EACH_MAX))
        try:
            async with own, self._all:
                while self._pressure.is_yielding():  # noqa: ASYNC110 - no event reports this change
                    await trio.sleep(YIELD_S)
                await self._wait_interval()
                yield
        finally:
            if not own.borrowed_tokens and not own.statistics().tasks_waiting:
                self._each.pop(account_id, None)

    async def _wait_interval(self) -> None:
        """Wait until the next step may start, if requests are arriving."""
        now, answered = trio.current_time(), self._pressure.answered()
        if now - self._looked_at >= WINDOW_S:
            self._is_busy = answered - self._seen >= BUSY_PER_S * (now - self._looked_at)
            self._looked_at, self._seen = now, answered
        if self._is_busy:
            self._begins_at = max(self._begins_at + PACE_S, now)
            await trio.sleep_until(self._begins_at)
