"""Something that one transaction leaves to the next, for as long as nothing else is written to the file."""

import sqlite3
from typing import TypeVar

_T = TypeVar("_T")


class Memo:
    """The writing connection's; used on its thread."""

    __slots__ = ("_at", "_connection", "_cursor", "_others", "_what")

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor
        self._connection = cursor.connection
        self._what: object = None
        self._at = (0, 0)
        self._others: int | None = None

    def begin(self) -> None:
        """A transaction begins: from now on nobody else can commit."""
        self._others = None

    def forget(self) -> None:
        """A transaction, or a part of it, has not happened."""
        self._what = None

    def remember(self, what: object) -> None:
        """Remember `what`, which is true of the rows as they are now."""
        self._at = self._written()
        self._what = what

    def recall(self, kind: type[_T]) -> _T:
        """The last that was remembered, if it is of this `kind` and nothing was written since; else a new one."""
        if type(self._what) is kind and self._at == self._written():
            return self._what
        return kind()

    def _written(self) -> tuple[int, int]:
        """How many rows this connection has changed, and a number that changes with the commits of others."""
        if self._others is None:
            ((self._others,),) = self._cursor.execute("PRAGMA data_version").fetchall()
        return self._connection.total_changes, self._others
