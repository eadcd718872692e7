"""The feed's refusals, each with its parameter and next step in `details` (spec 7.1, 7.3, 7.4)."""

from __future__ import annotations

from typing import Final, NamedTuple

from events.errors import (
    AckBeyondServed,
    CursorAhead,
    EventsError,
    FiltersConflict,
    Lapsed,
    TooManyConsumers,
    UnknownConsumer,
)
from events.instants import iso, iso_or_none
from events.positions import LogHead, Position
from gateway.feed.tokens import FeedTokens
from gateway.http.errors import STORE_RETRY_AFTER_S, InvalidParam, Refused

AHEAD: Final = "is ahead of the account's log"


class CursorSource(NamedTuple):
    """The part of a request that contained a cursor, and the client's next step if that cursor is refused."""

    param: str
    suggestion: str


CURSOR: Final = CursorSource("cursor", "Read again with cursor=oldest.")
LAST_EVENT_ID: Final = CursorSource("Last-Event-ID", "Open a new stream, without Last-Event-ID and with cursor=oldest.")
ACK: Final = CursorSource("cursor", "Acknowledge the next_cursor of a page that this consumer received.")
RESET: Final = CursorSource("cursor", "Reset it to oldest, now, a next_cursor or the id of a stored event.")
_LAPSED: Final = CursorSource("cursor", "Read again. The consumer restarts at the oldest stored event.")


def expired(head: LogHead, since: Position, tokens: FeedTokens, source: CursorSource = CURSOR) -> Refused:
    """Return a 410: events after `since` were removed, or the consumer has lapsed but missed no events."""
    is_missed = since.pos < head.start.pos
    until = head.first_at if head.last_pos >= head.first_pos else head.last_at
    if not is_missed:
        until = max(since.at, until)
    details = {
        "reason": "retention_passed",
        "param": source.param,
        "next_step": source.suggestion,
        "oldest_cursor": tokens.seal(head.start),
        "missed_from": iso_or_none(since.at or None),
        "missed_until": iso_or_none(until or None),
    }
    message = "Events after this position were removed, because their retention period has ended."
    return Refused("CURSOR_EXPIRED", message if is_missed else "This consumer was idle for too long.", details=details)


def unusable(problem: str, head: LogHead, tokens: FeedTokens, source: CursorSource = CURSOR) -> Refused:
    """Return a 400 for a cursor that is not a position in the log."""
    retained_from = iso(head.first_at) if head.last_pos >= head.first_pos else None
    more = {"retained_from": retained_from, "oldest_cursor": tokens.seal(head.start)}
    return InvalidParam(source.param, problem, suggestion=source.suggestion, more=more)


def store_away() -> Refused:
    """Return a 503, because events cannot be read, or because the polls of a key cannot be counted."""
    details = {
        "reason": "store_unavailable",
        "param": None,
        "next_step": "Retry after Retry-After seconds. No position was lost.",
    }
    return Refused(
        "SERVICE_UNAVAILABLE",
        "The events cannot be read at the moment.",
        details=details,
        retry_after_s=STORE_RETRY_AFTER_S,
        knows_balance=False,
    )


def of_consumer(exc: EventsError, tokens: FeedTokens) -> Refused:
    """Return the refusal of a named consumer's read, acknowledgement or reset."""
    match exc:
        case Lapsed():
            return expired(exc.head, exc.committed, tokens, _LAPSED)
        case FiltersConflict():
            return InvalidParam(
                "types" if exc.requested.types != exc.bound.types else "subject_id",
                "differs from the filter that the consumer is bound to",
                suggestion="Remove types and subject_id, or read as another consumer.",
                reason="conflicting_params",
            )
        case AckBeyondServed():
            problem = "is past the last page that this consumer received"
            return InvalidParam(ACK.param, problem, suggestion=ACK.suggestion)
        case CursorAhead():
            return unusable(AHEAD, exc.head, tokens)
        case UnknownConsumer():
            details = {"reason": "unknown_consumer", "param": "consumer", "next_step": "Read as this consumer first."}
            return Refused("RESOURCE_NOT_FOUND", "This key has no such consumer.", details=details)
        case TooManyConsumers():
            return InvalidParam(
                "consumer",
                f"would exceed the limit of {exc.limit} consumers per key",
                suggestion="Delete a consumer that is no longer used.",
                reason="consumer_limit_reached",
            )
    raise exc
