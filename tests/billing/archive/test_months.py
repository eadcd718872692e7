"""Months of the journal are created ahead on PostgreSQL and dropped as a whole; other rows are deleted one by one."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from billing.archive import months
from billing.archive.archiver import Archiver
from billing.archive.days import DAY_S, day_of, following_month, month_of
from billing.archive.files import read_manifest
from billing.archive.months import begin_to_copy, find_late, leave, make_months, read_months
from billing.ledger.verification import verify
from billing.migrations import MIGRATIONS
from billing.open_charges import m0012_small_charges
from billing.packs.schema import m0013_packs, m0014_payment_faults
from storage.errors import ConstraintViolated, StoreContended
from storage.migrations import MigrationSet
from storage.nodes import MIGRATIONS as NODES
from storage.opening import open_store
from storage.postgres.link import open_link
from storage.postgres.schema import migrate
from storage.store import Store, Tx, Value
from tests.billing.archive.crashing import faults, ids
from tests.billing.archive.past import PastDesk, last_days_of_a_month, play
from tests.billing.archive.test_archiver import rows_of
from tests.servers.postgres import PostgresServer

PARTITIONS = """
SELECT c.relname::text FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
WHERE inhparent = 'journal'::regclass ORDER BY c.relname
"""
# Current charges need their own table, and current accounts their marks.
LATER = (m0012_small_charges, m0013_packs, m0014_payment_faults)
BEFORE_MONTHS = MigrationSet(MIGRATIONS.name, (*MIGRATIONS.migrations[:9], *LATER))


def partitions(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all(PARTITIONS)]


def rows_by_partition(tx: Tx) -> dict[str, int]:
    return dict(tx.all("SELECT tableoid::regclass::text, COUNT(*) FROM journal GROUP BY 1"))


def name_of(first: int) -> str:
    return months.Month(first, first + 1, None, is_detached=False).part.name


@pytest.fixture
async def desk(postgres: PostgresServer) -> AsyncIterator[PastDesk]:
    """Billing whose clock is three days before the end of a month with a partition."""
    with trio.fail_after(60):
        async with open_store(postgres.fresh(), [MIGRATIONS]) as store:
            desk = PastDesk(store)
            desk.time = last_days_of_a_month(3)
            yield desk
            await desk.assert_sound()


async def test_months_are_created_in_advance_and_receive_their_rows(desk: PastDesk) -> None:
    first = month_of(desk.time)
    await play(desk, days=5)
    second = following_month(first)
    assert await desk.store.read(rows_by_partition) == {name_of(first): 3 * 11 + 2, name_of(second): 2 * 11}
    assert await make_months(desk.store, desk.time) == []
    third, fourth = following_month(second), following_month(following_month(second))
    made = await desk.store.read(partitions)
    assert {name_of(one) for one in (first, second, third, fourth)} <= set(made)
    assert await make_months(desk.store, desk.time) == []
    assert await desk.store.read(partitions) == made


async def test_old_month_is_dropped_as_a_whole(desk: PastDesk, tmp_path: Path) -> None:
    """Its days are in verified files before that, while their rows are still in the journal."""
    await play(desk, days=6)
    first = month_of(desk.time - 6 * DAY_S)
    before, began = await desk.store.read(ids), following_month(first)
    archiver = Archiver(desk.store, tmp_path, detail_days=10)
    assert (await archiver.run((began + 8) * DAY_S)).is_done, "the last days of the month are not old enough"
    assert len(read_manifest(tmp_path)) == 1
    assert await desk.store.read(ids) == before
    assert await desk.store.read(verify) == []
    archived = await archiver.run((began + 10) * DAY_S)
    assert (archived.files, archived.is_done) == (2, True)
    kept = [id_ for id_ in before if day_of(bytes.fromhex(id_)) >= began]
    assert await desk.store.read(ids) == kept
    assert sorted([row.id for row in rows_of(tmp_path)] + kept) == before
    assert name_of(first) not in await desk.store.read(partitions)
    assert await desk.store.read(lambda tx: tx.one("SELECT to_regclass(?)", (name_of(first),))) == (None,)
    await prove(desk.store, tmp_path)


async def test_days_of_a_month_are_archived_after_its_end(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=1)
    archiver = Archiver(desk.store, tmp_path, detail_days=1)
    assert (await archiver.run(desk.time + DAY_S)) == (0, 0, True)
    assert (await archiver.run(desk.time + 4 * DAY_S)).files == 1


async def test_late_rows_of_a_month_are_written_to_other_files(desk: PastDesk, tmp_path: Path) -> None:
    """The rows arrive while the days are archived, when all are archived, and when the month was dropped."""
    began = desk.time
    await play(desk, days=2)
    later = began + 30 * DAY_S
    archiver = Archiver(desk.store, tmp_path, detail_days=1)
    (ada, _bob) = await desk.accounts.list()

    async def add_late_rows() -> None:
        desk.time = began
        request = desk.request(ada.id, None, credits=5)
        request.request_id = desk.id_now()
        await desk.charges.close(await desk.charges.take(request), used=3)

    (month,) = [one for one in await desk.store.read(read_months) if one.first == month_of(began)]
    assert desk.store.partitions is not None
    await desk.store.partitions.change(partial(begin_to_copy, month))
    await add_late_rows()
    assert (await desk.store.read(partial(find_late, month=month))) is not None
    assert not await leave(desk.store.partitions, month), "the month has a row that is in no file"
    before = await desk.store.read(ids)
    assert (await archiver.run(later)).files == 3
    assert await desk.store.read(ids) == []
    assert sorted(row.id for row in rows_of(tmp_path)) == before
    await add_late_rows()
    assert (await archiver.run(later)).files == 1
    assert len(rows_of(tmp_path)) == len(before) + 1
    await prove(desk.store, tmp_path)


async def test_empty_month_is_dropped(desk: PastDesk, tmp_path: Path) -> None:
    first = month_of(desk.time)
    assert (await Archiver(desk.store, tmp_path, detail_days=1).run(desk.time + 10 * DAY_S)) == (0, 0, True)
    assert name_of(first) not in await desk.store.read(partitions)


async def test_reader_delays_dropping_a_month(desk: PastDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile charges do not wait for the month to be dropped."""
    monkeypatch.setattr("storage.postgres.partitions.TRIES", 3)
    await play(desk, days=1)
    archiver = Archiver(desk.store, tmp_path, detail_days=1)
    async with reading_the_journal(desk.store, rows=11 + 2) as done:
        with pytest.raises(StoreContended):
            await archiver.run(desk.time + 30 * DAY_S)
        charge = await desk.charges.take(desk.request((await desk.accounts.list())[0].id))
        await desk.charges.close(charge, used=1)
        done.set()
    assert (await archiver.run(desk.time + 30 * DAY_S)).is_done
    await prove(desk.store, tmp_path)


