"""Named consumers: a key's named log positions, which move only when acknowledged (spec 3, 4.4; decisions 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from events.consumers import rules
from events.consumers.rows import Swap, list_consumers, swap_consumers
from events.consumers.rules import Start
from events.consumers.steps import (
    Acked,
    ConsumerStep,
    Omitted,
    Overview,
    Served,
    Want,
    ack_step,
    delete_step,
    overview_step,
    overviews,
    read_step,
    reset_step,
)
from events.errors import Lapsed
from events.filters import Filters
from events.log.pages import SCAN_MAX, read_head
from events.positions import Position
from storage.errors import StoreContended
from storage.store import Store, T, Tx

TRIES: Final = 64


class Consumers:
    """Reads pages for the consumers of keys, and moves the consumers' positions."""

    def __init__(self, store: Store, now: Callable[[], float], *, scan_max: int = SCAN_MAX) -> None:
        """`now` returns Unix seconds. A read scans at most `scan_max` positions."""
        self._scan_max = scan_max
        self._store = store
        self._now = now

    async def read(
        self,
        account_id: str,
        key_id: str,
        name: str,
        *,
        limit: int,
        start: Start | None = "oldest",
        filters: Filters | None = None,
        streamed_to: Position | None = None,
        omitted: Omitted = frozenset(),
    ) -> Served:
        """Return the page after the acknowledged position. Reads return the same page until that position moves.

        The first read creates the consumer. If `start` is None, the consumer must already exist. A stream continues
        after the position `streamed_to`. `omitted` lists the `filters` that were not sent.

        The page is returned only after the store has durably recorded that it was served.

        Raises:
            FiltersConflict: the first read used other filters.
            UnknownConsumer: the consumer does not exist, and `start` is None.
            Lapsed: raised once; the next read restarts at the oldest kept event.
            TooManyConsumers: the key already has `CONSUMERS_MAX` consumers.
        """
        want = Want(account_id, key_id, name, start, filters, limit, streamed_to, omitted, self._scan_max)
        outcome = await self._take(partial(read_step, want, self._now()))
        if isinstance(outcome, Lapsed):
            raise outcome
        return outcome

    async def ack(self, key_id: str, name: str, position: Position) -> Acked:
        """Acknowledge everything up to `position`. An older position changes nothing.

        Raises:
            UnknownConsumer: the consumer does not exist.
            AckBeyondServed: the position was never served to the consumer.
            Lapsed: the consumer has lapsed, and must be restarted by reading it.
        """
        return await self._take(partial(ack_step, key_id, name, position, self._now()))

    async def list(self, key_id: str) -> Sequence[Overview]:
        """Return all consumers of a key, sorted by name."""
        return await self._store_counts(await self._store.read(partial(_list, key_id, self._now())))

    async def get(self, key_id: str, name: str) -> Overview:
        """Return one consumer. Unlike a read, this does not restart a lapsed consumer. Raises UnknownConsumer."""
        found = await self._store.read(partial(overview_step, key_id, name, self._now()))
        await self._store_counts([found])
        return found

    async def reset(self, key_id: str, name: str, position: Position) -> Overview:
        """Move the consumer to `position`. After that, nothing counts as served, and the consumer is no longer lapsed.

        Raises:
            UnknownConsumer: the consumer does not exist.
            CursorExpired, CursorAhead: the log cannot be read from this position.
        """
        return await self._take(partial(reset_step, key_id, name, position, self._now()))

    async def delete(self, key_id: str, name: str) -> None:
        """Delete the consumer. Raises UnknownConsumer."""
        await self._take(partial(delete_step, key_id, name))

    async def _take(self, step: Callable[[Tx], ConsumerStep[T]]) -> T:
        """Apply a step to the current row and return its outcome. Retry while other calls change the row.

        Each retry means that another call has succeeded, so the few clients that read at the same time never use up
        `TRIES`.
        """
        for _ in range(TRIES):
            taken = await self._store.read(step)
            if taken.after == taken.before:
                return taken.outcome
            if await self._store.submit(swap_consumers, Swap(taken.before, taken.after)):
                return taken.outcome
        raise StoreContended("too many calls change the same consumer at once")

    async def _store_counts(self, found: Sequence[Overview]) -> Sequence[Overview]:
        """Store counts that took long to compute, unless the row has changed in the meantime. Return `found`."""
        for one in found:
            after = rules.with_counts(one.consumer, last_pos=one.head.last_pos, unread=one.unread)
            if after != one.consumer:
                await self._store.submit(swap_consumers, Swap(one.consumer, after))
        return found


def _list(key_id: str, now: float, tx: Tx) -> list[Overview]:
    found = list_consumers(tx, key_id)
    # All consumers of a key have the same account.
    return overviews(tx, found, read_head(tx, found[0].account_id), now) if found else []
