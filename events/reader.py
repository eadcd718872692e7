"""Pages for many readers at once: what is asked while others are being read goes together as the next read.

A reader's transaction costs a hop to a thread and back, more than most pages do. When ten thousand polls wake together
they share a few of those.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from events.news import Found, read_pages
from events.pages import Ask, Page, read_heads
from events.places import EMPTY, Head
from storage.store import Store, Tx

READS_AT_ONCE = 3
"""Reads under way at a time on a database of its own, so that one slow answer does not hold up everybody's."""
PAGES_PER_READ = 1_000


class _Job:
    """One page that is waited for, or the head of the log of an account that is named. The reading task sets `found`
    and wakes `task`, unless it has gone."""

    __slots__ = ("ask", "found", "task")

    def __init__(self, ask: Ask | str) -> None:
        self.ask = ask
        self.found: Found | Head | None = None
        self.task: trio.lowlevel.Task | None = None


class PageReader:
    """Reads pages of any account's log."""

    def __init__(self, store: Store) -> None:
        """Its tasks (`keep_reading`) have to run."""
        self._store = store
        self._jobs: list[_Job] = []
        self._idle = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """How many pages and heads wait for a reading task."""
        return len(self._jobs)

    async def read(self, ask: Ask) -> Page:
        """The page as it stands now or a moment later.

        Raises:
            CursorExpired, CursorAhead: as `read_page`.
            StorageError: the store cannot be read.
        """
        page = await self._found(ask)
        assert isinstance(page, Page)
        return page

    async def head(self, account_id: str) -> Head:
        """Where the account's log begins and ends now or a moment later.

        Raises:
            StorageError: the store cannot be read.
        """
        head = await self._found(account_id)
        assert isinstance(head, Head)
        return head

    async def _found(self, ask: Ask | str) -> Page | Head:
        job = _Job(ask)
        job.task = trio.lowlevel.current_task()
        self._jobs.append(job)
        if self._idle:
            self._idle.unpark()

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            job.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if isinstance(job.found, Exception):
            raise job.found
        assert job.found is not None
        return job.found

    async def keep_reading(self) -> None:
        """Until cancelled: one of the tasks that read what is waited for."""
        while True:
            if not self._jobs:
                await self._idle.park()
            jobs = [job for job in self._jobs[:PAGES_PER_READ] if job.task is not None]
            del self._jobs[:PAGES_PER_READ]
            if not jobs:
                continue
            for job, found in zip(jobs, await self._read([job.ask for job in jobs]), strict=True):
                job.found = found
                if job.task is not None:
                    trio.lowlevel.reschedule(job.task)

    async def _read(self, asks: Sequence[Ask | str]) -> Sequence[Found | Head]:
        try:
            return await self._store.read(partial(_read_all, asks))
        except Exception as exc:  # noqa: BLE001 - whatever it is, all who wait must hear of it
            return [exc] * len(asks)


def _read_all(asks: Sequence[Ask | str], tx: Tx) -> list[Found | Head]:
    """What was found for each; polls of one key that wait at one place ask for the same page, which is read once."""
    different = dict.fromkeys(asks)
    pages = read_pages(tx, [ask for ask in different if isinstance(ask, Ask)])
    heads = read_heads(tx, [ask for ask in different if isinstance(ask, str)])
    return [heads.get(ask, EMPTY) if isinstance(ask, str) else pages[ask] for ask in asks]


@asynccontextmanager
async def open_page_reader(store: Store, *, is_alone: bool) -> AsyncIterator[PageReader]:
    """A reader and its tasks, gone when the block ends.

    Where the database runs in this process (`is_alone`) one read at a time: several only fight for the interpreter.
    """
    reader = PageReader(store)
    async with trio.open_nursery() as nursery:
        for _ in range(1 if is_alone else READS_AT_ONCE):
            nursery.start_soon(reader.keep_reading)
        yield reader
        nursery.cancel_scope.cancel()
