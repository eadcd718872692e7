"""Named sets of migrations on a real file."""

import sqlite3
import sys
from pathlib import Path

import pytest
import trio

from storage.errors import StoreTooNew
from storage.migrations import MigrationSet, Schema
from storage.opening import open_store
from tests.storage.tables import NOTES, add_note, all_texts, m0001_notes, url


def m0002_colours(schema: Schema) -> None:
    schema.execute("ALTER TABLE notes ADD COLUMN colour TEXT")


def m0002_breaks(schema: Schema) -> None:
    schema.execute("CREATE TABLE half (id {serial})")
    schema.execute("CREATE NONSENSE")


def m0002_kept(schema: Schema) -> None:
    schema.append_only("notes")


async def test_a_later_program_upgrades_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [NOTES]) as store:
        await store.write(add_note("old"))
    newer = MigrationSet("notes", (m0001_notes, m0002_colours))
    for _ in range(2):  # the second time there is nothing to do
        async with open_store(url(tmp_path), [newer]) as store:
            rows = await store.read(lambda tx: tx.all("SELECT text, colour FROM notes"))
            assert rows == [("old", None)]


async def test_a_database_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [MigrationSet("notes", (m0001_notes, m0002_colours))]):
        pass
    with pytest.raises(StoreTooNew, match="notes/m0002_colours"):
        async with open_store(url(tmp_path), [NOTES]):
            pass
    with pytest.raises(StoreTooNew, match="notes/m0001_notes"):
        async with open_store(url(tmp_path), []):
            pass


async def test_a_migration_that_breaks_leaves_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="NONSENSE"):
        async with open_store(url(tmp_path), [MigrationSet("notes", (m0001_notes, m0002_breaks))]):
            pass
    async with open_store(url(tmp_path), [NOTES]) as store:
        tables = await store.read(lambda tx: tx.all("SELECT name FROM sqlite_master WHERE name = 'half'"))
        assert tables == []
        assert await all_texts(store) == []


async def test_an_append_only_table_refuses_changes(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [MigrationSet("notes", (m0001_notes, m0002_kept))]) as store:
        await store.write(add_note("kept"))
        for sql in (
            "DELETE FROM notes",
            "UPDATE notes SET text = 'x'",
            "REPLACE INTO notes (id, text) VALUES (1, 'x')",
        ):
            with pytest.raises(Exception, match="append-only"):
                await store.write(lambda tx, sql=sql: tx.run(sql))  # type: ignore[misc]
        assert await all_texts(store) == ["kept"]


async def test_the_sqlite_utils_command_shows_what_was_applied(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [NOTES]):
        pass
    command = [sys.executable, "-m", "sqlite_utils", "rows", str(tmp_path / "store.db"), "_sqlite_migrations"]
    shown = await trio.run_process(command, capture_stdout=True)
    assert b'"migration_set": "notes", "name": "m0001_notes"' in shown.stdout
