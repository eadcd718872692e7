"""Bounds on long free reads: how many answers of megabytes one account has under way, and where they are made.

Decompressing and encoding megabytes would hold up the loop, or a reader of the store if it were done in a transaction.
So it is done in one thread at a time, whose turns accounts share. An account has at most `EACH_MAX` long answers at
once. Each counts until it was sent, because it is in memory until then; further ones wait for a while.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from limits.errors import LongReadsReached
from limits.fair_thread import FairThread

EACH_MAX: Final = 4
"""Long answers of one account that are under way at a time."""
WAIT_S: Final = 10.0
"""Seconds that a further one waits for its turn."""
T = TypeVar("T")


class ReadTurn:
    """One account's turn. Releasing it twice is the same as once."""

    def __init__(self, turns: trio.Semaphore, left: Callable[[], None]) -> None:
        self._turns: trio.Semaphore | None = turns
        self._left = left

    def release(self) -> None:
        """Give the turn back."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()
            self._left()


class LongReads:
    """The long reads of a node."""

    def __init__(self) -> None:
        self._turns: dict[str, trio.Semaphore] = {}
        self._thread = FairThread()

    async def take(self, account_id: str) -> ReadTurn:
        """Wait for one of the account's turns.

        Raises:
            LongReadsReached: none became free in time.
        """
        turns = self._turns.setdefault(account_id, trio.Semaphore(EACH_MAX, max_value=EACH_MAX))

        def forget() -> None:
            if turns.value == EACH_MAX and self._turns.get(account_id) is turns:
                del self._turns[account_id]

        with trio.move_on_after(WAIT_S):
            await turns.acquire()
            return ReadTurn(turns, forget)
        raise LongReadsReached(EACH_MAX)

    @asynccontextmanager
    async def turn(self, account_id: str) -> AsyncIterator[None]:
        """Hold one of the account's turns while the block runs. Raises as `take`."""
        turn = await self.take(account_id)
        try:
            yield
        finally:
            turn.release()

    async def run(self, account_id: str, work: Callable[[], T]) -> T:
        """Return the result of `work`, which decompresses or encodes what a read has found, in the thread."""
        return await self._thread.run(account_id, work)

    def __len__(self) -> int:
        """Return the number of accounts with a long read under way."""
        return len(self._turns)
