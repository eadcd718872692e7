"""Reference texts for the deliveries of a monitor's webhook (decisions 12)."""

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

    number: Annotated[int, meaning("The number of the attempt.", 1)]
    at: Instant
    status: Annotated[int | None, meaning("The receiver's status code; null without a response.", 200)]
    error: Annotated[str | None, meaning("Why there was no response.")]
    latency_ms: Annotated[int | None, meaning("The duration in milliseconds.", 35)]
    answer: Annotated[str | None, meaning("The first 20,000 characters of the response.", "ok")]


class LoggedView(TypedDict):
    """A delivery in a log, with its attempts."""

    id: Annotated[str, meaning("The delivery.", "whd_01a1fd7128fd7bba92988ba98f5dc154")]
    status: Literal["queued", "delivered", "failed"]
    fail_reason: Annotated[str | None, meaning("Why the delivery failed.")]
    redelivered: Annotated[bool, meaning("Whether the owner requested a redelivery.")]
    created_at: Instant
    next_attempt_at: Instant | None
    attempt_under_way: Annotated[bool, meaning("Whether an attempt is in progress.")]
    delivered_at: Instant | None
    failed_at: Instant | None
    last_status: Annotated[int | None, meaning("The last status code from the receiver.", 200)]
    attempts: list[AttemptView]


class DeliveryView(LoggedView):
    """One delivery of a run, with its attempts."""

    run_id: RunId


class EventBatchView(LoggedView):
    """One delivery of a batch of events, with its attempts."""

    batch_id: Annotated[str, meaning("The id in the body.", "whb_01a1fd7128fd7bba92988ba98f5dc154")]


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

    webhook_secret: Annotated[str | None, meaning("The new secret; null in a replayed response.", "whsec_...")]
    previous_secret_valid_until: Instant


class WebhookData(TypedDict):
    """A webhook."""

    webhook: WebhookView


class _Delivered(TypedDict):
    """The fields of every delivery."""

    monitor_id: MonitorId
    run_id: RunId
    recipe: Annotated[str, meaning("The endpoint that the monitor calls.", "github/profile")]
    status: Literal["ok", "partial"]
    scheduled_for: Instant
    alerts_fired: list[AlertView]


class FullDelivery(_Delivered):
    """The body of a delivery with the whole result, or with the numbers if the monitor stores only numbers."""

    result: Annotated[dict[str, Any], meaning("The response of the endpoint.", {"author": {"followers": 17297}})]
    deltas: Annotated[dict[str, Any] | None, meaning("The changes since the previous run.", {"author.followers": 12})]
    numbers: NotRequired[Annotated[dict[str, dict[str, float]], meaning("The tracked numbers by row.")]]


class NumberRow(TypedDict):
    """One value of a delivery in the row format."""

    t: Instant
    row_id: Annotated[str, meaning("The row; `_` for the page itself.", "_")]
    metric: Annotated[str, meaning("The path of the metric.", "author.followers")]
    value: Annotated[float, meaning("The value.", 17297)]
    prev: Annotated[float | None, meaning("The previous value.")]
    abs_change: Annotated[float | None, meaning("The absolute change.")]
    pct_change: Annotated[float | None, meaning("The change in percent.")]


class RowsDelivery(_Delivered):
    """The body of a delivery in the row format, for spreadsheets."""

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
    "Replace a webhook's signing secret. Both secrets sign for 24 hours.",
    SecretData,
    once=True,
    reasons=(_UNKNOWN, _UNKNOWN_WEBHOOK),
)
RESUME: Final = RouteDoc(
    "resume_webhook",
    "Resume a paused webhook.",
    WebhookData,
    once=True,
    reasons=(_UNKNOWN, _UNKNOWN_WEBHOOK),
)
