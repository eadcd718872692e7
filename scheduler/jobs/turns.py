"""Turns of steps on one node: few at a time for each account, some for all, and none while requests have to wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

EACH_MAX: Final = 4
"""Steps of one account's jobs that are made side by side (decisions 17)."""
ALL_MAX: Final = 32
YIELD_S: Final = 0.25


class Turns:
    """Hands out turns; waits while the node has too much to do for those who wait for it."""

    def __init__(self) -> None:
        self._all = trio.CapacityLimiter(ALL_MAX)
        self._each: dict[str, trio.CapacityLimiter] = {}
        self.is_yielding: Callable[[], bool] = lambda: False
        """Whether steps stand back behind requests; whoever knows that may set another."""

    @asynccontextmanager
    async def of(self, account_id: str) -> AsyncIterator[None]:
        """A turn of one account's, for as long as the block runs."""
        own = self._each.setdefault(account_id, trio.CapacityLimiter(EACH_MAX))
        try:
            async with own, self._all:
                while self.is_yielding():  # noqa: ASYNC110 - a look at figures that nobody announces
                    await trio.sleep(YIELD_S)
                yield
        finally:
            if not own.borrowed_tokens and not own.statistics().tasks_waiting:
                self._each.pop(account_id, None)
