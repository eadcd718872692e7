"""Whole days leave the journal for files, and nothing is lost, stands twice or is unproved on the way."""

from __future__ import annotations

import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pytest
import trio

from billing.archive import archiver
from billing.archive.archiver import Archived, Archiver, ArchiveTaken, _next_due
from billing.archive.archives import read_archives
from billing.archive.days import first_id
from billing.archive.files import ArchiveBroken, ArchivedRow, members_of, read_manifest
from billing.archive.index import index_name
from billing.archive.verification import next_day, verify_chain, verify_day
from billing.journal import request_text
from billing.ledger.verification import verify
from billing.migrations import MIGRATIONS
from storage.errors import ConstraintViolated
from storage.opening import open_store
from storage.store import Store, Tx
from tests.billing.archive.past import DAY_S, PastDesk, play
from tests.billing.desk import Desk
from tests.fakes.entries import read_entries
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_store import InlineSqlite, InlineStore

T = TypeVar("T")

DETAIL_DAYS = 10


async def archive(desk: Desk, folder: Path) -> Archived:
    """All that is old enough."""
    return await archiver_of(desk, folder).run(desk.time)


def archiver_of(desk: Desk, folder: Path) -> Archiver:
    return Archiver(desk.store, folder, detail_days=DETAIL_DAYS)


def rows_of(folder: Path) -> list[ArchivedRow]:
    return [row for file in read_manifest(folder) for member in members_of(folder, file.name) for row in member.rows]


def ids(tx: Tx) -> list[str]:
    return [row[0].hex() for row in tx.all("SELECT id FROM journal ORDER BY id")]


@pytest.fixture
def desk(desk: Desk) -> PastDesk:
    return PastDesk(desk.store)


