"""The steps of a named consumer, computed in a reader's transaction.

A step consists of the outcome of a call and the change to the row. The outcome is valid only if that change succeeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from events.consumers import rules
from events.consumers.rows import Consumer, read_consumer
from events.consumers.rules import Start, Status
from events.errors import FiltersConflict, Lapsed, UnknownConsumer
from events.filters import ALL, Filters
from events.log.pages import (
    SCAN_MAX,
    CountQuery,
    EventPage,
    PageQuery,
    check_kept,
    count,
    count_many,
    read_head,
    read_page,
)
from events.positions import LogHead, Position
from storage.store import Tx

Outcome = TypeVar("Outcome", covariant=True)  # noqa: PLC0105 - the name already describes the type

Omitted = frozenset[Literal["types", "subjects"]]
"""The filters that a read omitted. The consumer's bound filters apply instead."""


@dataclass(frozen=True, slots=True)
class Want:
    """The parameters of a consumer's read.

    `start` applies only to the first read; None means that the consumer must exist. The bound filters replace `omitted`
    ones. A stream has sent everything up to `streamed_to`, and continues after it.
    """

    account_id: str
    key_id: str
    name: str
    start: Start | None
    filters: Filters | None
    limit: int
    streamed_to: Position | None = None
    omitted: Omitted = frozenset()
    scan_max: int = SCAN_MAX

    def complete_filters(self, bound: Filters) -> Filters:
        """Return the requested filters. Filters that were omitted come from the consumer's `bound` filters."""
        if self.filters is None:
            return bound
        return Filters(
            bound.types if "types" in self.omitted else self.filters.types,
            bound.subjects if "subjects" in self.omitted else self.filters.subjects,
        )


@dataclass(frozen=True, slots=True)
class Served:
    """A consumer's page. `unread` counts all events after `committed`, including the events of the page.

    Only the first page after a lapse has `restarted_from`, the consumer's previous position, and `dropped`, the number
    of removed events of any type after that position.
    """

    page: EventPage
    unread: int
    committed: Position
    filters: Filters
    restarted_from: Position | None = None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Acked:
    """The consumer's position after an acknowledgement. After an old acknowledgement, it is unchanged."""

    consumer: str
    committed: Position
    advanced: bool
    unread: int


@dataclass(frozen=True, slots=True)
class Overview:
    """A consumer as its owner sees it, with the current head of the log."""

    consumer: Consumer
    status: Status
    unread: int
    head: LogHead


@dataclass(frozen=True, slots=True)
class ConsumerStep(Generic[Outcome]):
    """The outcome of a call, valid only if the row is still `before` when it is replaced by `after`."""

    before: Consumer | None
    after: Consumer | None
    outcome: Outcome


def read_step(want: Want, now: float, tx: Tx) -> ConsumerStep[Served | Lapsed]:
    """Return a page after the acknowledged position, or the lapse that must be reported first.

    Raises:
        FiltersConflict: the filters differ from the bound ones.
        UnknownConsumer: the consumer was deleted after its first read.
    """
    head = read_head(tx, want.account_id)
    before = read_consumer(tx, want.key_id, want.name)
    if before is None:
        if want.start is None:
            raise UnknownConsumer(want.name)
        new = rules.opened(
            want.account_id, want.key_id, want.name, want.filters or ALL, start=want.start, head=head, now=now
        )
        return _serve(tx, want, before, new, now)
    if (requested := want.complete_filters(before.filters)) != before.filters:
        raise FiltersConflict(want.name, before.filters, requested)
    if not rules.is_lapsed(before, head, now):
        return _serve(tx, want, before, before, now)
    if not before.lapse_told:
        return ConsumerStep(before, replace(before, lapse_told=True), Lapsed(want.name, before.committed, head))
    step = _serve(tx, want, before, rules.moved(before, head.start, now), now)
    dropped = rules.dropped_since(before, head)
    return replace(step, outcome=replace(step.outcome, restarted_from=before.committed, dropped=dropped))


def ack_step(key_id: str, name: str, position: Position, now: float, tx: Tx) -> ConsumerStep[Acked]:
    """Move the consumer to `position`, unless it is already further.

    Raises UnknownConsumer, Lapsed, AckBeyondServed.
    """
    before = _known(tx, key_id, name)
    head = read_head(tx, before.account_id)
    if rules.is_lapsed(before, head, now):
        raise Lapsed(name, before.committed, head)
    if not rules.may_advance(before, position):
        acked = Acked(name, before.committed, advanced=False, unread=_unread(tx, before, head))
        return ConsumerStep(before, rules.seen(before, now), acked)
    left = _counted_after(tx, before, position)
    unread = left + _count(tx, before, max(position.pos, before.counted_pos), head.last_pos)
    after = rules.acked(before, position, last_pos=head.last_pos, unread=unread, now=now)
    return ConsumerStep(before, after, Acked(name, position, advanced=True, unread=unread))


