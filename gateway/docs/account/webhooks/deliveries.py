"""The deliveries of a monitor's webhook, for their readers (decisions 12)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, MonitorId, RunId, meaning
from gateway.docs.account.monitors import AlertView, WebhookView
from gateway.http.routing import RouteDoc

_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_monitor"
_UNKNOWN_DELIVERY: Final = "RESOURCE_NOT_FOUND/unknown_delivery"
_UNKNOWN_WEBHOOK: Final = "RESOURCE_NOT_FOUND/unknown_webhook"


class AttemptView(TypedDict):
    """One attempt of a delivery."""

    number: Annotated[int, meaning("Which one it was.", 1)]
    at: Instant
    status: Annotated[int | None, meaning("The status that came; null where none did.", 200)]
    error: Annotated[str | None, meaning("Why none came.")]
    latency_ms: Annotated[int | None, meaning("How long it took.", 35)]
    answer: Annotated[str | None, meaning("The first 20,000 characters of the answer.", "ok")]


class LoggedView(TypedDict):
    """A delivery in a log, with its attempts."""

    id: Annotated[str, meaning("The delivery.", "whd_01a1fd7128fd7bba92988ba98f5dc154")]
    status: Literal["queued", "delivered", "failed"]
    fail_reason: Annotated[str | None, meaning("Why it failed.")]
    redelivered: Annotated[bool, meaning("Whether its owner had it sent again.")]
    created_at: Instant
    next_attempt_at: Instant | None
    attempt_under_way: Annotated[bool, meaning("Whether an attempt is being made now.")]
    delivered_at: Instant | None
    failed_at: Instant | None
    last_status: Annotated[int | None, meaning("The status that came last.", 200)]
    attempts: list[AttemptView]


class DeliveryView(LoggedView):
    """One delivery of a run, with its attempts."""

    run_id: RunId


class EventBatchView(LoggedView):
    """One delivery of a batch of events, with its attempts."""

    batch_id: Annotated[str, meaning("The id of its body.", "whb_01a1fd7128fd7bba92988ba98f5dc154")]


class DeliveryDocs(NamedTuple):
    """The descriptions of a log's routes."""

    list: RouteDoc
    show: RouteDoc
    redeliver: RouteDoc


class DeliveriesData(TypedDict):
    """A page of deliveries."""

    items: list[DeliveryView]


class DeliveryData(TypedDict):
    """One delivery."""

    delivery: DeliveryView


class SecretData(TypedDict):
    """A webhook's new secret."""

    webhook_secret: Annotated[str | None, meaning("The new secret; null where the change is repeated.", "whsec_...")]
    previous_secret_valid_until: Instant


class WebhookData(TypedDict):
    """A webhook."""

    webhook: WebhookView


class _Delivered(TypedDict):
    """The fields of every delivery."""

    monitor_id: MonitorId
    run_id: RunId
    recipe: Annotated[str, meaning("The endpoint that the monitor repeats.", "github/profile")]
    status: Literal["ok", "partial"]
    scheduled_for: Instant
    alerts_fired: list[AlertView]


class FullDelivery(_Delivered):
    """The body of a delivery with the whole result; of a numbers-only monitor with its numbers too."""

    result: Annotated[dict[str, Any], meaning("The recipe's answer.", {"author": {"followers": 17297}})]
    deltas: Annotated[dict[str, Any] | None, meaning("The change against the run before.", {"author.followers": 12})]
    numbers: NotRequired[Annotated[dict[str, dict[str, float]], meaning("The tracked numbers by row.")]]


class NumberRow(TypedDict):
    """One number of a delivery in rows."""

    t: Instant
    row_id: Annotated[str, meaning("The row; `_` is the page itself.", "_")]
    metric: Annotated[str, meaning("The path of the number.", "author.followers")]
    value: Annotated[float, meaning("The number.", 17297)]
    prev: Annotated[float | None, meaning("The number before.")]
    abs_change: Annotated[float | None, meaning("The change.")]
    pct_change: Annotated[float | None, meaning("The change in percent.")]


class RowsDelivery(_Delivered):
    """The body of a delivery in rows, for spreadsheets."""

    rows: list[NumberRow]


LIST: Final = RouteDoc(
    "list_deliveries",
    "A monitor's deliveries with their attempts, newest first.",
    DeliveriesData,
    reasons=(_UNKNOWN,),
    gives={"delivery_id": "/data/items/0/id"},
)
SHOW: Final = RouteDoc(
    "get_delivery", "One delivery with its attempts.", DeliveryData, reasons=(_UNKNOWN, _UNKNOWN_DELIVERY)
)
REDELIVER: Final = RouteDoc(
    "redeliver",
    "Send a delivery again.",
    DeliveryData,
    status=202,
    once=True,
    reasons=(
        _UNKNOWN,
        _UNKNOWN_DELIVERY,
        "INVALID_REQUEST/webhook_paused",
        "INVALID_REQUEST/attempts_limit_reached",
    ),
)
LOG: Final = DeliveryDocs(LIST, SHOW, REDELIVER)
ROTATE: Final = RouteDoc(
    "rotate_webhook_secret",
    "Give a webhook a new signing secret; the one before signs too for 24 hours.",
    SecretData,
    once=True,
    reasons=(_UNKNOWN, _UNKNOWN_WEBHOOK),
)
RESUME: Final = RouteDoc(
    "resume_webhook",
    "Let a paused webhook take deliveries again.",
    WebhookData,
    once=True,
    reasons=(_UNKNOWN, _UNKNOWN_WEBHOOK),
)
