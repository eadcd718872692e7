"""Whole days move from the journal into files. No row is lost, duplicated, or unverified in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from billing.archive import archiver
from billing.archive.archiver import Archived, Archiver, ArchiveTaken, _next_due
from billing.archive.archives import read_archives
from billing.archive.days import first_id
from billing.archive.files import ArchiveBroken, ArchivedRow, members_of, read_manifest
from billing.archive.index import index_name
from billing.journal import request_text
from storage.errors import ConstraintViolated
from tests.billing.archive.crashing import (
    end_at_each_point,
    ids,
    kill_one_after_another,
    postgres_copies,
    sqlite_copies,
)
from tests.billing.archive.past import DAY_S, PastDesk, play
from tests.billing.desk import Desk
from tests.fakes.entries import read_entries
from tests.servers.postgres import PostgresServer

T = TypeVar("T")

DETAIL_DAYS = 10


async def archive(desk: Desk, folder: Path) -> Archived:
    """Archive everything that is old enough."""
    return await archiver_of(desk, folder).run(desk.time)


def archiver_of(desk: Desk, folder: Path) -> Archiver:
    return Archiver(desk.store, folder, detail_days=DETAIL_DAYS)


def rows_of(folder: Path) -> list[ArchivedRow]:
    return [row for file in read_manifest(folder) for member in members_of(folder, file.name) for row in member.rows]


@pytest.fixture
def desk(desk: Desk) -> PastDesk:
    return PastDesk(desk.store)


async def test_archiver_writes_one_file_per_day_older_than_detail_days(desk: PastDesk, tmp_path: Path) -> None:
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


async def test_archived_row_keeps_all_fields_of_the_journal(desk: PastDesk, tmp_path: Path) -> None:
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


async def test_late_row_of_an_archived_day_is_written_to_another_file(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=2)
    began = desk.time
    desk.time += 30 * DAY_S
    await archive(desk, tmp_path)
    (ada, _bob) = await desk.accounts.list()
    later, desk.time = desk.time, began - DAY_S  # from a node whose clock is slow
    request = desk.request(ada.id, None, credits=5)
    request.request_id = desk.id_now()
    await desk.charges.close(await desk.charges.take(request), used=1)
    desk.time = later
    assert (await archive(desk, tmp_path)).files == 1
    *_earlier, last = read_manifest(tmp_path)
    assert last.rows == 1
    assert last.day in {file.day for file in _earlier}
    await desk.assert_sound()


async def test_database_deletes_only_archived_rows(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=15)
    with pytest.raises(ConstraintViolated, match="append-only"):
        await desk.store.write(lambda tx: tx.run("DELETE FROM journal"))
    await archive(desk, tmp_path)
    for sql in ("DELETE FROM journal", "UPDATE journal SET taken = 0"):
        with pytest.raises(ConstraintViolated, match="append-only"):
            await desk.store.write(lambda tx, sql=sql: tx.run(sql))


async def test_archiver_runs_in_one_process_at_a_time(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=1)
    desk.time += 30 * DAY_S
    with archiver.alone(tmp_path), pytest.raises(ArchiveTaken):
        await archive(desk, tmp_path)
    assert (await archive(desk, tmp_path)).is_done


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("harm", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x")])
async def test_rows_of_a_missing_or_changed_file_stay_in_the_journal(
    desk: PastDesk, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    """Method: the run ends after the first file was registered, and then the file is damaged."""
    await play(desk, days=1, calls=8)
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


async def test_archiver_creates_missing_indexes_and_skips_damaged_files(desk: PastDesk, tmp_path: Path) -> None:
    """Files without an index come from a version that wrote none."""
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


async def test_folder_of_another_store_is_refused(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=12)
    await archive(desk, tmp_path / "one")
    desk.time += DAY_S
    with pytest.raises(ArchiveBroken, match="does not contain this store"):
        await archive(desk, tmp_path / "other")
    (tmp_path / "one" / "manifest.jsonl").write_text("")
    await archive(desk, tmp_path / "one")
    await desk.assert_sound()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows per step, and no pauses between steps."""
    monkeypatch.setattr(archiver, "ROWS_A_MEMBER", 7)
    monkeypatch.setattr(archiver, "PAUSE_S", 0.0)
    monkeypatch.setattr(archiver, "REST_RATIO", 0.0)


@pytest.mark.sqlite
@pytest.mark.usefixtures("few")
async def test_crash_at_any_step_neither_loses_nor_duplicates_rows() -> None:
    """Method: end it at each point in turn, verify the ledger and the archive, and let another process continue."""
    async with sqlite_copies(days=2, calls=2) as (copies, now):
        assert await end_at_each_point(copies, now, every=1) > 50


@pytest.mark.usefixtures("few")
async def test_crash_at_any_step_with_months_on_postgresql_keeps_all_rows(postgres: PostgresServer) -> None:
    """Method: as above, at every thirteenth point."""
    with trio.fail_after(120):
        async with postgres_copies(postgres.fresh(), days=2, calls=4) as (copies, now):
            assert await end_at_each_point(copies, now, every=13) > 80


async def test_killed_archivers_produce_the_same_archive(store_url: str, tmp_path: Path) -> None:
    """Each process is killed by SIGKILL some points later than the previous one; then faults are added."""
    with trio.fail_after(120):
        assert await kill_one_after_another(store_url, tmp_path, [9, 27, 45], days=6, calls=4) == 3


async def test_rows_that_the_journal_lost_or_another_process_removed_stop_the_archiver(
    desk: PastDesk, tmp_path: Path
) -> None:
    """Goal: rows of the journal are removed only together with the rows of their file, and by one process."""
    await play(desk, days=3)
    desk.time += 30 * DAY_S
    one, today = archiver_of(desk, tmp_path), int(desk.time // DAY_S)
    due = await desk.store.read(partial(_next_due, end=today - DETAIL_DAYS, today=today))
    assert due is not None
    await one._copy_day(due, [])
    (copied,) = await desk.store.read(read_archives)
    await desk.store.write(lambda tx: tx.run("UPDATE archives SET summed_to = summed_to + 1"))
    with pytest.raises(ArchiveTaken, match="summing up"):
        await one._sum_up(copied, trio.current_time() + 60)
    await desk.store.write(lambda tx: tx.run("UPDATE archives SET summed_to = summed_to - 1"))
    if copied.is_standing:
        return  # a month's rows are dropped with the month
    await desk.store.write(lambda tx: tx.run("CREATE TABLE kept AS SELECT * FROM journal ORDER BY id LIMIT 1"))
    await desk.store.write(lambda tx: tx.run("DELETE FROM journal WHERE id = (SELECT id FROM kept)"))
    left = await desk.store.read(ids)
    with pytest.raises(ArchiveBroken, match="does not contain"):
        await archive(desk, tmp_path)
    assert await desk.store.read(ids) == left
    await desk.store.write(lambda tx: tx.run("INSERT INTO journal SELECT * FROM kept"))
    await desk.store.write(lambda tx: tx.run("DROP TABLE kept"))
