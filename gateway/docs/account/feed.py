"""Reference texts for the events feed and its consumers (spec 2.8, 4.4)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired, TypedDict

from gateway.docs.account import streams
from gateway.docs.account.fields import Cursor, Instant, meaning
from gateway.http.routing import RouteDoc

_GONE: Final = "RESOURCE_NOT_FOUND/unknown_consumer"
_EXPIRED: Final = "CURSOR_EXPIRED/retention_passed"
_STORE_UNAVAILABLE: Final = "SERVICE_UNAVAILABLE/store_unavailable"
_CONFLICT: Final = "INVALID_REQUEST/conflicting_params"


class NextRead(TypedDict):
    """URLs for the next read."""

    poll_url: Annotated[str, meaning("The URL of the next read.", "https://api.example.com/v1/events?cursor=cur_...")]
    ack_url: NotRequired[Annotated[str, meaning("The URL where a consumer acknowledges this page.")]]


class EventsData(TypedDict):
    """A page of events, oldest first."""

    items: list[streams.EventItem]
    retained_from: Instant | None
    next_step: Annotated[
        str,
        meaning("The recommended next action, in one sentence.", "Process the items, then continue at next.poll_url."),
    ]
    next: NextRead
    dropped: Annotated[int, meaning("Events that retention removed after the reader's position.", 0)]
    unread: NotRequired[Annotated[int, meaning("Events that the consumer has not acknowledged yet.", 0)]]
    restarted_from: NotRequired[Cursor]


class ConsumerView(TypedDict):
    """A named consumer."""

    consumer: Annotated[str, meaning("The consumer's name.", "billing")]
    status: Annotated[Literal["active", "idle", "lapsed"], meaning("Whether the consumer is still reading.")]
    cursor: Cursor
    unread: Annotated[int | None, meaning("Events that the consumer has not acknowledged yet.", 0)]
    types: Annotated[list[str] | None, meaning("The event types that it receives; null for all.")]
    subject_id: Annotated[list[str] | None, meaning("The subjects that it receives events about; null for all.")]
    created_at: Instant
    last_read_at: Instant


class ConsumersData(TypedDict):
    """The key's consumers."""

    items: list[ConsumerView]


class ConsumerData(TypedDict):
    """One consumer."""

    consumer: ConsumerView


class AckedData(TypedDict):
    """A consumer's position after an acknowledgement."""

    consumer: Annotated[str, meaning("The consumer's name.", "billing")]
    cursor: Cursor
    advanced: Annotated[bool, meaning("Whether the position moved.")]
    unread: Annotated[int | None, meaning("Events not acknowledged yet.", 0)]


READ: Final = RouteDoc(
    "list_events",
    "The account's events in order. `wait_s` waits for new events.",
    EventsData,
    form="application/json text/event-stream",
    reasons=(_EXPIRED, _STORE_UNAVAILABLE, _CONFLICT, _GONE, "INVALID_REQUEST/consumer_limit_reached"),
    notes=(
        "With `Accept: text/event-stream`, the response is a stream of server-sent events: one unnamed message for "
        "each event, whose `id` is the event's cursor and whose `data` is the event as JSON. Send `Last-Event-ID` to "
        "continue after the last one. A lapsed consumer first receives a `restarted` message.",
    ),
    streams={"message": streams.EventItem, "restarted": streams.FeedRestarted},
)
SOCKET: Final = RouteDoc(
    "follow_events",
    "The events feed over a WebSocket.",
    status=101,
    form="",
    reasons=("UPGRADE_REQUIRED/websocket_only", _EXPIRED, _STORE_UNAVAILABLE, _CONFLICT),
    notes=(
        "The server sends JSON objects, each with a `type`: `events` (with `items`, `next_cursor` and `has_more`), "
        "`alive`, `acked`, `error` and `end`. A named consumer acknowledges with "
        '`{"type": "ack", "cursor": "cur_..."}`.',
    ),
    sends=(
        streams.SocketEvents,
        streams.SocketAlive,
        streams.SocketAcked,
        streams.SocketError,
        streams.SocketEnding,
    ),
    takes=(streams.SocketAck,),
)
LIST: Final = RouteDoc(
    "list_consumers",
    "The key's named consumers.",
    ConsumersData,
    reasons=(_STORE_UNAVAILABLE,),
    gives={"consumer": "/data/items/0/consumer"},
)
SHOW: Final = RouteDoc("get_consumer", "One named consumer.", ConsumerData, reasons=(_GONE, _STORE_UNAVAILABLE))
DELETE: Final = RouteDoc("delete_consumer", "Delete a consumer.", status=204, reasons=(_GONE, _STORE_UNAVAILABLE))
ACK: Final = RouteDoc(
    "acknowledge",
    "Move a consumer forward to a position that it has received. It never moves back.",
    AckedData,
    once=True,
    reasons=(_GONE, _EXPIRED, _STORE_UNAVAILABLE),
)
RESET: Final = RouteDoc(
    "reset_consumer",
    "Move a consumer to any position.",
    ConsumerData,
    once=True,
    reasons=(_GONE, _EXPIRED, _STORE_UNAVAILABLE),
)
