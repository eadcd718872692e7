"""Named consumers: a key's own places in the log, which move by acknowledgement only (spec 3, 4.4; decisions 13)."""

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
    """Reads for, and moves, the consumers of keys."""

    def __init__(self, store: Store, now: Callable[[], float], *, scan_max: int = SCAN_MAX) -> None:
        """`now` gives Unix seconds; a read looks at `scan_max` positions at most."""
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
        """The page after what was acknowledged; the same again until that moves. The first read creates the consumer.

        Without a `start` it must be there already. A stream reads on behind the position that it was `streamed_to`.
        `omitted` names those of the `filters` that were not sent.

        The page is returned once it is durable that it was served.

        Raises:
            FiltersConflict: they are not those of the first read.
            UnknownConsumer: there is none, and `start` is None.
            Lapsed: once; the next read restarts at the oldest kept event.
            TooManyConsumers: the key has `CONSUMERS_MAX`.
        """
        want = Want(account_id, key_id, name, start, filters, limit, streamed_to, omitted, self._scan_max)
        outcome = await self._take(partial(read_step, want, self._now()))
        if isinstance(outcome, Lapsed):
            raise outcome
        return outcome

    async def ack(self, key_id: str, name: str, position: Position) -> Acked:
        """Acknowledge all up to `position`; an older one changes nothing.

        Raises:
            UnknownConsumer: nothing was ever read for it.
            AckBeyondServed: it was never served that far.
            Lapsed: its next read will restart it.
        """
        return await self._take(partial(ack_step, key_id, name, position, self._now()))

    async def list(self, key_id: str) -> Sequence[Overview]:
        """All consumers of a key, by name."""
        return await self._reckon(await self._store.read(partial(_list, key_id, self._now())))

    async def get(self, key_id: str, name: str) -> Overview:
        """One consumer; a lapsed one too, which changes nothing. Raises UnknownConsumer."""
        found = await self._store.read(partial(overview_step, key_id, name, self._now()))
        await self._reckon([found])
        return found

    async def reset(self, key_id: str, name: str, position: Position) -> Overview:
        """Put it at `position`, wherever it stands, with nothing served; a lapse is over.

        Raises:
            UnknownConsumer: there is none.
            CursorExpired, CursorAhead: nothing can be read on from there.
        """
        return await self._take(partial(reset_step, key_id, name, position, self._now()))

    async def delete(self, key_id: str, name: str) -> None:
        """Forget it. Raises UnknownConsumer."""
        await self._take(partial(delete_step, key_id, name))

    async def _take(self, step: Callable[[Tx], ConsumerStep[T]]) -> T:
        """The outcome of a step on the row as it stands; while others change that, begin again.

        Each time around somebody else has moved on, so `TRIES` are never used up by those who may read at once.
        """
        for _ in range(TRIES):
            taken = await self._store.read(step)
            if taken.after == taken.before:
                return taken.outcome
            if await self._store.submit(swap_consumers, Swap(taken.before, taken.after)):
                return taken.outcome
        raise StoreContended("too many calls change the same consumer at once")

    async def _reckon(self, found: Sequence[Overview]) -> Sequence[Overview]:
        """Write down what took long to count; should a row have changed meanwhile, it is left alone."""
        for one in found:
            after = rules.reckoned(one.consumer, last_pos=one.head.last_pos, unread=one.unread)
            if after != one.consumer:
                await self._store.submit(swap_consumers, Swap(one.consumer, after))
        return found


def _list(key_id: str, now: float, tx: Tx) -> list[Overview]:
    found = list_consumers(tx, key_id)
    return overviews(tx, found, read_head(tx, found[0].account_id), now) if found else []  # a key has one account
