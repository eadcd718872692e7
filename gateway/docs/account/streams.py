"""Events and the messages of streams, for their readers: server-sent events of lists and of the feed, its WebSocket."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from gateway.docs.account.fields import Cursor, Instant, meaning

ErrorBody = Annotated[Any, Meta(extra_json_schema={"$ref": "#/components/schemas/ErrorBody"})]


class EventSubject(TypedDict):
    """The object that an event is about."""

    kind: Annotated[str, meaning("Its kind.", "key")]
    id: Annotated[str, meaning("Its id.", "key_01a1ff6d81bd7442a2cbf7b8f1d3ab3c")]
    name: NotRequired[Annotated[str, meaning("Its name.", "laptop")]]


class EventItem(TypedDict):
    """One event; its `type` decides the shape of `data`."""

    id: Annotated[str, meaning("The event; stable, one for each fact.", "evt_01a1ff6d82bd7442a2cbf7b8f1d3ab3c")]
    type: Annotated[str, meaning("Its type.", "key.revoked")]
    api_version: Annotated[str, meaning("The version of its shape, a date.", "2026-11-21")]
    created_at: Instant
    subject: EventSubject
    data: Annotated[dict[str, Any], meaning("Counts and ids only.", {"key_id": "key_...", "last4": "x7Qa"})]
    links: Annotated[dict[str, Any], meaning("Addresses to read more at.", {})]
    cursor: Cursor


class PageRead(TypedDict):
    """How far a list has been read: the `page` event."""

    pages: Annotated[int, meaning("Pages so far.", 1)]
    items: Annotated[int, meaning("Items so far.", 30)]
    limit: Annotated[int, meaning("Items that were asked for.", 100)]


class LegSettled(TypedDict):
    """A part of a composite that settled: the `leg` event."""

    leg: Annotated[Any, Meta(extra_json_schema={"$ref": "#/components/schemas/LegRecord"})]
    data: Annotated[dict[str, Any] | None, meaning("The data of its endpoint's own answer; null where none came.", {})]


class FeedRestarted(TypedDict):
    """A consumer that has lapsed reads from the oldest event again."""

    restarted_from: Cursor
    dropped: Annotated[int, meaning("Positions that retention removed since it stood there.", 0)]


class SocketEvents(TypedDict):
    """Events, oldest first; the first message of a socket, though it may hold none."""

    type: Literal["events"]
    items: list[EventItem]
    next_cursor: Cursor
    has_more: Annotated[bool, meaning("Whether more are sent at once.")]
    unread: NotRequired[Annotated[int, meaning("Events that the consumer has not acknowledged.", 0)]]
    restarted_from: NotRequired[Cursor]
    dropped: NotRequired[Annotated[int, meaning("Positions that retention removed since the reader stood.", 0)]]


class SocketAlive(TypedDict):
    """A sign of life, after 15 s without events."""

    type: Literal["alive"]
    next_cursor: Cursor


class SocketAcked(TypedDict):
    """The answer to an acknowledgement."""

    type: Literal["acked"]
    consumer: Annotated[str, meaning("The consumer's name.", "billing")]
    cursor: Cursor
    advanced: Annotated[bool, meaning("Whether it moved.")]
    unread: Annotated[int | None, meaning("Events that are left.", 0)]


class SocketError(TypedDict):
    """A refused message, or why the socket is closed; in the second case with the fields of every error."""

    type: Literal["error"]
    error: ErrorBody


class SocketEnding(TypedDict):
    """The last message before a close."""

    type: Literal["end"]
    reason: Annotated[str, meaning("Why it ends.", "closing")]
    retry_after_s: Annotated[int, meaning("Seconds to wait before the next socket.", 2)]


class SocketAck(TypedDict):
    """The client's message: an acknowledgement for a named consumer."""

    type: Literal["ack"]
    cursor: Cursor