async def test_month_is_created_when_the_journal_is_no_longer_in_use(desk: PastDesk) -> None:
    """The journal may be busy, for example because of the database's own maintenance."""
    async with reading_the_journal(desk.store, rows=0) as done, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def stop_soon() -> None:
            await trio.sleep(0.3)
            done.set()

        assert await make_months(desk.store, desk.time + 60 * DAY_S) == []
        assert done.is_set()
    assert name_of(month_of(desk.time + 60 * DAY_S)) in await desk.store.read(partitions)


@asynccontextmanager
async def reading_the_journal(store: Store, *, rows: int) -> AsyncIterator[trio.Event]:
    """A foreign transaction that has read some rows of the journal, and ends when the event is set."""
    reading, done = trio.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def read(tx: Tx) -> None:
        assert len(ids(tx)) == rows
        token.run_sync_soon(reading.set)
        trio.from_thread.run(done.wait)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.read, read)
        await reading.wait()
        yield done


async def test_earlier_rows_are_moved_into_their_new_month(desk: PastDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are too many of them, they stay, and the month gets no partition."""
    desk.time += 100 * DAY_S
    await play(desk, days=1)
    assert set(await desk.store.read(rows_by_partition)) == {"journal_others"}
    monkeypatch.setattr("storage.postgres.partitions.MOVED_MAX", 5)
    name = name_of(month_of(desk.time - DAY_S))
    assert await make_months(desk.store, desk.time - DAY_S) == [name]
    await desk.assert_sound()
    monkeypatch.setattr("storage.postgres.partitions.MOVED_MAX", 500)
    assert await make_months(desk.store, desk.time - DAY_S) == []
    assert set(await desk.store.read(rows_by_partition)) == {name}
    for table in ("journal", name, "journal_others", "journal_before"):
        with pytest.raises(ConstraintViolated, match="append-only"):
            await desk.store.write(lambda tx, table=table: tx.run(f"UPDATE {table} SET taken = 0"))
    with pytest.raises(ConstraintViolated, match="append-only"):
        await desk.store.write(lambda tx: tx.run(f"DELETE FROM {name}"))


async def filled_before(url: str) -> list[str]:
    """Fill a store of the previous version with current rows and rows from a clock far ahead. Return all ids."""
    async with open_store(url, [BEFORE_MONTHS]) as store:
        desk = PastDesk(store)
        await play(desk, days=2)
        desk.time = last_days_of_a_month(1) + 300 * DAY_S
        (ada, _bob) = await desk.accounts.list()
        for _ in range(2):
            request = desk.request(ada.id, None, credits=5)
            request.request_id = desk.id_now()
            await desk.charges.close(await desk.charges.take(request), used=1)
        return await store.read(ids)


async def test_rows_of_an_older_version_stay_in_place(postgres: PostgresServer, tmp_path: Path) -> None:
    with trio.fail_after(60):
        url = postgres.fresh()
        before = await filled_before(url)
        async with open_store(url, [MIGRATIONS]) as store:
            assert await store.read(ids) == before
            assert await store.read(rows_by_partition) == {"journal_before": 2 * 11 + 2, "journal_others": 2}
            assert await store.read(verify) == []
            desk = PastDesk(store)
            desk.time = last_days_of_a_month(1)
            archived = await Archiver(store, tmp_path, detail_days=10).run(desk.time)
            assert (archived.rows, archived.is_done) == (24, True)
            await prove(store, tmp_path)


class Ended(Exception):
    """Raised to end the migrating process."""


async def test_interrupted_migration_continues_at_the_next_start(postgres: PostgresServer) -> None:
    """Method: end it at every seventh statement in turn, each time with a store of the previous version."""
    with trio.fail_after(120):
        for point in itertools.count(7, 7):
            url = postgres.fresh()
            before = await filled_before(url)
            ended = migrate_until(url, point)
            async with open_store(url, [MIGRATIONS]) as store:
                assert await store.read(ids) == before
                assert await store.read(verify) == []
            if not ended:
                break
    assert point > 40


def migrate_until(url: str, point: int) -> bool:
    """Migrate on a connection that ends before its nth statement. Return whether the migration got that far."""
    link = open_link(url, name="ending")
    left, queue = point, link.queue

    def queue_or_end(sql: str, params: Sequence[Value] = ()) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Ended
        queue(sql, params)

    link.queue = queue_or_end  # type: ignore[method-assign]
    try:
        migrate(link, [MIGRATIONS, NODES])
    except Ended:
        return True
    finally:
        link.close()
    return False


async def prove(store: Store, folder: Path) -> None:
    """Verify the ledger, the archive and the sums in the store."""
    assert await faults(store, folder) == []
