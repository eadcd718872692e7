"""One thread for work that would block the event loop; accounts take fair turns in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from limits.fair_turns import FairTurns

T = TypeVar("T")


class FairThread:
    """Runs functions in a thread, one at a time. `limits.fair_turns` decides which account's function is next."""

    def __init__(self) -> None:
        self._turns = FairTurns(1)
        self._thread = trio.CapacityLimiter(1)

    async def run(self, account_id: str, work: Callable[[], T]) -> T:
        """Run an account's `work` in the thread when it is the account's turn, and return its result.

        `work` is not interrupted, so it must be short and bounded.
        """
        async with self._turns.turn(account_id):
            return await trio.to_thread.run_sync(work, limiter=self._thread)
