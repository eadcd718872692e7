"""Errors of the events feed, with the log positions that a client needs to continue."""

from __future__ import annotations

from events.filters import Filters
from events.positions import LogHead, Position


class EventsError(Exception):
    """The base of all errors of the events feed."""


class UnknownType(EventsError):
    """A filter contains an unknown event type; `nearest` is a similar known one."""

    def __init__(self, name: str, nearest: str | None) -> None:
        super().__init__(f"unknown event type {name!r}" + (f"; did you mean {nearest!r}?" if nearest else ""))
        self.name = name
        self.nearest = nearest


class CursorExpired(EventsError):
    """Events after the position were removed. The log now begins at `head.start`."""

    def __init__(self, head: LogHead) -> None:
        super().__init__(f"the log begins at position {head.first_pos}")
        self.head = head


class CursorAhead(EventsError):
    """The position is beyond the end of the log."""

    def __init__(self, head: LogHead) -> None:
        super().__init__(f"the log ends at position {head.last_pos}")
        self.head = head


class UnknownConsumer(EventsError):
    """The key has no consumer with this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown consumer {name!r}; its first read creates it")
        self.name = name


class TooManyConsumers(EventsError):
    """The key already has the maximum number of consumers."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"a key may have at most {limit} consumers; delete one first")
        self.limit = limit


class FiltersConflict(EventsError):
    """The filters differ from the filters of the consumer's first read, to which the consumer is bound."""

    def __init__(self, name: str, bound: Filters, requested: Filters) -> None:
        super().__init__(f"the consumer {name!r} is bound to other filters; omit them, or use another name")
        self.name = name
        self.bound = bound
        self.requested = requested


class AckBeyondServed(EventsError):
    """The position is beyond the last page served to this consumer."""

    def __init__(self, name: str, served: Position) -> None:
        super().__init__(f"the consumer {name!r} was served only up to position {served.pos}")
        self.name = name
        self.served = served


class Lapsed(EventsError):
    """The consumer was idle for too long, or unacknowledged events were removed.

    Acknowledgements and the first read after the lapse raise this. The next read restarts the consumer.
    """

    def __init__(self, name: str, committed: Position, head: LogHead) -> None:
        super().__init__(f"the consumer {name!r} has lapsed at position {committed.pos}")
        self.name = name
        self.committed = committed
        self.head = head
