"""Moves whole days of the journal into files. If the process dies between any two steps, no row is lost.

1. Copy a day's rows into a file. The index becomes durable first, then the file. A process that dies here leaves files
    that no record refers to.
2. Record the file in `archives`. After this transaction the database allows deleting the day's rows.
3. Update the manifest in the folder to match `archives`.
4. For each member of the file, in its own transaction, add the sums of its rows to `openings` and record the progress
    in `archives`. The same transaction deletes the rows from the journal. If the month has its own partition, its rows
    stay, and their sums are ignored until the whole month is dropped (`billing.archive.months`). The ledger can
    therefore be verified after every commit.

If rows for an archived day arrive late, for example from a node with a wrong clock, they are written to an additional
file for that day.
"""

import fcntl
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import trio

from billing.archive.archives import NOT_LATE, READ_DUE, READ_LATE, Archive, add_archive, read_archives, read_rows
from billing.archive.days import DAY_S, day_of, first_id
from billing.archive.files import (
    ArchiveBroken,
    ArchivedRow,
    ArchiveFile,
    FileWriter,
    Member,
    chained,
    digest_of,
    read_manifest,
    read_member,
    write_manifest,
)
from billing.archive.index import IndexWriter, index_name, make_index
from billing.archive.months import SAVE_COPIED, Month, begin_to_copy, find_late, leave, read_months, stretches
from billing.archive.openings import add_openings
from storage.private_files import make_folder
from storage.store import Store, Tx

ROWS_A_MEMBER: Final = 70
"""How many rows to copy per step, or to delete from the journal per commit.

The rows of a step are spread over hundreds of database pages. Charges wait for a few milliseconds until these pages are
on disk.
"""
MEMBERS_INDEXED: Final = 4
LATE_MEMBERS_MAX: Final = 20
"""The maximum number of members in a file of late rows. The ids of its rows are deleted in one commit."""
PAUSE_S: Final = 0.005
REST_RATIO: Final = 5.0
"""The pause after each step, as a multiple of the step's duration. Steps take longer under load, so pauses do too."""
LOCK: Final = ".lock"

OLDEST: Final = f"SELECT id FROM journal WHERE id >= ? AND id < ? AND {NOT_LATE} ORDER BY id LIMIT 1"  # noqa: S608 - constants
READ_SUMMED: Final = "SELECT summed_to FROM archives WHERE number = ? {lock}"
SAVE_SUMMED: Final = "UPDATE archives SET summed = summed + ?, summed_to = ? WHERE number = ?"
REMOVE: Final = "DELETE FROM journal WHERE id IN {in}"
FORGET_LATE: Final = "DELETE FROM journal_late WHERE id IN {in}"

ReadRows: TypeAlias = Callable[[Tx, bytes], list[ArchivedRow]]


class Archived(NamedTuple):
    """How many files were started and how many rows were processed.

    `is_done` means that no remaining day is old enough.
    """

    files: int
    rows: int
    is_done: bool


class Due(NamedTuple):
    """The next day to copy, and its month if the month has a partition."""

    day: int
    month: Month | None


class ArchiveTaken(Exception):
    """Another process is already archiving to this folder."""


