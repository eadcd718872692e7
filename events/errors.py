"""Refusals of the events feed, with the places in the log that a client needs to go on."""

from __future__ import annotations

from events.filters import Filters
from events.positions import LogHead, Position


class EventsError(Exception):
    """The base of all refusals of the events feed."""


class UnknownType(EventsError):
    """A filter names a type that there is not; `nearest` is one that there is."""

    def __init__(self, name: str, nearest: str | None) -> None:
        super().__init__(f"there is no event type {name!r}" + (f"; did you mean {nearest!r}?" if nearest else ""))
        self.name = name
        self.nearest = nearest


class CursorExpired(EventsError):
    """Something after the position was removed; the log as it stands begins at `head.start`."""

    def __init__(self, head: LogHead) -> None:
        super().__init__(f"the log begins at position {head.first_pos}")
        self.head = head


class CursorAhead(EventsError):
    """The position lies beyond the end of the log."""

    def __init__(self, head: LogHead) -> None:
        super().__init__(f"the log ends at position {head.last_pos}")
        self.head = head


class UnknownConsumer(EventsError):
    """The key has no consumer of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no consumer {name!r}; its first read creates it")
        self.name = name


class TooManyConsumers(EventsError):
    """The key has as many consumers as it may have."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"a key may have {limit} consumers; delete one first")
        self.limit = limit


class FiltersConflict(EventsError):
    """The consumer's first read has bound other filters than those that are asked for now."""

    def __init__(self, name: str, bound: Filters, requested: Filters) -> None:
        super().__init__(f"the consumer {name!r} is bound to other filters; leave them out, or use another name")
        self.name = name
        self.bound = bound
        self.requested = requested


class AckBeyondServed(EventsError):
    """The position lies beyond the last page that this consumer was served."""

    def __init__(self, name: str, served: Position) -> None:
        super().__init__(f"the consumer {name!r} was served no further than position {served.pos}")
        self.name = name
        self.served = served


class Lapsed(EventsError):
    """The consumer was idle for too long, or what it has not acknowledged was removed; its next read restarts it."""

    def __init__(self, name: str, committed: Position, head: LogHead) -> None:
        super().__init__(f"the consumer {name!r} has lapsed at position {committed.pos}")
        self.name = name
        self.committed = committed
        self.head = head
