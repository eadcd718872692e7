"""Packs of credits and their purchases, for their readers (decisions 22)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning
from gateway.http.routing import RouteDoc

_PLAN = Literal["free", "starter", "growth", "pro", "enterprise"]


class PackView(TypedDict):
    """A pack on sale."""

    name: str
    credits: Annotated[int, meaning("They do not expire.")]
    price_cents: Annotated[int, meaning("In the smallest unit of the currency.")]
    currency: Annotated[str, meaning("By ISO 4217.", "usd")]
    plan: Annotated[_PLAN, meaning("Comes with it, unless the account has a larger one.")]


class PacksData(TypedDict):
    """The packs on sale."""

    items: list[PackView]
    checkout: Annotated[bool, meaning("Whether they can be paid by card here.")]


class PurchaseView(TypedDict):
    """A pack as an account bought it, at the terms of that time."""

    id: Annotated[str, meaning("The purchase.", "pur_01a1fd7128fd7bba92988ba98f5dc154")]
    pack: str
    credits: int
    price_cents: int
    currency: str
    plan: _PLAN
    source: Literal["operator", "stripe"]
    status: Annotated[Literal["open", "paid", "partly_reversed", "reversed"], meaning("`open` until it is paid.")]
    credits_reversed: Annotated[int, meaning("Their payment was refunded or is disputed.")]
    credits_taken_back: Annotated[int, meaning("Those of them that the account still had.")]
    created_at: Instant
    paid_at: Instant | None


class PurchasesData(TypedDict):
    """A page of purchases."""

    items: list[PurchaseView]


class PurchaseBegun(TypedDict):
    """A purchase that waits for its payment."""

    purchase_id: Annotated[str, meaning("The purchase.", "pur_01a1fd7128fd7bba92988ba98f5dc154")]
    checkout_url: Annotated[str, meaning("The page to pay on.", "https://checkout.stripe.com/c/pay/cs_1")]
    expires_at: Instant


PACKS: Final = RouteDoc("list_packs", "The packs of credits on sale.", PacksData)
PURCHASES: Final = RouteDoc("list_purchases", "The account's purchases, newest first.", PurchasesData)
BUY: Final = RouteDoc(
    "buy_pack",
    "Begin to buy a pack: a page on which it is paid by card.",
    PurchaseBegun,
    description="The credits come with the payment, told by the event `billing.pack_purchased`.",
    status=201,
    reasons=("INVALID_REQUEST/capability_missing",),
    once=True,
)