async def test_whole_days_older_than_the_detail_go_into_files_of_a_day_each(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=15)
    before = await desk.store.read(ids)
    first_day = int.from_bytes(bytes.fromhex(before[0])[:6], "big") // (DAY_S * 1000)
    archived = await archive(desk, tmp_path / "archive")
    files = read_manifest(tmp_path / "archive")
    kept_from = first_id(int(desk.time // DAY_S) - DETAIL_DAYS).hex()
    assert [file.day for file in files] == list(range(first_day, first_day + len(files)))
    assert archived == (len(files), sum(file.rows for file in files), True)
    assert [row.id for row in rows_of(tmp_path / "archive")] == [id_ for id_ in before if id_ < kept_from]
    assert await desk.store.read(ids) == [id_ for id_ in before if id_ >= kept_from]
    assert archived.rows > 50
    await desk.assert_sound()
    assert await archive(desk, tmp_path / "archive") == (0, 0, True)


async def test_a_row_of_the_archive_says_all_that_the_journal_said(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=2)
    due = await desk.store.read(lambda tx: read_entries(tx.all))
    (ada, bob) = await desk.accounts.list()
    desk.time += 30 * DAY_S
    await archive(desk, tmp_path)
    rows = rows_of(tmp_path)
    names = {ada.id: 0, bob.id: 0}
    for row in rows:
        names[row.account] += 1
        of_request = [one for one in due if one.request_id == request_text(row.kind, bytes.fromhex(row.id))]
        taken = next(one for one in due if one.account == row.account and one.id == row.place)
        assert row.balance_after == taken.balance_after
        if row.kind <= 2:
            assert (row.taken, row.key, row.endpoint) == (taken.amount, taken.key, taken.description)
            assert sum(one.amount for one in of_request if one.kind == "refund") == row.refunded
            assert sum(one.amount for one in of_request if one.kind == "bonus") == row.issued
            assert row.closed_at >= row.taken_at
        else:
            assert (row.issued, row.note, row.key) == (taken.amount, taken.description, None)
    assert all(names.values())
    assert len(rows) == 2 * 2 * 5 + 2 + 2


async def test_a_late_row_of_an_archived_day_goes_into_a_further_file(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=2)
    began = desk.time
    desk.time += 30 * DAY_S
    await archive(desk, tmp_path)
    (ada, _bob) = await desk.accounts.list()
    later, desk.time = desk.time, began - DAY_S  # a node whose clock stands behind
    request = desk.request(ada.id, None, credits=5)
    request.request_id = desk.id_now()
    await desk.charges.close(await desk.charges.take(request), used=1)
    desk.time = later
    assert (await archive(desk, tmp_path)).files == 1
    *_earlier, last = read_manifest(tmp_path)
    assert last.rows == 1
    assert last.day in {file.day for file in _earlier}
    await desk.assert_sound()


async def test_the_database_lets_only_rows_go_whose_day_is_archived(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=15)
    with pytest.raises(ConstraintViolated, match="append-only"):
        await desk.store.write(lambda tx: tx.run("DELETE FROM journal"))
    await archive(desk, tmp_path)
    for sql in ("DELETE FROM journal", "UPDATE journal SET taken = 0"):
        with pytest.raises(ConstraintViolated, match="append-only"):
            await desk.store.write(lambda tx, sql=sql: tx.run(sql))


async def test_one_process_archives_at_a_time(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=1)
    desk.time += 30 * DAY_S
    with archiver.alone(tmp_path), pytest.raises(ArchiveTaken):
        await archive(desk, tmp_path)
    assert (await archive(desk, tmp_path)).is_done


@pytest.mark.parametrize("harm", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x")])
async def test_rows_whose_file_is_gone_or_changed_stay(
    desk: PastDesk, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    """Method: the run ends after the first file has been entered, and somebody harms the file."""
    await play(desk, days=1, calls=300)
    desk.time += 30 * DAY_S
    one = archiver_of(desk, tmp_path)
    due = await desk.store.read(partial(_next_due, end=int(desk.time // DAY_S), today=int(desk.time // DAY_S)))
    assert due is not None
    await one._copy_day(due, [])
    (entered,) = await desk.store.read(read_archives)
    before = await desk.store.read(ids)
    harm(tmp_path / entered.file.name)
    with pytest.raises(ArchiveBroken):
        await archive(desk, tmp_path)
    assert await desk.store.read(ids) == before
    await desk.assert_sound()


async def test_a_run_makes_the_indexes_that_are_missing_and_passes_files_that_are_damaged(
    desk: PastDesk, tmp_path: Path
) -> None:
    """As of files that a version wrote which made no indexes."""
    await play(desk, days=4)
    desk.time += 30 * DAY_S
    await archive(desk, tmp_path)
    indexes = [tmp_path / index_name(file.name) for file in read_manifest(tmp_path)]
    before = [index.read_bytes() for index in indexes]
    for index in indexes[:3]:
        index.unlink()
    (tmp_path / read_manifest(tmp_path)[1].name).write_bytes(b"x")
    assert await archive(desk, tmp_path) == (0, 0, True)
    assert [index.exists() for index in indexes] == [True, False, True, True]
    assert [index.read_bytes() for index in indexes if index.exists()] == [before[0], *before[2:]]


async def test_another_stores_folder_is_refused(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=12)
    await archive(desk, tmp_path / "one")
    desk.time += DAY_S
    with pytest.raises(ArchiveBroken, match="does not hold the archive of this store"):
        await archive(desk, tmp_path / "other")
    (tmp_path / "one" / "manifest.jsonl").write_text("")
    await archive(desk, tmp_path / "one")
    await desk.assert_sound()


class Crash(Exception):
    """The end of a process."""


class CrashingStore:
    """A store whose process ends at the given point: before a call, within its transaction, or after its commit."""

    def __init__(self, store: Store, crash: Callable[[], None]) -> None:
        self._store = store
        self._crash = crash

    async def write(self, fn: Callable[[Tx], T]) -> T:
        return await self._around(self._store.write, fn)

    async def read(self, fn: Callable[[Tx], T]) -> T:
        return await self._around(self._store.read, fn)

    async def _around(self, call: Callable[[Callable[[Tx], T]], Awaitable[T]], fn: Callable[[Tx], T]) -> T:
        def within(tx: Tx) -> T:
            result = fn(tx)
            self._crash()
            return result

        self._crash()
        result = await call(within)
        self._crash()
        return result


class CrashAt:
    """Ends the process, by `end`, the given number of points on."""

    def __init__(self, point: int, end: Callable[[], None]) -> None:
        self.left = point
        self._end = end

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._end()


def crash() -> None:
    raise Crash


def left_and_archived(tx: Tx, folder: Path) -> list[str]:
    """The ids of all rows: those of the journal, and those of the archive that have left it."""
    found = ids(tx)
    for archive in read_archives(tx):
        members = members_of(folder, archive.file.name) if archive.left else []
        found += [row.id for member in members if member.begin < archive.left_to for row in member.rows]
    return sorted(found)


@pytest.mark.sqlite
async def test_a_process_that_ends_at_any_step_loses_nothing_and_enters_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, whose file is quickly copied.

    Method: end it at each point in turn, prove the ledger and the archive, and let another process go on.
    """
    monkeypatch.setattr(archiver, "ROWS_A_MEMBER", 7)
    monkeypatch.setattr(archiver, "COPY_PAUSE_S", 0.0)
    monkeypatch.setattr(archiver, "REMOVE_PAUSE_S", 0.0)
    points, filled = 0, InlineStore([MIGRATIONS])
    desk = PastDesk(filled)
    await play(desk, days=2, calls=4)
    desk.time += 30 * DAY_S
    before, image = filled.look(ids), filled.connection.serialize()
    filled.close()
    while True:
        points += 1
        folder = tmp_path / str(points)
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.deserialize(image)
        store = InlineSqlite(connection)
        crashing = cast("Store", CrashingStore(store, CrashAt(points, crash)))
        ended = False
        try:
            await Archiver(crashing, folder, detail_days=DETAIL_DAYS).run(desk.time)
        except Crash:
            ended = True
        assert store.look(verify) == []
        assert store.look(partial(left_and_archived, folder=folder)) == before
        assert (await Archiver(store, folder, detail_days=DETAIL_DAYS).run(desk.time)).is_done
        assert store.look(ids) == []
        assert sorted(row.id for row in rows_of(folder)) == before
        assert store.look(verify) == []
        assert_archive_holds(store, folder)
        store.close()
        if not ended:
            break
    assert points > 50


def assert_archive_holds(store: InlineCalls, folder: Path) -> None:
    assert store.look(partial(verify_chain, folder=folder)) == []
    day = -1
    while (following := store.look(partial(next_day, after=day))) is not None:
        day = following
        assert store.look(partial(verify_day, folder=folder, day=day)) == []


KILLS = 5
RUN = """
import os, signal, sys, trio
from pathlib import Path
from billing.archive import archiver
from billing.migrations import MIGRATIONS
from storage.opening import open_store
from tests.billing.archive.test_archiver import CrashAt, CrashingStore
archiver.ROWS_A_MEMBER = 7
async def main():
    url, folder, now, point = sys.argv[1:]
    async with open_store(url, [MIGRATIONS]) as store:
        store = CrashingStore(store, CrashAt(int(point), lambda: os.kill(os.getpid(), signal.SIGKILL)))
        await archiver.Archiver(store, Path(folder), detail_days=10).run(float(now))
trio.run(main)
"""


async def test_processes_that_are_killed_one_after_the_other_come_to_the_same_archive(
    store_url: str, tmp_path: Path
) -> None:
    """By SIGKILL, each some points further from its start than the one before it."""
    with trio.fail_after(120):
        async with open_store(store_url, [MIGRATIONS]) as store:
            desk = PastDesk(store)
            await play(desk, days=6, calls=4)
            now, before = desk.time + 30 * DAY_S, await store.read(ids)
        for kill in range(1, KILLS + 1):
            command = [sys.executable, "-c", RUN, store_url, str(tmp_path), str(now), str(9 * kill)]
            done = await trio.run_process(command, check=False)
            assert done.returncode == -signal.SIGKILL
            async with open_store(store_url, [MIGRATIONS]) as store:
                assert await store.read(verify) == []
                assert await store.read(partial(left_and_archived, folder=tmp_path)) == before
        async with open_store(store_url, [MIGRATIONS]) as store:
            assert (await Archiver(store, tmp_path, detail_days=10).run(now)).is_done
            assert await store.read(verify) == []
            assert await store.read(ids) == []
            assert await store.read(partial(verify_chain, folder=tmp_path)) == []
    assert sorted(row.id for row in rows_of(tmp_path)) == before
