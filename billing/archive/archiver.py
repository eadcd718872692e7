"""Moves whole days of the journal into files, in steps that any process may die between.

1. A day's rows are copied into a file, which is made durable, and before it its index. A process that dies here leaves
   files that nobody knows.
2. One transaction enters the file into `archives`: from here on the database lets the day's rows go.
3. The manifest in the folder is brought up to `archives`.
4. Member by member of the file, one transaction each, rows leave the journal, their sums come into `openings`, and
   `archives` says how far that went. So the ledger is proved by what is left at every commit.

Rows of an old day that come late, as from a node whose clock stood wrong, go into a further file of the day.
"""

import fcntl
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import trio

from billing.archive.files import (
    DAY_MS,
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
from billing.archive.openings import add_openings
from storage.private_files import make_folder
from storage.store import Store, Tx

ROWS_A_MEMBER: Final = 500
"""Rows that leave the journal with one commit, which holds the writer for some milliseconds."""
MEMBERS_A_READ: Final = 4
COPY_PAUSE_S: Final = 0.005
REMOVE_PAUSE_S: Final = 0.01
LOCK: Final = ".lock"
DAY_S: Final = 86_400

_ROW: Final = """
SELECT journal.id, kind, accounts.id, journal.account, keys.id, endpoints.platform, endpoints.path, taken, refunded,
    issued, taken_at, taken_at + closed_after, balance_after, balance_closed, journal.place, refund_place,
    issued_place, notes.text
FROM journal JOIN accounts ON accounts.number = journal.account LEFT JOIN keys ON keys.number = journal.key
LEFT JOIN endpoints ON endpoints.id = journal.endpoint LEFT JOIN notes ON notes.id = journal.note
"""
READ_ROWS: Final = f"{_ROW} WHERE journal.id > ? AND journal.id < ? ORDER BY journal.id LIMIT ?"
OLDEST: Final = "SELECT id FROM journal WHERE id < ? ORDER BY id LIMIT 1"
READ_ARCHIVES: Final = """
SELECT number, day, name, row_count, digest, chain, removed, removed_to FROM archives ORDER BY number
"""
ADD_ARCHIVE: Final = """
INSERT INTO archives (number, day, name, row_count, digest, chain, until_id, removed, removed_to)
VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0)
"""
READ_REMOVED: Final = "SELECT removed_to FROM archives WHERE number = ? {lock}"
SAVE_REMOVED: Final = "UPDATE archives SET removed = removed + ?, removed_to = ? WHERE number = ?"
REMOVE: Final = "DELETE FROM journal WHERE id IN {in}"


class Archive(NamedTuple):
    """A file of the archive as the store knows it, and how much of it has left the journal."""

    file: ArchiveFile
    removed: int
    removed_to: int
    """The offset in the file behind the last member that has left the journal."""


class Archived(NamedTuple):
    """The files that were begun and the rows that left the journal; `is_done`: no day is left that is old enough."""

    files: int
    rows: int
    is_done: bool


class ArchiveTaken(Exception):
    """Another process archives into the folder."""


def read_archives(tx: Tx) -> list[Archive]:
    """Every file of the archive, in order."""
    return [Archive(ArchiveFile(*row[:6]), *row[6:]) for row in tx.all(READ_ARCHIVES)]


def read_rows(tx: Tx, after: bytes, end: bytes, limit: int) -> list[ArchivedRow]:
    """Rows of the journal whose ids lie between the two, in their order."""
    return [ArchivedRow(row[0].hex(), *row[1:]) for row in tx.all(READ_ROWS, (after, end, limit))]


def first_id(day: int) -> bytes:
    """The id that is not above any of the day."""
    return (day * DAY_MS).to_bytes(6, "big")


class Archiver:
    """Archives what is older than `detail_days` whole days into `folder`. One process at a time."""

    def __init__(self, store: Store, folder: Path, *, detail_days: int) -> None:
        self._store = store
        self.folder = folder
        self._detail_days = detail_days

    async def run(self, now: float, *, until: float = math.inf) -> Archived:
        """Archive the days that are old enough at the instant `now`, to the end or to `until` on Trio's clock.

        Raises:
            ArchiveTaken: another process does it.
            ArchiveBroken: the folder is not that of this store, or a file of it is damaged.
            OSError: a file cannot be written.
            StorageError: the store is away; the next run goes on there.
        """
        with alone(self.folder):
            files = removed = 0
            await self._make_indexes(until)
            while trio.current_time() < until:
                archives = await self._store.read(read_archives)
                await self._store.read(partial(self._bring_up, archives))
                unfinished = next((one for one in archives if one.removed < one.file.rows), None)
                if unfinished is not None:
                    removed += await self._remove(unfinished, until)
                elif (day := await self._store.read(partial(self._next_day, now))) is None:
                    return Archived(files, removed, is_done=True)
                else:
                    await self._copy(day, archives)
                    files += 1
            return Archived(files, removed, is_done=False)

    def _next_day(self, now: float, tx: Tx) -> int | None:
        """The oldest day of the journal, if it is old enough."""
        end = int(now // DAY_S) - self._detail_days
        oldest = tx.one(OLDEST, (first_id(end),))
        return None if oldest is None else int.from_bytes(oldest[0][:6], "big") // DAY_MS

    def _bring_up(self, archives: Sequence[Archive], _tx: Tx) -> None:
        """Bring the folder's manifest up to what the store has."""
        known = [archive.file for archive in archives]
        there = read_manifest(self.folder)
        if there == known:
            return
        missing = [file.name for file in known if not (self.folder / file.name).exists()]
        if there != known[: len(there)] or missing:
            raise ArchiveBroken(f"{self.folder} does not hold the archive of this store: put its files there")
        write_manifest(self.folder, known)

    async def _copy(self, day: int, archives: Sequence[Archive]) -> None:
        number = len(archives) + 1
        writer = FileWriter(self.folder, number=number, day=day)
        index = IndexWriter(self.folder, writer.name)
        end, last = first_id(day + 1), first_id(day)
        try:
            while (copied := await self._store.read(partial(_copy_some, writer, index, last, end))) is not None:
                last = copied
                await trio.sleep(COPY_PAUSE_S)
            await self._store.read(lambda _tx: index.finish())
            digest = await self._store.read(lambda _tx: writer.finish())
        finally:
            index.close()
            writer.close()
        before = archives[-1].file.chain if archives else ""
        file = chained(before, ArchiveFile(number, day, writer.name, writer.rows, digest))
        await self._store.write(lambda tx: tx.run(ADD_ARCHIVE, (*_values(file), end)))

    async def _make_indexes(self, until: float) -> None:
        """Make the indexes that are not there; a file that cannot be read has none, and stops nothing."""
        for name in await self._store.read(self._without_index):
            if trio.current_time() >= until:
                return
            writer = IndexWriter(self.folder, name)
            begin: int | None = 0
            try:
                while begin is not None:
                    begin = await self._store.read(partial(self._index_some, name, writer, begin))
                    await trio.sleep(COPY_PAUSE_S)
            except ArchiveBroken:
                continue
            finally:
                writer.close()

    def _index_some(self, name: str, writer: IndexWriter, begin: int, _tx: Tx) -> int | None:
        return make_index(self.folder, name, writer, begin, MEMBERS_A_READ)

    def _without_index(self, tx: Tx) -> list[str]:
        """The files that have no index: an earlier version wrote them, or somebody removed it."""
        names = [archive.file.name for archive in read_archives(tx)]
        return [name for name in names if not (self.folder / index_name(name)).exists()]

    async def _remove(self, archive: Archive, until: float) -> int:
        """Let the rows go that are in the file; gives their number."""
        file, begin, removed = archive.file, archive.removed_to, 0
        if await self._store.read(lambda _tx: digest_of(self.folder, file.name)) != file.digest:
            raise ArchiveBroken(f"{self.folder / file.name} has changed; its rows stay in the journal")
        while trio.current_time() < until:
            member = await self._store.read(partial(self._read_member, file.name, begin))
            if member is None:
                break
            await self._store.write(partial(_remove_member, file, member))
            removed += len(member.rows)
            begin = member.end
            await trio.sleep(REMOVE_PAUSE_S)
        return removed

    def _read_member(self, name: str, begin: int, _tx: Tx) -> Member | None:
        """On a thread of the store's readers, as all that waits for the disk here."""
        return read_member(self.folder, name, begin)


def _copy_some(writer: FileWriter, index: IndexWriter, after: bytes, end: bytes, tx: Tx) -> bytes | None:
    """Copy some members of rows between two ids; the last one's id, None if there were none."""
    last = None
    for _ in range(MEMBERS_A_READ):
        rows = read_rows(tx, after if last is None else last, end, ROWS_A_MEMBER)
        if not rows:
            break
        last = bytes.fromhex(rows[-1].id)
        begin = writer.end
        writer.add(rows)
        index.add(begin, rows)
    return last


def _remove_member(file: ArchiveFile, member: Member, tx: Tx) -> None:
    if tx.one(READ_REMOVED, (file.number,)) != (member.begin,):
        raise ArchiveTaken("another process lets the rows of the same file go")
    ids = [bytes.fromhex(row.id) for row in member.rows]
    if tx.run_in(REMOVE, ids) != len(ids):
        raise ArchiveBroken(f"the journal does not have the rows of {file.name} behind byte {member.begin}")
    add_openings(tx, file.day, member.rows)
    tx.run(SAVE_REMOVED, (len(ids), member.end, file.number))


def _values(file: ArchiveFile) -> tuple[int, int, str, int, str, str]:
    return file.number, file.day, file.name, file.rows, file.digest, file.chain


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises ArchiveTaken: another process has it; OSError: the folder cannot be used."""
    make_folder(folder)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise ArchiveTaken(f"another process archives into {folder}") from exc
        yield
    finally:
        os.close(descriptor)
