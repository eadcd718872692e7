"""Reference texts for packs of credits and their purchases (decisions 22)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning
from gateway.http.routing import RouteDoc

_PLAN = Literal["free", "starter", "growth", "pro", "enterprise"]


class PackView(TypedDict):
    """A pack on sale."""

    name: str
    credits: Annotated[int, meaning("Credits in the pack. They do not expire.")]
    price_cents: Annotated[int, meaning("The price in the smallest unit of the currency.")]
    currency: Annotated[str, meaning("The ISO 4217 currency code.", "usd")]
    plan: Annotated[_PLAN, meaning("The plan that comes with the pack, unless the account has a larger one.")]


class PacksData(TypedDict):
    """The packs on sale."""

    items: list[PackView]
    checkout: Annotated[bool, meaning("Whether packs can be paid for by card.")]


class PurchaseView(TypedDict):
    """A purchase of a pack, at the terms that were valid when it was made."""

    id: Annotated[str, meaning("The purchase.", "pur_01a1fd7128fd7bba92988ba98f5dc154")]
    pack: str
    credits: int
    price_cents: int
    currency: str
    plan: _PLAN
    source: Literal["operator", "stripe"]
    status: Annotated[Literal["open", "paid", "partly_reversed", "reversed"], meaning("`open` until it is paid.")]
    credits_reversed: Annotated[int, meaning("Credits whose payment was refunded or disputed.")]
    credits_taken_back: Annotated[int, meaning("Reversed credits that were deducted.")]
    created_at: Instant
    paid_at: Instant | None


class PurchasesData(TypedDict):
    """A page of purchases."""

    items: list[PurchaseView]


class PurchaseBegun(TypedDict):
    """A purchase waiting for payment."""

    purchase_id: Annotated[str, meaning("The purchase.", "pur_01a1fd7128fd7bba92988ba98f5dc154")]
    checkout_url: Annotated[str, meaning("The URL of the payment page.", "https://checkout.stripe.com/c/pay/cs_1")]
    expires_at: Instant


PACKS: Final = RouteDoc("list_packs", "The packs of credits on sale.", PacksData)
PURCHASES: Final = RouteDoc("list_purchases", "The account's purchases, newest first.", PurchasesData)
BUY: Final = RouteDoc(
    "buy_pack",
    "Start buying a pack, and get the URL of the payment page.",
    PurchaseBegun,
    description="The credits are added after the payment. The event `billing.pack_purchased` reports them.",
    status=201,
    reasons=("INVALID_REQUEST/capability_missing",),
    once=True,
)
