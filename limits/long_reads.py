"""Limits on long free reads: the number of multi-megabyte answers per account, and the thread that builds them.

Decompressing and encoding megabytes would block the event loop, or a store reader if it were done in a transaction.
Therefore one thread does this work, and accounts take turns in it.

An account can have `EACH_MAX` long answers in progress, and further answers wait for up to `WAIT_S`. An answer counts
until it is sent, because it stays in memory until then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from limits.errors import LongReadsReached
from limits.fair_thread import FairThread

EACH_MAX: Final = 4
"""The maximum number of long answers that one account has in progress."""
WAIT_S: Final = 10.0
"""The maximum number of seconds that a further answer waits for its turn."""
T = TypeVar("T")


class ReadTurn:
    """One account's turn to read. A second release has no effect."""

    def __init__(self, turns: trio.Semaphore, left: Callable[[], None]) -> None:
        self._turns: trio.Semaphore | None = turns
        self._on_release = left

    def release(self) -> None:
        """Release the turn."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()
            self._on_release()


class LongReads:
    """The long reads of a node."""

    def __init__(self) -> None:
        self._turns: dict[str, trio.Semaphore] = {}
        self._thread = FairThread()

    async def take(self, account_id: str) -> ReadTurn:
        """Wait for one of the account's turns.

        Raises:
            LongReadsReached: no turn became free in time.
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
        """Use one of the account's turns while the block runs. Raises the same errors as `take`."""
        turn = await self.take(account_id)
        try:
            yield
        finally:
            turn.release()

    async def run(self, account_id: str, work: Callable[[], T]) -> T:
        """Run `work`, which decompresses or encodes the result of a read, in the thread, and return its result."""
        return await self._thread.run(account_id, work)

    def __len__(self) -> int:
        """Return the number of accounts with a long read in progress."""
        return len(self._turns)
