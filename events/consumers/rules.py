"""The rules of named consumers: pure functions from a row and the log's head to the row that follows (spec 3, 4.4)."""

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
"""How far `seen_at` may lie behind, so that reading the same page again writes nothing."""
COUNTED_LAG: Final = 1000
"""How many positions may be counted again by each read before one writes down what it has counted."""

Start = Literal["oldest", "now"]
Status = Literal["active", "idle", "lapsed"]


def opened(
    account_id: str, key_id: str, name: str, filters: Filters, *, start: Start, head: LogHead, now: float
) -> Consumer:
    """A new consumer, before anything was served."""
    place = head.start if start == "oldest" else head.end
    return Consumer(
        key_id, name, account_id, filters, place, place, place.pos, place.pos, 0, created_at=now, seen_at=now
    )


def is_lapsed(consumer: Consumer, head: LogHead, now: float) -> bool:
    """Whether the next read has to say so, or has: it was idle for too long, or something unread was removed.

    `seen_at` may be too old by `SEEN_S`, so that much is added: nobody lapses early.
    """
    idle_s = now - consumer.seen_at
    return consumer.lapse_told or idle_s > LAPSE_S + SEEN_S or consumer.committed.pos < head.first_pos - 1


def status_of(consumer: Consumer, head: LogHead, now: float) -> Status:
    """Its status, as its owner sees it."""
    if is_lapsed(consumer, head, now):
        return "lapsed"
    return "idle" if now - consumer.seen_at > IDLE_S + SEEN_S else "active"


def dropped_since(consumer: Consumer, head: LogHead) -> int:
    """How many events after its place were removed, of whatever type."""
    return max(0, head.first_pos - 1 - consumer.committed.pos)


def served(consumer: Consumer, page: EventPage, *, begin_pos: int, unread: int, now: float) -> Consumer:
    """After a page that begins behind `begin_pos`; the same row when there is nothing worth a write.

    A stream's page says nothing of what comes before it, which may have been sent and not acknowledged.
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
    """Whether acknowledging `position` moves the consumer.

    Raises:
        AckBeyondServed: it was never served that far.
    """
    if position.pos > consumer.served.pos:
        raise AckBeyondServed(consumer.name, consumer.served)
    return position.pos > consumer.committed.pos


def acked(consumer: Consumer, position: Position, *, last_pos: int, unread: int, now: float) -> Consumer:
    """After an acknowledgement that advances; `unread` are those left after it."""
    seen_at = _seen(consumer, now)
    quiet_pos = max(position.pos, consumer.quiet_pos)
    consumer = _counted(consumer, last_pos, unread)
    return replace(consumer, committed=position, quiet_pos=quiet_pos, seen_at=seen_at)


def seen(consumer: Consumer, now: float) -> Consumer:
    """After an acknowledgement that does not advance; the same row when it was seen lately."""
    return replace(consumer, seen_at=now) if now - consumer.seen_at > SEEN_S else consumer


def reckoned(consumer: Consumer, *, last_pos: int, unread: int) -> Consumer:
    """After somebody has counted; the same row when that was little work."""
    return _counted(consumer, last_pos, unread) if last_pos - consumer.counted_pos > COUNTED_LAG else consumer


def moved(consumer: Consumer, place: Position, now: float) -> Consumer:
    """At `place`, with nothing served, as its owner asked or after a lapse."""
    at = place.pos
    consumer = replace(consumer, committed=place, served=place, quiet_pos=at, counted_pos=at, counted=0)
    return replace(consumer, seen_at=now, lapse_told=False)


def _counted(consumer: Consumer, last_pos: int, unread: int) -> Consumer:
    return replace(consumer, counted=unread, counted_pos=last_pos)


def _seen(consumer: Consumer, now: float) -> float:
    """Nodes' clocks differ, and the latest instant counts."""
    return max(now, consumer.seen_at)
