"""Webhooks of the account, for their readers (decisions 22)."""

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
    """A webhook of the account as its owner sees it."""

    id: Annotated[str, meaning("The webhook.", "wh_01a1fd7128fd7bba92988ba98f5dc154")]
    url: Annotated[str | None, meaning("The address that events are delivered to.", "https://example.com/hook")]
    types: Annotated[list[str], meaning("The types and families that it takes.", ["monitor.*", "credits.low"])]
    description: Annotated[str, meaning("What it is for.", "Alerts for the on-call channel")]
    status: Literal["active", "paused"]
    failure_count: Annotated[int, meaning("Deliveries that failed in a row.", 0)]
    last_delivery_at: Instant | None
    created_at: Instant
    updated_at: Instant


class AccountWebhookData(TypedDict):
    """One webhook."""

    webhook: AccountWebhookView


class AccountWebhookMade(AccountWebhookData):
    """A webhook that was made."""

    secret: Annotated[
        str | None, meaning("Its signing secret, told this once; null where it is repeated.", "whsec_...")
    ]


class AccountWebhooksData(TypedDict):
    """A page of webhooks."""

    items: list[AccountWebhookView]


class RotatedData(TypedDict):
    """A webhook's new secret."""

    secret: Annotated[str | None, meaning("The new secret; null where the change is repeated.", "whsec_...")]
    previous_secret_valid_until: Instant


class EventBatchesData(TypedDict):
    """A page of deliveries."""

    items: list[EventBatchView]


class EventBatchData(TypedDict):
    """One delivery."""

    delivery: EventBatchView


class EventBatch(TypedDict):
    """The body of a delivery: 1 to 100 events, each as the feed has it."""

    id: Annotated[str, meaning("The batch, the same at every attempt.", "whb_01a1fd7128fd7bba92988ba98f5dc154")]
    api_version: Annotated[str, meaning("The version of the events.", "2026-11-21")]
    events: list[streams.EventItem]


CREATE: Final = RouteDoc(
    "create_webhook",
    "Make a webhook of the account.",
    AccountWebhookMade,
    description="Delivers the events of the account's feed, of the `types` that it takes, in batches of 1 to 100.",
    status=201,
    once=True,
    gives={"webhook_id": "/data/webhook/id"},
    reasons=("INVALID_REQUEST/webhook_limit_reached",),
)
LIST: Final = RouteDoc("list_webhooks", "The account's webhooks, newest first.", AccountWebhooksData)
SHOW: Final = RouteDoc("get_webhook", "One webhook of the account.", AccountWebhookData, reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "update_webhook",
    "Change a webhook; its `url`, saved again, resumes one that was paused.",
    AccountWebhookData,
    reasons=(_UNKNOWN,),
)
DELETE: Final = RouteDoc("delete_webhook", "Forget a webhook and its deliveries.", status=204, reasons=(_UNKNOWN,))
TEST: Final = RouteDoc(
    "test_webhook",
    "Deliver one event of the type `webhook.test`.",
    EventBatchData,
    status=202,
    once=True,
    reasons=(_UNKNOWN, _PAUSED, "INVALID_REQUEST/deliveries_limit_reached"),
    gives={"delivery_id": "/data/delivery/id"},
)
ROTATE: Final = RouteDoc(
    "rotate_account_webhook_secret",
    "Give a webhook a new signing secret; the one before signs too for 24 hours.",
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
