"""Reads the log directly from the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from tests.storm.judge import Row

ENDS = "SELECT first_pos, last_pos FROM feeds WHERE account_id = "
ROWS = "SELECT pos, type, key_id, subject_id, parent_id, created_at FROM events WHERE account_id = {} ORDER BY pos"


class Database:
    """A store's tables."""

    def __init__(self, connection: Any, mark: str) -> None:
        """`mark` is the placeholder of a parameter."""
        self._connection = connection
        self._mark = mark

    def ends(self, account_id: str) -> tuple[int, int]:
        """Return the first and the last position according to the feed."""
        first, last = self._connection.execute(ENDS + self._mark, (account_id,)).fetchone() or (1, 0)
        return first, last

    def rows(self, account_id: str) -> list[Row]:
        """Return the account's log in order."""
        return [Row(*row) for row in self._connection.execute(ROWS.format(self._mark), (account_id,))]


@contextmanager
def open_database(url: str) -> Iterator[Database]:
    """Open the store's database."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            yield Database(connection, "?")
    else:
        with psycopg.connect(url) as connection:
            yield Database(connection, "%s")
