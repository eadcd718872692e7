"""Turns of steps on one node: few at a time for each account, some for all, and none while requests have to wait.

While requests come, steps begin apart from each other, so that they take no more than a small part of the node.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Final

import trio

EACH_MAX: Final = 4
"""Steps of one account's jobs that are made side by side (decisions 17)."""
ALL_MAX: Final = 32
YIELD_S: Final = 0.25
PACE_S: Final = 0.2
"""The time between the beginnings of two steps while requests come. A step takes about 3 ms of the loop and the writer,
so that of 100 requests fewer than 2 meet one, and each of these waits for a part of it."""
BUSY_PER_S: Final = 100.0
"""The requests a second from which on steps keep that distance."""
WINDOW_S: Final = 0.1


class Turns:
    """Hands out turns; waits while the node has too much to do for those who wait for it."""

    def __init__(self) -> None:
        self._all = trio.CapacityLimiter(ALL_MAX)
        self._each: dict[str, trio.CapacityLimiter] = {}
        self.is_yielding: Callable[[], bool] = lambda: False
        """Whether steps stand back behind requests; whoever knows that may set another."""
        self.answered: Callable[[], int] = lambda: 0
        """The requests that were answered so far; whoever knows them may set another."""
        self._begins_at = self._looked_at = -inf
        self._seen, self._is_busy = 0, False

    @asynccontextmanager
    async def of(self, account_id: str) -> AsyncIterator[None]:
        """A turn of one account's, for as long as the block runs."""
        own = self._each.setdefault(account_id, trio.CapacityLimiter(EACH_MAX))
        try:
            async with own, self._all:
                while self.is_yielding():  # noqa: ASYNC110 - a look at figures that nobody announces
                    await trio.sleep(YIELD_S)
                await self._keep_distance()
                yield
        finally:
            if not own.borrowed_tokens and not own.statistics().tasks_waiting:
                self._each.pop(account_id, None)

    async def _keep_distance(self) -> None:
        """Wait for a beginning that is apart from the others', where requests come."""
        now, answered = trio.current_time(), self.answered()
        if now - self._looked_at >= WINDOW_S:
            self._is_busy = answered - self._seen >= BUSY_PER_S * (now - self._looked_at)
            self._looked_at, self._seen = now, answered
        if self._is_busy:
            self._begins_at = max(self._begins_at + PACE_S, now)
            await trio.sleep_until(self._begins_at)
