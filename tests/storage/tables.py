"""A table of notes, and writes to it for tests."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from storage.migrations import MigrationSet, Schema
from storage.store import Store, Tx


def m0001_notes(schema: Schema) -> None:
    schema.execute("CREATE TABLE notes (id {serial}, text TEXT NOT NULL UNIQUE)")
    schema.execute("CREATE TABLE replies (note_id BIGINT NOT NULL REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED)")


NOTES = MigrationSet("notes", (m0001_notes,))


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'store.db'}"


def add(tx: Tx, text: str) -> int:
    return tx.run("INSERT INTO notes (text) VALUES (?)", (text,))


def add_note(text: str) -> "partial[int]":
    return partial(add, text=text)


def add_notes(tx: Tx, texts: Sequence[str]) -> list[str | Exception]:
    """A batch handler that refuses requests beginning with `bad`, and raises an error on `bug`."""
    if "bug" in texts:
        tx.run("INSERT INTO notes (text) VALUES ('half done')")
        raise ZeroDivisionError
    tx.run_many("INSERT INTO notes (text) VALUES {rows}", [(text,) for text in texts if not text.startswith("bad")])
    return [ValueError(text) if text.startswith("bad") else text.upper() for text in texts]


def texts(tx: Tx) -> list[str]:
    return [text for (text,) in tx.all("SELECT text FROM notes ORDER BY id")]


async def all_texts(store: Store) -> list[str]:
    return await store.read(texts)
