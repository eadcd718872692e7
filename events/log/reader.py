"""Reads pages for many readers together: queries that arrive during a read are combined into the next read.

A reader's transaction needs a round trip to a thread, which takes longer than reading most pages. When ten thousand
polls wake together, they share a few of these round trips.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice

import trio

from events.log.batch_pages import Found, read_pages
from events.log.pages import EventPage, PageQuery, read_heads
from events.positions import EMPTY, LogHead
from events.sleeper import Sleeper
from storage.store import Store, Tx
from storage.supervision import Keep, unsupervised

READS_AT_ONCE = 3
"""How many reads run concurrently on a separate database server, so that one slow answer does not block all others."""
PAGES_PER_READ = 1_000
DELIVERED_AT_ONCE = 500


class PageReader:
    """Reads pages of any account's log."""

    def __init__(self, store: Store) -> None:
        """Pages are read only while at least one task runs `keep_reading`."""
        self._store = store
        self._wanted: dict[PageQuery | str, list[Sleeper]] = {}
        """Sleepers by query. Polls of one key at the same position need the same page, so it is read only once."""
        self._idle = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """Return how many callers wait for a page or head whose read has not begun."""
        return sum(map(len, self._wanted.values()))

    async def read(self, query: PageQuery) -> EventPage:
        """Return the page. It is read together with other requested pages, now or a moment later.

        Raises:
            CursorExpired, CursorAhead: as in `read_page`.
            StorageError: the store cannot be read.
        """
        page = await self._found(query)
        assert isinstance(page, EventPage)
        return page

    async def head(self, account_id: str) -> LogHead:
        """Return where the account's log begins and ends. It is read together with pages, now or a moment later.

        Raises:
            StorageError: the store cannot be read.
        """
        head = await self._found(account_id)
        assert isinstance(head, LogHead)
        return head

    def begin(self, query: PageQuery | str, sleeper: Sleeper) -> None:
        """Start to read a page, or the head of an account's log. The result or exception is delivered to `sleeper`."""
        sleepers = self._wanted.get(query)
        if sleepers is not None:
            sleepers.append(sleeper)
            return
        self._wanted[query] = [sleeper]
        if self._idle:
            self._idle.unpark()

    async def _found(self, query: PageQuery | str) -> object:
        sleeper = Sleeper()
        self.begin(query, sleeper)
        await sleeper.sleep()
        if isinstance(sleeper.found, Exception):
            raise sleeper.found
        return sleeper.found

    async def keep_reading(self) -> None:
        """Read requested pages until cancelled. Several tasks run this."""
        while True:
            if not self._wanted:
                await self._idle.park()
            wanted = self._take()
            if wanted:
                for sleepers, found in zip(wanted.values(), await self._read(list(wanted)), strict=True):
                    await _deliver(found, sleepers)

    def _take(self) -> dict[PageQuery | str, list[Sleeper]]:
        """Return the next queries to read, without those whose callers have stopped waiting."""
        first = list(islice(self._wanted, PAGES_PER_READ))
        taken = ((query, self._wanted.pop(query)) for query in first)
        return {query: sleepers for query, sleepers in taken if any(sleeper.is_asleep for sleeper in sleepers)}

    async def _read(self, queries: Sequence[PageQuery | str]) -> Sequence[Found | LogHead]:
        try:
            return await self._store.read(partial(_read_all, queries))
        except Exception as exc:  # noqa: BLE001 - any failure must reach all waiting callers
            return [exc] * len(queries)


async def _deliver(found: object, sleepers: Sequence[Sleeper]) -> None:
    """Wake all waiting callers.

    There are pauses in between, because waking ten thousand in one go would block the event loop.
    """
    for nth, sleeper in enumerate(sleepers, start=1):
        sleeper.deliver(found)
        if nth % DELIVERED_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()


def _read_all(queries: Sequence[PageQuery | str], tx: Tx) -> list[Found | LogHead]:
    """Return the page or head for each query. The queries are distinct."""
    pages = read_pages(tx, [query for query in queries if isinstance(query, PageQuery)])
    heads = read_heads(tx, [query for query in queries if isinstance(query, str)])
    return [heads.get(query, EMPTY) if isinstance(query, str) else pages[query] for query in queries]


@asynccontextmanager
async def open_page_reader(store: Store, *, is_alone: bool, keep: Keep = unsupervised) -> AsyncIterator[PageReader]:
    """Open a reader with its tasks, which end with the block.

    If the database runs in this process (`is_alone`), one read runs at a time, because several would only compete for
    the interpreter.
    """
    reader = PageReader(store)
    async with trio.open_nursery() as nursery:
        for _ in range(1 if is_alone else READS_AT_ONCE):
            nursery.start_soon(keep, "feed_reads", reader.keep_reading)
        yield reader
        nursery.cancel_scope.cancel()
