"""Statements over lists and rows have the same effects and returned types on each engine."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import ConstraintViolated
from storage.migrations import MigrationSet, Schema
from storage.opening import open_store
from storage.store import Store, Tx, Value

COLUMNS = "id, whole, real, words, blob"


def m0001_values(schema: Schema) -> None:
    schema.execute(
        "CREATE TABLE kinds (id TEXT PRIMARY KEY, whole BIGINT CHECK (whole <> 13), real DOUBLE PRECISION, "
        "words TEXT, blob BYTEA)"
    )


KINDS = MigrationSet("kinds", (m0001_values,))
WORDS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=12)
ROWS = st.lists(
    st.tuples(
        WORDS | st.sampled_from(['"', "\\", "{}", "null", "NULL", "", ",", "\\\\n", "\n", "\\u0000", "é\u2028😀"]),
        st.none() | st.integers(-(2**63), 2**63 - 1).filter(lambda number: number != 13),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | WORDS,
        st.none() | st.binary(max_size=8),
    ),
    max_size=12,
    unique_by=lambda row: row[0],
)


def write_and_read(tx: Tx, rows: Sequence[Sequence[Value]]) -> list[tuple[object, ...]]:
    tx.run("DELETE FROM kinds")
    tx.run_many(f"INSERT INTO kinds ({COLUMNS}) VALUES {{rows}}", rows)
    ids = [row[0] for row in rows]
    found = tx.all_in(f"SELECT {COLUMNS} FROM kinds WHERE id IN {{in}} {{lock}}", ids)
    for row in rows:
        assert tx.one(f"SELECT {COLUMNS} FROM kinds WHERE id = ?", (row[0],)) == row
        assert tx.run("UPDATE kinds SET whole = ?, real = ?, words = ?, blob = ? WHERE id = ?", (*row[1:], row[0])) == 1
    return found


async def test_values_survive_a_round_trip(store_url: str) -> None:
    async with open_store(store_url, [KINDS]) as store:
        examples: list[list[tuple[Value, ...]]] = []

        @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(ROWS)
        def collect(rows: list[tuple[Value, ...]]) -> None:
            examples.append(rows)

        collect()
        for rows in examples:
            found = await store.write(partial(write_and_read, rows=rows))
            assert sorted(found, key=repr) == sorted(rows, key=repr)
            assert sorted(await store.read(lambda tx: tx.all(f"SELECT {COLUMNS} FROM kinds")), key=repr) == sorted(
                rows, key=repr
            )


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 400])
async def test_lists_of_any_length_are_written_found_and_changed(store_url: str, count: int) -> None:
    def run(tx: Tx) -> None:
        rows = [(f"id {number:03d}", number + 100, None, None, None) for number in range(count)]
        tx.run_many(f"INSERT INTO kinds ({COLUMNS}) VALUES {{rows}}", rows)
        assert tx.all(f"SELECT {COLUMNS} FROM kinds ORDER BY id") == rows
        assert len(tx.all_in("SELECT id FROM kinds WHERE id IN {in}", [row[0] for row in rows])) == count
        assert tx.all_in("SELECT id FROM kinds WHERE whole IN {in}", [-1, -2]) == []
        tx.run_many(
            "WITH changed (id, whole) AS (VALUES {rows}) "
            "UPDATE kinds SET whole = changed.whole FROM changed WHERE kinds.id = changed.id",
            [(row[0], row[1] + 1) for row in rows],
        )
        assert tx.all("SELECT COALESCE(SUM(whole), 0), COUNT(*) FROM kinds") == [
            (sum(row[1] + 1 for row in rows), count)
        ]

    async with open_store(store_url, [KINDS]) as store:
        await store.write(run)


@pytest.mark.parametrize("count", [0, 1, 5, 64, 69, 130])
async def test_written_rows_are_counted_for_lists_of_bytes_of_any_length(store_url: str, count: int) -> None:
    """Copy the rows with `{rows}`. Some of these rows do not exist. The bytes come before the list in the query."""
    insert = """
    INSERT INTO kinds (id, whole, blob)
    WITH asked (blob, word) AS (VALUES {rows})
    SELECT kinds.id || asked.word, kinds.whole + ?, NULL FROM asked CROSS JOIN kinds WHERE kinds.blob = asked.blob
    """

    def run(tx: Tx) -> None:
        rows = [(b"%d" % number, f"id {number}", number + 100) for number in range(count)]
        tx.run_many("INSERT INTO kinds (blob, id, whole) VALUES {rows}", rows)
        asked = [*((row[0], "'") for row in rows), (b"none", "'")]
        assert tx.count_many(insert, asked, (7,)) == count
        blobs = [blob for blob, _word in asked]
        assert tx.all("SELECT COUNT(*), COALESCE(SUM(whole), 0) FROM kinds WHERE blob IS NULL") == [
            (count, sum(row[2] + 7 for row in rows))
        ]
        assert len(tx.all_in("SELECT id FROM kinds WHERE blob IN {in}", blobs)) == count
        assert tx.run_in("DELETE FROM kinds WHERE whole > ? AND blob IN {in}", blobs, (0,)) == count
        assert tx.count_many(insert, asked, (7,)) == 0

    async with open_store(store_url, [KINDS]) as store:
        await store.write(run)


async def test_sum_of_integers_is_an_integer_and_average_is_not(store_url: str) -> None:
    async with open_store(store_url, [KINDS]) as store:
        await store.write(lambda tx: tx.run_many("INSERT INTO kinds (id, whole) VALUES {rows}", [("a", 1), ("b", 2)]))
        row = await store.read(lambda tx: tx.one("SELECT SUM(whole), AVG(whole), COUNT(*), MAX(real) FROM kinds"))
        assert row == (3, 1.5, 2, None)
        assert [type(value) for value in row] == [int, float, int, type(None)]


@pytest.mark.parametrize("rows", [[("a", 13)], [("a", 1), ("a", 2)]])
async def test_constraint_violations_raise_the_stores_error(store_url: str, rows: list[tuple[Value, ...]]) -> None:
    def insert(tx: Tx) -> None:
        tx.run_many("INSERT INTO kinds (id, whole) VALUES {rows}", rows)

    def handle(tx: Tx, requests: Sequence[int]) -> list[int]:
        insert(tx)
        return list(requests)

    async with open_store(store_url, [KINDS]) as store:
        for call in (partial(store.write, insert), partial(store.submit, handle, 1)):
            with pytest.raises(ConstraintViolated):
                await call()
        assert await count(store) == 0


@pytest.mark.parametrize("text", ["\0", "a\0", "a\0b", "\0a"])
async def test_text_with_nul_is_kept_or_refused_but_never_truncated(store_url: str, text: str) -> None:
    """Goal: `a\0b` does not find `a`. PostgreSQL's driver ends a text at its first NUL, and SQLite one in a list."""
    async with open_store(store_url, [KINDS]) as store:
        await store.write(lambda tx: tx.run_many("INSERT INTO kinds (id) VALUES {rows}", [("a",), ("",)]))
        for call in (
            lambda: store.write(lambda tx: tx.run("INSERT INTO kinds (id) VALUES (?)", (text,))),
            lambda: store.write(lambda tx: tx.run_many("INSERT INTO kinds (id) VALUES {rows}", [(text,)])),
        ):
            with suppress(ConstraintViolated):
                await call()
        for read in (
            lambda tx: tx.all("SELECT id FROM kinds WHERE id = ?", (text,)),
            lambda tx: tx.all_in("SELECT id FROM kinds WHERE id IN {in}", [text]),
        ):
            with suppress(ConstraintViolated):
                assert await store.read(read) in ([], [(text,)])
        assert {id_ for (id_,) in await store.read(lambda tx: tx.all("SELECT id FROM kinds"))} <= {"a", "", text}


async def test_databases_clock_is_unix_time_and_does_not_go_back(store_url: str) -> None:
    async with open_store(store_url, [KINDS]) as store:
        first, second = [(await store.write(lambda tx: tx.all("SELECT {now}")))[0][0] for _ in range(2)]
        assert 1.7e9 < first <= second < first + 60


async def count(store: Store) -> int:
    (row,) = await store.read(lambda tx: tx.all("SELECT COUNT(*) FROM kinds"))
    found: int = row[0]
    return found
