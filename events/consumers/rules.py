"""The rules of named consumers: pure functions that derive the next row from a row and the log (spec 3, 4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from events.consumers.rows import Consumer
from events.errors import AckBeyondServed
from events.filters import Filters
from events.log.pages import EventPage
from events.positions import LogHead, Position

HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0
IDLE_S: Final = DAY_S
LAPSE_S: Final = 30 * DAY_S
SEEN_S: Final = HOUR_S
"""How many seconds `seen_at` may be out of date, so that reading the same page again writes nothing."""
COUNTED_LAG: Final = 1000
"""How many positions each read may count again. If there are more, a read stores its count for later reads."""

Start = Literal["oldest", "now"]
Status = Literal["active", "idle", "lapsed"]


def opened(
    account_id: str, key_id: str, name: str, filters: Filters, *, start: Start, head: LogHead, now: float
) -> Consumer:
    """Return a new consumer that has not received any events."""
    place = head.start if start == "oldest" else head.end
    return Consumer(
        key_id, name, account_id, filters, place, place, place.pos, place.pos, 0, created_at=now, seen_at=now
    )


def is_lapsed(consumer: Consumer, head: LogHead, now: float) -> bool:
    """Return whether the consumer has lapsed: it was idle for too long, or unread events were removed.

    `seen_at` may be out of date by `SEEN_S`, which is added so that no consumer lapses early.
    """
    idle_s = now - consumer.seen_at
    return consumer.lapse_told or idle_s > LAPSE_S + SEEN_S or consumer.committed.pos < head.first_pos - 1


def status_of(consumer: Consumer, head: LogHead, now: float) -> Status:
    """Return the consumer's status, as its owner sees it."""
    if is_lapsed(consumer, head, now):
        return "lapsed"
    return "idle" if now - consumer.seen_at > IDLE_S + SEEN_S else "active"


def dropped_since(consumer: Consumer, head: LogHead) -> int:
    """Return how many events of any type were removed after the consumer's position."""
    return max(0, head.first_pos - 1 - consumer.committed.pos)


def served(consumer: Consumer, page: EventPage, *, begin_pos: int, unread: int, now: float) -> Consumer:
    """Return the row after serving a page that begins after `begin_pos`.

    The row is unchanged if a write is not worthwhile.

    The events before a stream's page may have been sent but not acknowledged, so `quiet_pos` does not pass over them.
    """
    grows = page.end.pos > consumer.served.pos
    last_pos = page.head.last_pos
    if not grows and now - consumer.seen_at <= SEEN_S and last_pos - consumer.counted_pos <= COUNTED_LAG:
        return consumer
    quiet_pos = consumer.quiet_pos
    if begin_pos <= quiet_pos:
        quiet_pos = page.items[0].pos - 1 if page.items else page.end.pos
    consumer = replace(_counted(consumer, last_pos, unread), quiet_pos=quiet_pos, seen_at=_seen(consumer, now))
    return replace(consumer, served=page.end) if grows else consumer


def may_advance(consumer: Consumer, position: Position) -> bool:
    """Return whether acknowledging `position` moves the consumer.

    Raises:
        AckBeyondServed: the position was never served to the consumer.
    """
    if position.pos > consumer.served.pos:
        raise AckBeyondServed(consumer.name, consumer.served)
    return position.pos > consumer.committed.pos


def acked(consumer: Consumer, position: Position, *, last_pos: int, unread: int, now: float) -> Consumer:
    """Return the row after an acknowledgement that moves the consumer. `unread` events remain after it."""
    seen_at = _seen(consumer, now)
    quiet_pos = max(position.pos, consumer.quiet_pos)
    consumer = _counted(consumer, last_pos, unread)
    return replace(consumer, committed=position, quiet_pos=quiet_pos, seen_at=seen_at)


def seen(consumer: Consumer, now: float) -> Consumer:
    """Return the row after an acknowledgement that moves nothing.

    The row is unchanged if the consumer was seen recently.
    """
    return replace(consumer, seen_at=now) if now - consumer.seen_at > SEEN_S else consumer


def with_counts(consumer: Consumer, *, last_pos: int, unread: int) -> Consumer:
    """Return the row after its events were counted. The row is unchanged if counting took little work."""
    return _counted(consumer, last_pos, unread) if last_pos - consumer.counted_pos > COUNTED_LAG else consumer


def moved(consumer: Consumer, place: Position, now: float) -> Consumer:
    """Return the row moved to `place` with nothing served, after a reset by its owner or after a lapse."""
    at = place.pos
    consumer = replace(consumer, committed=place, served=place, quiet_pos=at, counted_pos=at, counted=0)
    return replace(consumer, seen_at=now, lapse_told=False)


def _counted(consumer: Consumer, last_pos: int, unread: int) -> Consumer:
    return replace(consumer, counted=unread, counted_pos=last_pos)


def _seen(consumer: Consumer, now: float) -> float:
    """Return the later of `seen_at` and `now`, because the clocks of nodes differ."""
    return max(now, consumer.seen_at)
