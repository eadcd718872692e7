"""Sizes of tables, compared with SQLite's own count of every page."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import trio

from storage.opening import open_store
from storage.sqlite.sizes import SAMPLE, TreePage, count_tree, measure, parse_page
from storage.sqlite.transaction import SqliteTx
from storage.store import StoreSize
from tests.storage.tables import NOTES, add_note, url

SCHEMA = """
CREATE TABLE long (id TEXT PRIMARY KEY, body BLOB);
CREATE INDEX long_bodies ON long (body);
CREATE TABLE short (id INTEGER PRIMARY KEY, word TEXT, n INTEGER);
CREATE INDEX short_n ON short (n, word);
CREATE TABLE keyed (a TEXT, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE empty (id TEXT PRIMARY KEY);
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "sizes.db", isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        yield connection


def fill(file: sqlite3.Connection, rows: int) -> None:
    """Add rows of many lengths in random order, and delete some of them."""
    rng = Random(1)
    file.execute("BEGIN")
    for number in range(rows):
        body = rng.randbytes(int(rng.expovariate(1 / 3000)))
        file.execute("INSERT INTO long VALUES (?, ?)", (f"{rng.getrandbits(128):x}", body))
        for _ in range(10):
            file.execute("INSERT INTO short (word, n) VALUES (?, ?)", ("x" * rng.randint(1, 90), rng.randint(1, 10**9)))
        file.execute("INSERT INTO keyed VALUES (?, ?)", (f"{rng.getrandbits(64):x}", number))
    file.execute("DELETE FROM short WHERE id < ? AND id % 7 > 0", (4 * rows,))
    file.execute("COMMIT")


def measured(file: sqlite3.Connection) -> StoreSize:
    ((_, _, path),) = file.execute("PRAGMA database_list").fetchall()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return measure(descriptor, SqliteTx(file.cursor()))
    finally:
        os.close(descriptor)


def true_bytes(file: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Return each table's bytes and its indexes', by SQLite's own count."""
    pages = dict(file.execute("SELECT name, SUM(pgsize) FROM dbstat GROUP BY name"))
    of = {"sqlite_schema": ("sqlite_schema", "table")}
    of |= {name: (table, kind) for name, table, kind in file.execute("SELECT name, tbl_name, type FROM sqlite_schema")}
    sums = {table: [0, 0] for table, _ in of.values()}
    for name, bytes_ in pages.items():
        table, kind = of[name]
        sums[table][kind == "index"] += bytes_
    return {table: (own, indexes) for table, (own, indexes) in sums.items()}


def true_rows(file: sqlite3.Connection, table: str) -> int:
    ((count,),) = file.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
    return int(count)


def test_small_file_is_counted_exactly(file: sqlite3.Connection) -> None:
    fill(file, 150)
    size = measured(file)
    assert {table.name: (table.bytes, table.index_bytes) for table in size.tables} == true_bytes(file)
    assert {table.name: table.rows for table in size.tables} == {
        table.name: true_rows(file, table.name) for table in size.tables
    }
    assert size.bytes == sum(table.bytes + table.index_bytes for table in size.tables)
    assert next(table.name for table in size.tables) == "long"


def test_deleted_rows_count_as_free_space(file: sqlite3.Connection) -> None:
    fill(file, 150)
    before = measured(file)
    file.execute("DELETE FROM long")
    after = measured(file)
    assert before.free_bytes is not None
    assert after.free_bytes is not None
    assert after.bytes + after.free_bytes == before.bytes + before.free_bytes
    assert after.bytes == sum(table.bytes + table.index_bytes for table in after.tables)
    assert after.free_bytes > before.bytes / 3


def test_large_file_is_estimated_within_a_tenth_from_few_pages(file: sqlite3.Connection) -> None:
    fill(file, 5_000)
    reads: list[int] = []
    ((_, _, path),) = file.execute("PRAGMA database_list").fetchall()
    content = Path(path).read_bytes()

    def read(number: int) -> bytes:
        reads.append(number)
        return content[(number - 1) * 4096 : number * 4096]

    truth = true_bytes(file)
    for table in measured(file).tables:
        own, indexes = truth[table.name]
        assert table.bytes == pytest.approx(own, rel=0.1)
        assert table.index_bytes == pytest.approx(indexes, rel=0.1)
        assert table.rows == pytest.approx(true_rows(file, table.name), rel=0.1)
    ((root,),) = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'short'").fetchall()
    tree = count_tree(read, root, Random(1))
    assert tree.pages > SAMPLE + 100
    assert len(reads) <= SAMPLE + 10


def test_pages_outside_a_tree_are_skipped() -> None:
    assert parse_page(b"") is None
    assert parse_page(bytes(4096)) is None
    assert parse_page(b"\x0d" + b"\xff" * 4095) is None
    assert parse_page(b"\x0d" + bytes(4095)) == TreePage()
    loop = b"\x05" + bytes(7) + (1).to_bytes(4) + bytes(4084)
    assert count_tree(lambda _number: loop, 1, Random(1)).rows == 0


async def test_size_of_an_open_store_includes_its_log(tmp_path: Path) -> None:
    with trio.fail_after(30):
        async with open_store(url(tmp_path), [NOTES]) as store:
            for number in range(40):
                await store.write(add_note(f"{number} {'x' * 2000}"))
            (notes,) = [table for table in (await store.measure()).tables if table.name == "notes"]
            assert notes.rows == 40
            assert 40 * 2000 < notes.bytes < 80 * 2000
            assert 40 * 2000 < notes.index_bytes < 100 * 2000
            disk, folder = await store.disk(), os.statvfs(tmp_path)
            assert disk is not None
            assert disk.total_bytes == folder.f_blocks * folder.f_frsize
            assert 0 < disk.free_bytes <= disk.total_bytes
