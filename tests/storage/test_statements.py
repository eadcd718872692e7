"""Statements over lists, on an in-memory database."""

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.sqlite.transaction import ROWS_MAX, SqliteTx


@pytest.fixture
def tx() -> Iterator[SqliteTx]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE numbers (id BIGINT, double BIGINT)")
    yield SqliteTx(connection.cursor())
    connection.close()


@pytest.mark.parametrize("count", [0, 1, ROWS_MAX - 1, ROWS_MAX, ROWS_MAX + 1, 3 * ROWS_MAX + 5])
def test_lists_of_any_length_are_written_and_found(tx: SqliteTx, count: int) -> None:
    numbers = [(number, 2 * number) for number in range(count)]
    tx.run_many("INSERT INTO numbers (id, double) VALUES {rows}", numbers)
    assert tx.all("SELECT id, double FROM numbers ORDER BY id") == numbers
    assert sorted(tx.all_in("SELECT id, double FROM numbers WHERE id IN {in}", list(range(count)))) == numbers
    assert tx.all_in("SELECT id FROM numbers WHERE id IN {in}", [-1]) == []


@pytest.mark.parametrize("count", [0, 1, ROWS_MAX + 1])
def test_statement_over_a_list_changes_and_counts_its_rows(tx: SqliteTx, count: int) -> None:
    tx.run_many("INSERT INTO numbers (id, double) VALUES {rows}", [(number, 0) for number in range(count + 2)])
    copy = "INSERT INTO numbers SELECT id, ? FROM {in} AS asked JOIN numbers ON id = asked.value"
    assert tx.run_in(copy, [*range(count)], (7,)) == count
    assert tx.all("SELECT COUNT(*) FROM numbers WHERE double = 7") == [(count,)]
    again = "INSERT INTO numbers SELECT id, ? FROM {in} AS asked, numbers WHERE id = asked.value AND double = 7"
    assert tx.run_in(again, [*range(count)], (8,)) == count
    assert tx.run("DELETE FROM numbers WHERE double = 8") == count
    assert tx.run_in("DELETE FROM numbers WHERE id IN {in}", [*range(count), -1] if count else []) == 2 * count
    assert [row[0] for row in tx.all("SELECT id FROM numbers ORDER BY id")] == [count, count + 1]


@pytest.mark.parametrize("numbers", [[1], [1, 3], [9]])
def test_every_form_of_query_accepts_a_list(tx: SqliteTx, numbers: list[int]) -> None:
    tx.run_many("INSERT INTO numbers (id, double) VALUES {rows}", [(1, 2), (2, 4), (3, 6)])
    found = [(number, 2 * number) for number in numbers if number < 9]
    for sql in (
        "SELECT id, double FROM numbers WHERE id IN {in} ORDER BY id {lock}",
        "SELECT id, double FROM {in} AS asked, numbers WHERE id = asked.value ORDER BY id {lock}",
        "SELECT id, double FROM {in} AS asked JOIN numbers ON id = asked.value ORDER BY id {lock}",
        "SELECT asked.value, double FROM {in} AS asked, numbers WHERE id = asked.value ORDER BY 1",
    ):
        assert tx.all_in(sql, numbers) == found
    rest = [(number,) for number in (1, 2, 3) if number not in numbers]
    assert tx.all_in("SELECT id FROM numbers WHERE id NOT IN {in}", numbers) == rest


def test_texts_in_a_list_are_unchanged(tx: SqliteTx) -> None:
    texts = ["", 'a"b', "it's", "\\", "é\n\u2028", "[1]", "1"]
    assert tx.all_in("SELECT value FROM {in} AS asked", texts) == [(text,) for text in texts]


@given(st.dictionaries(st.integers(0, 200), st.integers(0, 9)), st.dictionaries(st.integers(0, 200), st.integers(0, 9)))
def test_set_based_update_changes_exactly_its_rows(before: dict[int, int], changes: dict[int, int]) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE numbers (id BIGINT, double BIGINT)")
    tx = SqliteTx(connection.cursor())
    tx.run_many("INSERT INTO numbers (id, double) VALUES {rows}", list(before.items()))
    tx.run_many(
        "WITH changed (id, double) AS (VALUES {rows}) "
        "UPDATE numbers SET double = changed.double FROM changed WHERE numbers.id = changed.id",
        list(changes.items()),
    )
    expected = {**before, **{key: value for key, value in changes.items() if key in before}}
    assert dict(tx.all("SELECT id, double FROM numbers")) == expected
    connection.close()


def test_one_returns_the_first_row_or_none_and_run_counts(tx: SqliteTx) -> None:
    assert tx.one("SELECT id FROM numbers") is None
    assert tx.run("INSERT INTO numbers VALUES (1, 2), (2, 4)") == 2
    assert tx.one("SELECT id FROM numbers ORDER BY id") == (1,)
    assert tx.run("UPDATE numbers SET double = 0 WHERE id > ?", (1,)) == 1
