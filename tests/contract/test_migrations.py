"""Named sets of migrations on each real engine."""

import pytest
import trio

from storage.errors import ConstraintViolated, StoreTooNew
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


async def test_newer_program_upgrades_an_older_database(store_url: str) -> None:
    async with open_store(store_url, [NOTES]) as store:
        await store.write(add_note("old"))
    newer = MigrationSet("notes", (m0001_notes, m0002_colours))
    for _ in range(2):  # all migrations are already applied the second time
        async with open_store(store_url, [newer]) as store:
            rows = await store.read(lambda tx: tx.all("SELECT text, colour FROM notes"))
            assert rows == [("old", None)]


async def test_database_of_a_newer_program_is_refused(store_url: str) -> None:
    async with open_store(store_url, [MigrationSet("notes", (m0001_notes, m0002_colours))]):
        pass
    with pytest.raises(StoreTooNew, match="notes/m0002_colours"):
        async with open_store(store_url, [NOTES]):
            pass
    with pytest.raises(StoreTooNew, match="notes/m0001_notes"):
        async with open_store(store_url, []):
            pass


async def test_failed_migration_leaves_nothing_and_can_be_retried(store_url: str) -> None:
    with pytest.raises(Exception, match="NONSENSE"):
        async with open_store(store_url, [MigrationSet("notes", (m0001_notes, m0002_breaks))]):
            pass
    async with open_store(store_url, [NOTES]) as store:
        assert await all_texts(store) == []
    async with open_store(store_url, [MigrationSet("notes", (m0001_notes, m0002_whole))]):
        """Check that the failed migration has left no table."""


async def test_append_only_table_refuses_changes(store_url: str) -> None:
    async with open_store(store_url, [MigrationSet("notes", (m0001_notes, m0002_kept))]) as store:
        await store.write(add_note("kept"))
        for sql in ("DELETE FROM notes", "UPDATE notes SET text = 'x'"):
            with pytest.raises(Exception, match="append-only"):
                await store.write(lambda tx, sql=sql: tx.run(sql))  # type: ignore[misc]
        assert await all_texts(store) == ["kept"]


def m0001_kinds(schema: Schema) -> None:
    schema.execute("CREATE TABLE kinds (kind BIGINT, CHECK (kind IN (1, 2, 3) AND kind > 0 OR kind = 9))")


def m0002_reworded(schema: Schema) -> None:
    schema.tx.run("INSERT INTO kinds (kind) VALUES (3)")
    schema.reword("kinds", "kind IN (1, 2, 3)", "kind BETWEEN 1 AND 3")
    schema.tx.run("INSERT INTO kinds (kind) VALUES (2)")


async def test_reworded_rule_still_applies(store_url: str) -> None:
    older = MigrationSet("kinds", (m0001_kinds,))
    newer = MigrationSet("kinds", (m0001_kinds, m0002_reworded))
    async with open_store(store_url, [older]) as store:
        await store.write(lambda tx: tx.run("INSERT INTO kinds (kind) VALUES (1)"))
    for _ in range(2):
        async with open_store(store_url, [newer]) as store:
            for kind in (0, 4, 8):
                with pytest.raises(ConstraintViolated):
                    await store.write(lambda tx, kind=kind: tx.run("INSERT INTO kinds (kind) VALUES (?)", (kind,)))  # type: ignore[misc]
            await store.write(lambda tx: tx.run("INSERT INTO kinds (kind) VALUES (9)"))
            kinds = await store.read(lambda tx: tx.all("SELECT kind FROM kinds ORDER BY kind"))
            assert kinds[:3] == [(1,), (2,), (3,)]
            if store_url.startswith("sqlite"):
                ((sql,),) = await store.read(lambda tx: tx.all("SELECT sql FROM sqlite_master WHERE name = 'kinds'"))
                assert "BETWEEN 1 AND 3" in sql
                assert await store.read(lambda tx: tx.all("PRAGMA integrity_check")) == [("ok",)]


async def test_nodes_starting_together_migrate_once(store_url: str) -> None:
    if store_url.startswith("sqlite"):
        pytest.skip("a file has only one owner")
    seen: list[list[str]] = []

    async def start() -> None:
        async with open_store(store_url, [NOTES]) as store:
            seen.append(await all_texts(store))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(start)
    assert seen == [[]] * 5
