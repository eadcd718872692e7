"""The size of a store, on each engine."""

from functools import partial

import trio

from storage.migrations import MigrationSet, Schema
from storage.opening import is_shared, open_store
from storage.store import Store, StoreSize, Tx
from tests.storage.tables import NOTES, add


def m0001_by_month(schema: Schema) -> None:
    schema.execute("CREATE TABLE months (month BIGINT NOT NULL, text TEXT) PARTITION BY RANGE (month)")
    for month in (1, 2):
        schema.execute(f"CREATE TABLE months_{month} PARTITION OF months FOR VALUES FROM ({month}) TO ({month + 1})")
    schema.execute("CREATE INDEX months_in_order ON months (month)")


def add_notes(tx: Tx, count: int) -> None:
    for number in range(count):
        add(tx, f"{number} " + "x" * 500)


def of(size: StoreSize, name: str) -> tuple[int, int]:
    (table,) = [table for table in size.tables if table.name == name]
    return table.bytes, table.index_bytes


async def test_table_and_index_sizes_grow_with_their_rows(store: Store) -> None:
    before = await store.measure()
    await store.write(partial(add_notes, count=400))
    after = await store.measure()
    assert {"notes", "replies"} <= {table.name for table in after.tables}
    for grown, was in zip(of(after, "notes"), of(before, "notes"), strict=True):
        assert 400 * 500 <= grown - was <= 4 * 400 * 500
    assert of(after, "replies") == of(before, "replies")
    assert after.bytes - before.bytes >= 2 * 400 * 500
    assert next(table.name for table in after.tables) == "notes"


async def test_only_a_file_store_reports_its_disk(store_url: str) -> None:
    async with open_store(store_url, [NOTES]) as store:
        assert (await store.disk() is None) == is_shared(store_url)


async def test_partitions_are_reported_as_one_table(store_url: str) -> None:
    if not is_shared(store_url):
        return  # SQLite has no partitions
    with trio.fail_after(60):
        async with open_store(store_url, [MigrationSet("months", (m0001_by_month,))]) as store:
            await store.write(
                lambda tx: tx.run_many("INSERT INTO months VALUES {rows}", [(1 + n % 2, "x" * 900) for n in range(100)])
            )
            size = await store.measure()
            assert "months_1" not in {table.name for table in size.tables}
            assert 100 * 900 <= of(size, "months")[0] <= 4 * 100 * 900
