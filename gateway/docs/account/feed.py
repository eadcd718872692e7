"""The events feed and its consumers, for their readers (spec 2.8, 4.4)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired, TypedDict

from gateway.docs.account import streams
from gateway.docs.account.fields import Cursor, Instant, meaning
from gateway.http.routing import RouteDoc

_GONE: Final = "RESOURCE_NOT_FOUND/unknown_consumer"
_EXPIRED: Final = "CURSOR_EXPIRED/retention_passed"
_AWAY: Final = "SERVICE_UNAVAILABLE/store_unavailable"
_CONFLICT: Final = "INVALID_REQUEST/conflicting_params"


class NextRead(TypedDict):
    """Where to read on."""

    poll_url: Annotated[
        str, meaning("The address of the next read.", "https://api.example.com/v1/events?cursor=cur_...")
    ]
    ack_url: NotRequired[Annotated[str, meaning("Where a consumer acknowledges this page.")]]


class EventsData(TypedDict):
    """A page of events, oldest first."""

    items: list[streams.EventItem]
    retained_from: Instant | None
    next_step: Annotated[str, meaning("What to do next, in a sentence.", "Handle the items, read on at next.poll_url.")]
    next: NextRead
    dropped: Annotated[int, meaning("Positions that retention removed since the reader stood.", 0)]
    unread: NotRequired[Annotated[int, meaning("Events that the consumer has not acknowledged.", 0)]]
    restarted_from: NotRequired[Cursor]


class ConsumerView(TypedDict):
    """A named consumer."""

    consumer: Annotated[str, meaning("Its name.", "billing")]
    status: Annotated[Literal["active", "idle", "lapsed"], meaning("Whether it reads on.")]
    cursor: Cursor
    unread: Annotated[int | None, meaning("Events that it has not acknowledged.", 0)]
    types: Annotated[list[str] | None, meaning("The types that it is bound to; null for all.")]
    subject_id: Annotated[list[str] | None, meaning("The subjects that it is bound to; null for all.")]
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

    consumer: Annotated[str, meaning("Its name.", "billing")]
    cursor: Cursor
    advanced: Annotated[bool, meaning("Whether it moved.")]
    unread: Annotated[int | None, meaning("Events that are left.", 0)]


READ: Final = RouteDoc(
    "list_events",
    "The account's events in order, waiting for more with wait_s.",
    EventsData,
    form="application/json text/event-stream",
    reasons=(_EXPIRED, _AWAY, _CONFLICT, _GONE, "INVALID_REQUEST/consumer_limit_reached"),
    notes=(
        "With `Accept: text/event-stream` it is a stream of server-sent events: one message for each event, without a "
        "name, whose `id` is the event's cursor and whose `data` is the event as JSON. `Last-Event-ID` reads on behind "
        "the last one. A consumer that has lapsed is first sent a `restarted`.",
    ),
    streams={"message": streams.EventItem, "restarted": streams.FeedRestarted},
)
SOCKET: Final = RouteDoc(
    "follow_events",
    "The same feed over a WebSocket.",
    status=101,
    form="",
    reasons=("UPGRADE_REQUIRED/websocket_only", _EXPIRED, _AWAY, _CONFLICT),
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
    reasons=(_AWAY,),
    gives={"consumer": "/data/items/0/consumer"},
)
SHOW: Final = RouteDoc("get_consumer", "One named consumer.", ConsumerData, reasons=(_GONE, _AWAY))
DELETE: Final = RouteDoc("delete_consumer", "Forget a consumer.", status=204, reasons=(_GONE, _AWAY))
ACK: Final = RouteDoc(
    "acknowledge",
    "Move a consumer on to a position that it was served; never back.",
    AckedData,
    once=True,
    reasons=(_GONE, _EXPIRED, _AWAY),
)
RESET: Final = RouteDoc(
    "reset_consumer",
    "Let a consumer read on from any position.",
    ConsumerData,
    once=True,
    reasons=(_GONE, _EXPIRED, _AWAY),
)
