"""What the feed refuses, always with the parameter and the way on in `details` (spec 7.1, 7.3, 7.4)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
from gateway.http.errors import STORE_RETRY_AFTER_S, Refused

FROM_OLDEST = "Read again with cursor=oldest."
AHEAD = "is ahead of the account's log"
LAST_EVENT_ID = "Last-Event-ID"
_ANEW = "Open the stream anew, without Last-Event-ID and with cursor=oldest."
GIVEN = "Acknowledge the next_cursor of a page that this consumer was given."
AGAIN = "Correct the parameter and ask again; nothing was read."


def wrong(param: str, problem: str, next_step: str, *, reason: str = "invalid_param", **more: Any) -> Refused:
    """400 for a parameter. The nearest right value, if there is one, stands in `next_step`: `details` has a reason."""
    details = {"reason": reason, "param": param, "next_step": next_step, **more}
    return Refused("INVALID_REQUEST", f"{param} {problem}", details=details)


def in_feeds_form(refused: Refused) -> Refused:
    """A refusal of parameters or bodies in general, with what the feed's errors carry beside."""
    if refused.code.name != "INVALID_REQUEST":
        return refused
    details = dict(refused.details or {})
    if "did_you_mean" not in details:
        details.setdefault("reason", "invalid_param")
    undeclared = details.get("remove_params")
    details.setdefault("param", undeclared[0] if undeclared else "query")
    details.setdefault("next_step", AGAIN)
    end = "" if refused.message.endswith((".", "?")) else "."  # whoever prints it puts the next step behind
    return Refused(refused.code.name, refused.message + end, details=details)


def lay_on_last_event_id(refused: Refused) -> None:
    """The cursor that is refused came as the id of the last event that a stream's client got."""
    if refused.details is not None and refused.details.get("param") == "cursor":
        refused.details = {**refused.details, "param": LAST_EVENT_ID, "next_step": _ANEW}
        if refused.message.startswith("cursor "):
            refused.message = LAST_EVENT_ID + refused.message.removeprefix("cursor")


@contextmanager
def leading_on(next_step: str) -> Iterator[None]:
    """Whatever is refused within says that this is the way on."""
    try:
        yield
    except Refused as refused:
        refused.details = {**(refused.details or {}), "next_step": next_step}
        raise


def expired(head: LogHead, since: Position, tokens: FeedTokens, next_step: str = FROM_OLDEST) -> Refused:
    """410: some of what came behind `since` was removed, or else its consumer has lapsed; then nothing was missed."""
    is_missed = since.pos < head.start.pos
    until = head.first_at if head.last_pos >= head.first_pos else head.last_at
    if not is_missed:
        until = max(since.at, until)
    details = {
        "reason": "retention_passed",
        "param": "cursor",
        "next_step": next_step,
        "oldest_cursor": tokens.seal(head.start),
        "missed_from": iso_or_none(since.at or None),
        "missed_until": iso_or_none(until or None),
    }
    message = "Events behind this position were removed: retention has passed."
    return Refused("CURSOR_EXPIRED", message if is_missed else "This consumer was idle for too long.", details=details)


def unusable(problem: str, head: LogHead, tokens: FeedTokens) -> Refused:
    """400 for a cursor that is no place in the log."""
    return wrong(
        "cursor",
        f"{problem}.",
        FROM_OLDEST,
        retained_from=iso(head.first_at) if head.last_pos >= head.first_pos else None,
        oldest_cursor=tokens.seal(head.start),
    )


def store_away() -> Refused:
    """503 while the events cannot be read, or the polls of a key not be counted."""
    details = {
        "reason": "store_unavailable",
        "param": None,
        "next_step": "Ask again after Retry-After; no position was lost.",
    }
    return Refused(
        "SERVICE_UNAVAILABLE",
        "The events cannot be read now.",
        details=details,
        retry_after_s=STORE_RETRY_AFTER_S,
        knows_balance=False,
    )


def of_consumer(exc: EventsError, tokens: FeedTokens) -> Refused:
    """What a named consumer's read or acknowledgement is refused with."""
    match exc:
        case Lapsed():
            return expired(
                exc.head, exc.committed, tokens, "Read again: the consumer restarts at the oldest kept event."
            )
        case FiltersConflict():
            step = "Leave types and subject_id out, or read as another consumer."
            param = "types" if exc.asked.types != exc.bound.types else "subject_id"
            return wrong(
                param, "is another than the one that the consumer is bound to.", step, reason="conflicting_params"
            )
        case AckBeyondServed():
            return wrong("cursor", "is past the last page that was served to this consumer.", GIVEN)
        case CursorAhead():
            return unusable(AHEAD, exc.head, tokens)
        case UnknownConsumer():
            details = {"reason": "unknown_consumer", "param": "consumer", "next_step": "Read as this consumer first."}
            return Refused("RESOURCE_NOT_FOUND", "This key has no such consumer.", details=details)
        case TooManyConsumers():
            step = "Delete a consumer that is no longer used."
            return wrong(
                "consumer",
                f"would be one more than the {exc.limit} that a key may have.",
                step,
                reason="consumer_limit_reached",
            )
    raise exc
