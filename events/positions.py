"""Positions in an account's log."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """A position in the log: right after the event `pos`, which was created at `at`.

    0 and 0.0 mean before the first event.
    """

    pos: int
    at: float


class LogHead(NamedTuple):
    """Where a log begins and ends. If `first_pos` is beyond `last_pos`, no events are kept."""

    first_pos: int
    first_at: float
    last_pos: int
    last_at: float

    @property
    def start(self) -> Position:
        """The position before the oldest kept event.

        Its time is that event's time, because the position expires when that event is removed.
        """
        return Position(self.first_pos - 1, self.first_at)

    @property
    def end(self) -> Position:
        """The position after the newest event."""
        return Position(self.last_pos, self.last_at)


EMPTY = LogHead(1, 0.0, 0, 0.0)
