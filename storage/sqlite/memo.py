"""Keeps a value from one transaction for the next. The value is valid until anything else is written to the file."""

import sqlite3
from typing import TypeVar

_T = TypeVar("_T")


class Memo:
    """The memo of the writing connection. Used only on its thread."""

    __slots__ = ("_at", "_connection", "_cursor", "_others", "_value")

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor
        self._connection = cursor.connection
        self._value: object = None
        self._at = (0, 0)
        self._others: int | None = None

    def begin(self) -> None:
        """Record that a transaction begins. Until it ends, no other connection can commit."""
        self._others = None

    def forget(self) -> None:
        """Drop the value, because a transaction or part of it was rolled back."""
        self._value = None

    def remember(self, what: object) -> None:
        """Keep `what`, which is valid for the current rows."""
        self._at = self._written()
        self._value = what

    def recall(self, kind: type[_T]) -> _T:
        """Return the kept value if it is a `kind` and nothing was written since; otherwise return a new one."""
        if type(self._value) is kind and self._at == self._written():
            return self._value
        return kind()

    def _written(self) -> tuple[int, int]:
        """Return how many rows this connection has changed, and a number that other connections' commits change."""
        if self._others is None:
            ((self._others,),) = self._cursor.execute("PRAGMA data_version").fetchall()
        return self._connection.total_changes, self._others