class Archiver:
    """Archives all rows older than `detail_days` whole days to `folder`. Only one process can do this at a time."""

    def __init__(self, store: Store, folder: Path, *, detail_days: int) -> None:
        self._store = store
        self.folder = folder
        self._detail_days = detail_days

    async def run(self, now: float, *, until: float = math.inf) -> Archived:
        """Archive all days that are old enough at `now`. Stop at `until`, a time on Trio's clock.

        Raises:
            ArchiveTaken: another process is archiving.
            ArchiveBroken: the folder belongs to another store, or one of its files is damaged.
            OSError: a file cannot be written.
            StorageError: the store is unavailable, or a long read blocks the journal. The next run continues where this
                one stopped.
        """
        today = int(now // DAY_S)
        end = today - self._detail_days
        with alone(self.folder):
            files = rows = 0
            await self._make_indexes(until)
            while trio.current_time() < until:
                archives = await self._store.read(read_archives)
                await self._store.read(partial(self._update_manifest, archives))
                unfinished = next((one for one in archives if one.summed < one.file.rows), None)
                if unfinished is not None:
                    rows += await self._sum_up(unfinished, until)
                elif (due := await self._store.read(partial(_next_due, end=end, today=today))) is not None:
                    await self._copy_day(due, archives)
                    files += 1
                elif (month := await self._store.read(partial(_next_month, end=end))) is not None:
                    files += await self._drop_month(month, archives)
                else:
                    return Archived(files, rows, is_done=True)
            return Archived(files, rows, is_done=False)

    def _update_manifest(self, archives: Sequence[Archive], _tx: Tx) -> None:
        """Update the folder's manifest to match the store."""
        known = [archive.file for archive in archives]
        in_folder = read_manifest(self.folder)
        if in_folder == known:
            return
        missing = [file.name for file in known if not (self.folder / file.name).exists()]
        if in_folder != known[: len(in_folder)] or missing:
            raise ArchiveBroken(f"{self.folder} does not contain this store's archive: put the archive's files there")
        write_manifest(self.folder, known)

    async def _copy_day(self, due: Due, archives: Sequence[Archive]) -> None:
        if due.month is not None and due.month.copied_to is None:
            assert self._store.partitions is not None, "only an engine with partitions has months"
            await self._store.partitions.change(partial(begin_to_copy, due.month))
        file = await self._copy(due.day, archives, READ_DUE)
        await self._store.write(partial(_enter_day, file, due.month))

    async def _drop_month(self, month: Month, archives: Sequence[Archive]) -> int:
        """Drop a month whose rows are all in files.

        If some rows arrived late, copy those instead. Return the number of new files.
        """
        assert self._store.partitions is not None, "only an engine with partitions has months"
        if month.copied_to is None:
            await self._store.partitions.change(partial(begin_to_copy, month))
            return 0
        late = None if month.is_detached else await self._store.read(partial(find_late, month=month))
        if late is None:
            await leave(self._store.partitions, month)
            return 0
        ids: list[bytes] = []
        file = await self._copy(day_of(late), archives, READ_LATE, ids=ids)
        await self._store.write(partial(_enter_late, file, ids))
        return 1

    async def _copy(
        self, day: int, archives: Sequence[Archive], sql: str, *, ids: list[bytes] | None = None
    ) -> ArchiveFile:
        """Copy the day's rows into the next file.

        With `ids`, copy only some members and append their row ids to `ids`.
        """
        number = len(archives) + 1
        writer = FileWriter(self.folder, number=number, day=day)
        index = IndexWriter(self.folder, writer.name)
        end, last = first_id(day + 1), first_id(day)
        copy_some = partial(_copy_some, writer, index, ids, sql=sql, end=end)
        try:
            while True:
                async with _pause_after():
                    copied = await self._store.read(partial(copy_some, after=last))
                if copied is None or (ids is not None and len(ids) >= LATE_MEMBERS_MAX * ROWS_A_MEMBER):
                    break
                last = copied
            await self._store.read(lambda _tx: index.finish())
            digest = await self._store.read(lambda _tx: writer.finish())
        finally:
            index.close()
            writer.close()
        before = archives[-1].file.chain if archives else ""
        return chained(before, ArchiveFile(number, day, writer.name, writer.rows, digest))

    async def _make_indexes(self, until: float) -> None:
        """Create missing indexes. Unreadable files are skipped, so that they do not stop the run."""
        for name in await self._store.read(self._without_index):
            if trio.current_time() >= until:
                return
            writer = IndexWriter(self.folder, name)
            begin: int | None = 0
            try:
                while begin is not None:
                    async with _pause_after():
                        begin = await self._store.read(partial(self._index_some, name, writer, begin))
            except ArchiveBroken:
                continue
            finally:
                writer.close()

    def _index_some(self, name: str, writer: IndexWriter, begin: int, _tx: Tx) -> int | None:
        return make_index(self.folder, name, writer, begin, MEMBERS_INDEXED)

    def _without_index(self, tx: Tx) -> list[str]:
        """Return the files without an index: an earlier version wrote them, or their index was deleted."""
        names = [archive.file.name for archive in read_archives(tx)]
        return [name for name in names if not (self.folder / index_name(name)).exists()]

    async def _sum_up(self, archive: Archive, until: float) -> int:
        """Sum up the file's rows and delete those outside a partitioned month. Return the number of rows."""
        file, begin, summed = archive.file, archive.summed_to, 0
        if await self._store.read(lambda _tx: digest_of(self.folder, file.name)) != file.digest:
            raise ArchiveBroken(f"{self.folder / file.name} was modified; its rows stay in the journal")
        while trio.current_time() < until:
            async with _pause_after():
                member = await self._store.read(partial(self._read_member, file.name, begin))
                if member is None:
                    break
                await self._store.write(partial(_sum_up_member, archive, member))
                await self._store.flush_log()
            summed += len(member.rows)
            begin = member.end
        return summed

    def _read_member(self, name: str, begin: int, _tx: Tx) -> Member | None:
        """Read a member on one of the store's reader threads, because disk access must not block the event loop."""
        return read_member(self.folder, name, begin)


def _next_due(tx: Tx, end: int, today: int) -> Due | None:
    """Return the oldest day before `end` that is not in files yet, or None.

    If the day's month has a partition, the month must be over.
    """
    tx.pin("journal")
    for stretch in stretches(read_months(tx), end=end, today=today):
        oldest = tx.one(OLDEST, (first_id(stretch.begin), first_id(max(stretch.begin, stretch.end))))
        if oldest is not None:
            return Due(day_of(oldest[0]), stretch.month)
    return None


def _next_month(tx: Tx, end: int) -> Month | None:
    """Return the oldest month that is over by `end`, or None. All days before `end` must already be copied."""
    return next((month for month in read_months(tx) if month.until <= end), None)


def _copy_some(
    writer: FileWriter, index: IndexWriter, ids: list[bytes] | None, tx: Tx, *, sql: str, after: bytes, end: bytes
) -> bytes | None:
    """Copy rows between two ids into at most one member. Return the last row's id, or None if no rows were left."""
    rows = read_rows(tx, after, end, ROWS_A_MEMBER, sql=sql)
    if not rows:
        return None
    begin = writer.end
    writer.add(rows)
    index.add(begin, rows)
    if ids is not None:
        ids += [bytes.fromhex(row.id) for row in rows]
    return bytes.fromhex(rows[-1].id)


def _enter_day(file: ArchiveFile, month: Month | None, tx: Tx) -> None:
    add_archive(tx, file)
    if month is not None:
        tx.run(SAVE_COPIED, (file.day + 1, month.first))


def _enter_late(file: ArchiveFile, ids: Sequence[bytes], tx: Tx) -> None:
    add_archive(tx, file)
    tx.run_in(FORGET_LATE, ids)


def _sum_up_member(archive: Archive, member: Member, tx: Tx) -> None:
    file = archive.file
    if tx.one(READ_SUMMED, (file.number,)) != (member.begin,):
        raise ArchiveTaken("another process is summing up the rows of this file")
    if not archive.is_standing:
        ids = [bytes.fromhex(row.id) for row in member.rows]
        if tx.run_in(REMOVE, ids) != len(ids):
            raise ArchiveBroken(f"the journal does not contain the rows of {file.name} after byte {member.begin}")
    add_openings(tx, file.day, member.rows)
    tx.run(SAVE_SUMMED, (len(member.rows), member.end, file.number))


@asynccontextmanager
async def _pause_after() -> AsyncIterator[None]:
    """Run the step in the block, then pause. If the step raises, skip the pause."""
    began = trio.current_time()
    yield
    await trio.sleep(max(PAUSE_S, REST_RATIO * (trio.current_time() - began)))


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the folder while the block runs.

    Raises:
        ArchiveTaken: another process holds the lock.
        OSError: the folder cannot be used.
    """
    make_folder(folder)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise ArchiveTaken(f"another process is archiving into {folder}") from exc
        yield
    finally:
        os.close(descriptor)
