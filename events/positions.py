"""Places in an account's log."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """A place in the log: right after the event `pos`, which was made at `at`; 0 and 0.0 before the first."""

    pos: int
    at: float


class LogHead(NamedTuple):
    """Where a log begins and ends. Nothing is kept while `first_pos` lies beyond `last_pos`."""

    first_pos: int
    first_at: float
    last_pos: int
    last_at: float

    @property
    def start(self) -> Position:
        """Before the oldest kept event; its instant is that event's, which will be the first that is missed one day."""
        return Position(self.first_pos - 1, self.first_at)

    @property
    def end(self) -> Position:
        """After the newest event."""
        return Position(self.last_pos, self.last_at)


EMPTY = LogHead(1, 0.0, 0, 0.0)