def reset_step(key_id: str, name: str, position: Position, now: float, tx: Tx) -> ConsumerStep[Overview]:
    """Move the consumer to `position` with nothing served. Raises UnknownConsumer, CursorExpired, CursorAhead."""
    before = _known(tx, key_id, name)
    head = read_head(tx, before.account_id)
    check_kept(head, position.pos)
    after = rules.moved(before, position, now)
    return ConsumerStep(before, after, overview(tx, after, head, now))


def delete_step(key_id: str, name: str, tx: Tx) -> ConsumerStep[None]:
    """Remove the consumer. Raises UnknownConsumer."""
    return ConsumerStep(_known(tx, key_id, name), None, None)


def overview_step(key_id: str, name: str, now: float, tx: Tx) -> Overview:
    """Return the consumer's current state. Raises UnknownConsumer."""
    consumer = _known(tx, key_id, name)
    return overview(tx, consumer, read_head(tx, consumer.account_id), now)


def overview(tx: Tx, consumer: Consumer, head: LogHead, now: float) -> Overview:
    """Return `consumer` as its owner sees it."""
    return Overview(consumer, rules.status_of(consumer, head, now), _unread(tx, consumer, head), head)


def overviews(tx: Tx, consumers: Sequence[Consumer], head: LogHead, now: float) -> list[Overview]:
    """Return consumers of one key as their owner sees them."""
    waiting = [_waiting(one, head) for one in consumers]
    counts = count_many(
        tx,
        [
            CountQuery(one.account_id, one.key_id, one.filters, after, head.last_pos)
            for one, (_, after) in zip(consumers, waiting, strict=True)
        ],
    )
    return [
        Overview(one, rules.status_of(one, head, now), counted + more, head)
        for one, (counted, _), more in zip(consumers, waiting, counts, strict=True)
    ]


def _known(tx: Tx, key_id: str, name: str) -> Consumer:
    consumer = read_consumer(tx, key_id, name)
    if consumer is None:
        raise UnknownConsumer(name)
    return consumer


def _serve(tx: Tx, want: Want, before: Consumer | None, consumer: Consumer, now: float) -> ConsumerStep[Served]:
    """Return a page for `consumer`. `before` is its stored row, or None for a new consumer."""
    begin_pos = _begin_pos(consumer, want)
    page = _page(tx, consumer, want, begin_pos)
    unread = _unread(tx, consumer, page.head)
    after = rules.served(consumer, page, begin_pos=begin_pos, unread=unread, now=now)
    return ConsumerStep(before, after, Served(page, unread, consumer.committed, consumer.filters))


def _begin_pos(consumer: Consumer, want: Want) -> int:
    """Return the position before the page: the one that the stream has reached, or the consumer's `quiet_pos`.

    No unacknowledged event up to `quiet_pos` matches the filters. Because the page starts there, a client that never
    acknowledges the empty pages of a long search still reaches the events after these pages.
    """
    if want.streamed_to is not None and want.streamed_to.pos >= consumer.committed.pos:
        return want.streamed_to.pos
    return consumer.quiet_pos


def _page(tx: Tx, consumer: Consumer, want: Want, begin_pos: int) -> EventPage:
    """Return the page that was served but not acknowledged if it still has events, otherwise the next page."""
    query = PageQuery(consumer.account_id, consumer.key_id, begin_pos, want.limit, consumer.filters)
    if want.streamed_to is None and consumer.served.pos > begin_pos:
        page = read_page(tx, query._replace(upto=consumer.served.pos), scan_max=want.scan_max)
        if page.items:
            return page
    return read_page(tx, query, scan_max=want.scan_max)


def _unread(tx: Tx, consumer: Consumer, head: LogHead) -> int:
    """Return how many kept events the consumer has not acknowledged."""
    counted, after = _waiting(consumer, head)
    return counted + _count(tx, consumer, after, head.last_pos)


def _waiting(consumer: Consumer, head: LogHead) -> tuple[int, int]:
    """Return the stored count of unacknowledged kept events, and the position up to which events were counted."""
    if consumer.committed.pos < head.first_pos - 1:
        return 0, head.first_pos - 1
    return consumer.counted, consumer.counted_pos


def _counted_after(tx: Tx, consumer: Consumer, position: Position) -> int:
    """Return how many counted events come after `position`, by counting the events before it."""
    if position.pos >= consumer.counted_pos:
        return 0
    return consumer.counted - _count(tx, consumer, consumer.committed.pos, position.pos)


def _count(tx: Tx, consumer: Consumer, after: int, upto: int) -> int:
    return count(tx, consumer.account_id, consumer.key_id, consumer.filters, after=after, upto=upto)
