"""Pages for many readers at once: queries that come during a read go together as the next read.

A reader's transaction costs a hop to a thread and back, more than most pages do. When ten thousand polls wake together
they share a few of those.
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
"""Reads under way at a time on a database of its own, so that one slow answer does not hold up everybody's."""
PAGES_PER_READ = 1_000
DELIVERED_AT_ONCE = 500


class PageReader:
    """Reads pages of any account's log."""

    def __init__(self, store: Store) -> None:
        """Its tasks (`keep_reading`) have to run."""
        self._store = store
        self._wanted: dict[PageQuery | str, list[Sleeper]] = {}
        """By what is to be read: polls of one key that wait at one place ask for the same page, which is read once."""
        self._idle = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """How many wait for a page or a head that no task reads yet."""
        return sum(map(len, self._wanted.values()))

    async def read(self, query: PageQuery) -> EventPage:
        """The page as it stands now or a moment later.

        Raises:
            CursorExpired, CursorAhead: as `read_page`.
            StorageError: the store cannot be read.
        """
        page = await self._found(query)
        assert isinstance(page, EventPage)
        return page

    async def head(self, account_id: str) -> LogHead:
        """Where the account's log begins and ends now or a moment later.

        Raises:
            StorageError: the store cannot be read.
        """
        head = await self._found(account_id)
        assert isinstance(head, LogHead)
        return head

    def begin(self, query: PageQuery | str, sleeper: Sleeper) -> None:
        """Read a page, or the head of the log of a named account, and deliver it or its failure to `sleeper`."""
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
        """Until cancelled: one of the tasks that read what is waited for."""
        while True:
            if not self._wanted:
                await self._idle.park()
            wanted = self._take()
            if wanted:
                for sleepers, found in zip(wanted.values(), await self._read(list(wanted)), strict=True):
                    await _deliver(found, sleepers)

    def _take(self) -> dict[PageQuery | str, list[Sleeper]]:
        """The next queries to read, without those that nobody waits for any more."""
        first = list(islice(self._wanted, PAGES_PER_READ))
        taken = ((query, self._wanted.pop(query)) for query in first)
        return {query: sleepers for query, sleepers in taken if any(sleeper.is_asleep for sleeper in sleepers)}

    async def _read(self, queries: Sequence[PageQuery | str]) -> Sequence[Found | LogHead]:
        try:
            return await self._store.read(partial(_read_all, queries))
        except Exception as exc:  # noqa: BLE001 - whatever it is, all who wait must get it
            return [exc] * len(queries)


async def _deliver(found: object, sleepers: Sequence[Sleeper]) -> None:
    """Wake all who wait for it; ten thousand at once would hold up everybody."""
    for nth, sleeper in enumerate(sleepers, start=1):
        sleeper.deliver(found)
        if nth % DELIVERED_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()


def _read_all(queries: Sequence[PageQuery | str], tx: Tx) -> list[Found | LogHead]:
    """The page of each query; no two are the same."""
    pages = read_pages(tx, [query for query in queries if isinstance(query, PageQuery)])
    heads = read_heads(tx, [query for query in queries if isinstance(query, str)])
    return [heads.get(query, EMPTY) if isinstance(query, str) else pages[query] for query in queries]


@asynccontextmanager
async def open_page_reader(store: Store, *, is_alone: bool, keep: Keep = unsupervised) -> AsyncIterator[PageReader]:
    """A reader and its tasks, gone when the block ends.

    Where the database runs in this process (`is_alone`) one read at a time: several only fight for the interpreter.
    """
    reader = PageReader(store)
    async with trio.open_nursery() as nursery:
        for _ in range(1 if is_alone else READS_AT_ONCE):
            nursery.start_soon(keep, "feed_reads", reader.keep_reading)
        yield reader
        nursery.cancel_scope.cancel()
