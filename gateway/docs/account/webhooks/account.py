"""Reference texts for account webhooks (decisions 22)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from gateway.docs.account import streams
from gateway.docs.account.fields import Instant, meaning
from gateway.docs.account.webhooks.deliveries import DeliveryDocs, EventBatchView
from gateway.http.routing import RouteDoc

_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_webhook"
_UNKNOWN_DELIVERY: Final = "RESOURCE_NOT_FOUND/unknown_delivery"
_PAUSED: Final = "INVALID_REQUEST/webhook_paused"


class AccountWebhookView(TypedDict):
    """An account webhook as its owner sees it."""

    id: Annotated[str, meaning("The webhook.", "wh_01a1fd7128fd7bba92988ba98f5dc154")]
    url: Annotated[str | None, meaning("The URL that events are delivered to.", "https://example.com/hook")]
    types: Annotated[list[str], meaning("The event types and families that it receives.", ["monitor.*", "credits.low"])]
    description: Annotated[
        str, meaning("The purpose of the webhook, as the owner described it.", "Alerts for the on-call channel")
    ]
    status: Literal["active", "paused"]
    failure_count: Annotated[int, meaning("Consecutive failed deliveries.", 0)]
    last_delivery_at: Instant | None
    created_at: Instant
    updated_at: Instant


class AccountWebhookData(TypedDict):
    """One webhook."""

    webhook: AccountWebhookView


class AccountWebhookMade(AccountWebhookData):
    """A new webhook."""

    secret: Annotated[
        str | None, meaning("Its signing secret, shown only once; null in a replayed response.", "whsec_...")
    ]


class AccountWebhooksData(TypedDict):
    """A page of webhooks."""

    items: list[AccountWebhookView]


class RotatedData(TypedDict):
    """A webhook's new secret."""

    secret: Annotated[str | None, meaning("The new secret; null in a replayed response.", "whsec_...")]
    previous_secret_valid_until: Instant


class EventBatchesData(TypedDict):
    """A page of deliveries."""

    items: list[EventBatchView]


class EventBatchData(TypedDict):
    """One delivery."""

    delivery: EventBatchView


class EventBatch(TypedDict):
    """The body of a delivery: 1 to 100 events, as in the feed."""

    id: Annotated[str, meaning("The batch's id, the same at every attempt.", "whb_01a1fd7128fd7bba92988ba98f5dc154")]
    api_version: Annotated[str, meaning("The version of the events.", "2026-11-21")]
    events: list[streams.EventItem]


CREATE: Final = RouteDoc(
    "create_webhook",
    "Create an account webhook.",
    AccountWebhookMade,
    description="Delivers events of the account's feed, filtered by `types`, in batches of 1 to 100.",
    status=201,
    once=True,
    gives={"webhook_id": "/data/webhook/id"},
    reasons=("INVALID_REQUEST/webhook_limit_reached",),
)
LIST: Final = RouteDoc("list_webhooks", "The account's webhooks, newest first.", AccountWebhooksData)
SHOW: Final = RouteDoc("get_webhook", "One account webhook.", AccountWebhookData, reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "update_webhook",
    "Change a webhook. Saving its `url` again resumes a paused webhook.",
    AccountWebhookData,
    reasons=(_UNKNOWN,),
)
DELETE: Final = RouteDoc("delete_webhook", "Delete a webhook and its deliveries.", status=204, reasons=(_UNKNOWN,))
TEST: Final = RouteDoc(
    "test_webhook",
    "Deliver a test event of the type `webhook.test`.",
    EventBatchData,
    status=202,
    once=True,
    reasons=(_UNKNOWN, _PAUSED, "INVALID_REQUEST/deliveries_limit_reached"),
    gives={"delivery_id": "/data/delivery/id"},
)
ROTATE: Final = RouteDoc(
    "rotate_account_webhook_secret",
    "Replace a webhook's signing secret. Both secrets sign for 24 hours.",
    RotatedData,
    once=True,
    reasons=(_UNKNOWN,),
)
LOG: Final = DeliveryDocs(
    RouteDoc(
        "list_webhook_deliveries",
        "A webhook's deliveries with their attempts, newest first.",
        EventBatchesData,
        reasons=(_UNKNOWN,),
    ),
    RouteDoc(
        "get_webhook_delivery", "One delivery with its attempts.", EventBatchData, reasons=(_UNKNOWN, _UNKNOWN_DELIVERY)
    ),
    RouteDoc(
        "redeliver_batch",
        "Send a delivery again.",
        EventBatchData,
        status=202,
        once=True,
        reasons=(_UNKNOWN, _UNKNOWN_DELIVERY, _PAUSED, "INVALID_REQUEST/attempts_limit_reached"),
    ),
)
