"""The task that queues batches for account webhooks (decisions 22)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from events.filters import AppendedEvent
from scheduler.account_webhooks import rows
from scheduler.account_webhooks.batches import EventBatches
from scheduler.log import OperatorLog
from storage.errors import StorageError
from storage.store import Store, Tx
from storage.supervision import Keep, unsupervised

GATHER_S: Final = 0.25
"""How many seconds to wait for more events after the first, so that simultaneous events share a batch."""
CHECK_S: Final = 5.0
"""The maximum number of seconds between checks.

This bounds the delay if a message from another node was lost, or if another node created the webhook.
"""
BLOCKED_LOOK_S: Final = 1.0
"""How many seconds to wait while a webhook has its maximum number of queued batches."""
DUE_AT_ONCE: Final = 500

_Work = tuple[frozenset[str], Sequence[tuple[str, int]]]


class Feeder:
    """Queues batches for all webhooks whose accounts have new events. Safe to run on several nodes at the same time."""

    def __init__(self, store: Store, batches: EventBatches, *, log: OperatorLog, stopping: Callable[[], bool]) -> None:
        self._store = store
        self._batches = batches
        self._log = log
        self._stopping = stopping
        self._accounts: frozenset[str] = frozenset()
        self._woken = trio.Event()

    def follow(self, appended: Sequence[AppendedEvent]) -> None:
        """Wake the task if any of the appended events belongs to an account with webhooks."""
        if self._accounts and any(event.account_id in self._accounts for event in appended):
            self._woken.set()

    def wake(self) -> None:
        """Check for events now, because a webhook was created, changed or resumed."""
        self._woken.set()

    async def keep_feeding(self) -> None:
        """Queue available events and wait for more, until cancelled or until the node stops."""
        while not self._stopping():
            self._woken, pause_s = trio.Event(), CHECK_S
            try:
                pause_s = await self._queue_all()
            except StorageError as exc:
                self._log.event("warning", "account_webhooks_wait", error=str(exc))
            with trio.move_on_after(pause_s):
                await self._woken.wait()
                await trio.sleep(GATHER_S)

    async def _queue_all(self) -> float:
        """Queue as many events as each webhook has room for, and return the seconds until the next check."""
        after, pause_s = "", CHECK_S
        while True:
            self._accounts, due = await self._store.read(partial(_find_work, after=after))
            for id_, queued in due:
                if queued >= rows.QUEUED_MAX:
                    pause_s = BLOCKED_LOOK_S
                else:
                    await self._feed(id_)
            if len(due) < DUE_AT_ONCE:
                return pause_s
            after = due[-1][0]

    async def _feed(self, webhook_id: str) -> None:
        while (await self._store.write(partial(self._batches.feed, webhook_id=webhook_id))).has_more:
            if self._stopping():
                return


def _find_work(tx: Tx, after: str) -> _Work:
    return rows.accounts(tx), rows.due(tx, after, DUE_AT_ONCE)


@asynccontextmanager
async def open_feeder(feeder: Feeder, *, keep: Keep = unsupervised) -> AsyncIterator[Feeder]:
    """Run a feeder while the block runs."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep, "account_webhooks", feeder.keep_feeding)
        yield feeder
        nursery.cancel_scope.cancel()
