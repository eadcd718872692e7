"""Reference texts for events and stream messages: server-sent events of lists and of the feed, and the WebSocket."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from gateway.docs.account.fields import Cursor, Instant, meaning

ErrorBody = Annotated[Any, Meta(extra_json_schema={"$ref": "#/components/schemas/ErrorBody"})]


class EventSubject(TypedDict):
    """The object that an event is about."""

    kind: Annotated[str, meaning("The kind of object.", "key")]
    id: Annotated[str, meaning("The object's id.", "key_01a1ff6d81bd7442a2cbf7b8f1d3ab3c")]
    name: NotRequired[Annotated[str, meaning("The object's name.", "laptop")]]


class EventItem(TypedDict):
    """One event. Its `type` determines the shape of `data`."""

    id: Annotated[str, meaning("The event's stable id, one for each fact.", "evt_01a1ff6d82bd7442a2cbf7b8f1d3ab3c")]
    type: Annotated[str, meaning("The event type.", "key.revoked")]
    api_version: Annotated[str, meaning("The version of its shape, as a date.", "2026-11-21")]
    created_at: Instant
    subject: EventSubject
    data: Annotated[dict[str, Any], meaning("Details: only counts and ids.", {"key_id": "key_...", "last4": "x7Qa"})]
    links: Annotated[dict[str, Any], meaning("URLs with more information.", {})]
    cursor: Cursor


class PageRead(TypedDict):
    """How far a list has been read: the `page` event."""

    pages: Annotated[int, meaning("Pages so far.", 1)]
    items: Annotated[int, meaning("Items so far.", 30)]
    limit: Annotated[int, meaning("Items requested.", 100)]


class LegSettled(TypedDict):
    """The `leg` event: one part of a composite has finished."""

    leg: Annotated[Any, Meta(extra_json_schema={"$ref": "#/components/schemas/LegRecord"})]
    data: Annotated[dict[str, Any] | None, meaning("The data from its endpoint; null if it returned none.", {})]


class FeedRestarted(TypedDict):
    """A lapsed consumer restarts from the oldest event."""

    restarted_from: Cursor
    dropped: Annotated[int, meaning("Events that retention removed after the consumer's position.", 0)]


class SocketEvents(TypedDict):
    """Events, oldest first. The first message on a socket always has this type, even if it contains no events."""

    type: Literal["events"]
    items: list[EventItem]
    next_cursor: Cursor
    has_more: Annotated[bool, meaning("Whether more events follow immediately.")]
    unread: NotRequired[Annotated[int, meaning("Events that the consumer has not acknowledged.", 0)]]
    restarted_from: NotRequired[Cursor]
    dropped: NotRequired[Annotated[int, meaning("Events that retention removed after the reader's position.", 0)]]


class SocketAlive(TypedDict):
    """A keep-alive message, sent after 15 s without events."""

    type: Literal["alive"]
    next_cursor: Cursor


class SocketAcked(TypedDict):
    """The reply to an acknowledgement."""

    type: Literal["acked"]
    consumer: Annotated[str, meaning("The consumer's name.", "billing")]
    cursor: Cursor
    advanced: Annotated[bool, meaning("Whether the position moved.")]
    unread: Annotated[int | None, meaning("Events not acknowledged yet.", 0)]


class SocketError(TypedDict):
    """A rejected message, or the reason for closing the socket. The reason has the fields of every error."""

    type: Literal["error"]
    error: ErrorBody


class SocketEnding(TypedDict):
    """The last message before a close."""

    type: Literal["end"]
    reason: Annotated[str, meaning("Why the socket closes.", "closing")]
    retry_after_s: Annotated[int, meaning("Seconds to wait before reconnecting.", 2)]


class SocketAck(TypedDict):
    """The client's message: an acknowledgement for a named consumer."""

    type: Literal["ack"]
    cursor: Cursor
