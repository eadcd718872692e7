"""Specifics of migrations on SQLite."""

import sys
from pathlib import Path

import pytest
import trio

from storage.migrations import MigrationSet, Schema
from storage.opening import open_store
from tests.storage.tables import NOTES, add_note, all_texts, m0001_notes, url


def m0002_kept(schema: Schema) -> None:
    schema.append_only("notes")


async def test_append_only_table_refuses_replacements(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [MigrationSet("notes", (m0001_notes, m0002_kept))]) as store:
        await store.write(add_note("kept"))
        with pytest.raises(Exception, match="append-only"):
            await store.write(lambda tx: tx.run("REPLACE INTO notes (id, text) VALUES (1, 'x')"))
        assert await all_texts(store) == ["kept"]


async def test_sqlite_utils_command_shows_applied_migrations(tmp_path: Path) -> None:
    async with open_store(url(tmp_path), [NOTES]):
        pass
    command = [sys.executable, "-m", "sqlite_utils", "rows", str(tmp_path / "store.db"), "_sqlite_migrations"]
    shown = await trio.run_process(command, capture_stdout=True)
    assert b'"migration_set": "notes", "name": "m0001_notes"' in shown.stdout
