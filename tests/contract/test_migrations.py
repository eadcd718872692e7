"""Named sets of migrations on each real engine."""

import pytest
import trio

from storage.errors import StoreTooNew
from storage.migrations import MigrationSet, Schema
from storage.opening import open_store
from tests.storage.tables import NOTES, add_note, all_texts, m0001_notes


def m0002_colours(schema: Schema) -> None:
    schema.execute("ALTER TABLE notes ADD COLUMN colour TEXT")


def m0002_breaks(schema: Schema) -> None:
    schema.execute("CREATE TABLE half (id {serial})")
    schema.execute("CREATE NONSENSE")


def m0002_whole(schema: Schema) -> None:
    schema.execute("CREATE TABLE half (id {serial})")


def m0002_kept(schema: Schema) -> None:
    schema.append_only("notes")


async def test_a_later_program_upgrades_what_an_earlier_one_wrote(store_url: str) -> None:
    async with open_store(store_url, [NOTES]) as store:
        await store.write(add_note("old"))
    newer = MigrationSet("notes", (m0001_notes, m0002_colours))
    for _ in range(2):  # the second time there is nothing to do
        async with open_store(store_url, [newer]) as store:
            rows = await store.read(lambda tx: tx.all("SELECT text, colour FROM notes"))
            assert rows == [("old", None)]


async def test_a_database_of_a_newer_program_is_refused(store_url: str) -> None:
    async with open_store(store_url, [MigrationSet("notes", (m0001_notes, m0002_colours))]):
        pass
    with pytest.raises(StoreTooNew, match="notes/m0002_colours"):
        async with open_store(store_url, [NOTES]):
            pass
    with pytest.raises(StoreTooNew, match="notes/m0001_notes"):
        async with open_store(store_url, []):
            pass


async def test_a_migration_that_breaks_leaves_nothing_and_can_be_tried_again(store_url: str) -> None:
    with pytest.raises(Exception, match="NONSENSE"):
        async with open_store(store_url, [MigrationSet("notes", (m0001_notes, m0002_breaks))]):
            pass
    async with open_store(store_url, [NOTES]) as store:
        assert await all_texts(store) == []
    async with open_store(store_url, [MigrationSet("notes", (m0001_notes, m0002_whole))]):
        """A migration that broke has left no table in the way."""


async def test_an_append_only_table_refuses_changes(store_url: str) -> None:
    async with open_store(store_url, [MigrationSet("notes", (m0001_notes, m0002_kept))]) as store:
        await store.write(add_note("kept"))
        for sql in ("DELETE FROM notes", "UPDATE notes SET text = 'x'"):
            with pytest.raises(Exception, match="append-only"):
                await store.write(lambda tx, sql=sql: tx.run(sql))  # type: ignore[misc]
        assert await all_texts(store) == ["kept"]


async def test_nodes_that_start_together_migrate_once(store_url: str) -> None:
    if store_url.startswith("sqlite"):
        pytest.skip("a file has one owner")
    seen: list[list[str]] = []

    async def start() -> None:
        async with open_store(store_url, [NOTES]) as store:
            seen.append(await all_texts(store))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(start)
    assert seen == [[]] * 5
