"""`/v1/packs` and `/v1/purchases`: credit packs on sale, and the account's purchases (decisions 22)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import msgspec
import orjson

from billing.errors import PackUnknown
from billing.packs.packs import Packs, drop_purchase
from billing.packs.records import Purchase
from events.instants import iso
from gateway.admin.pack_operations import pack_view, purchase_view
from gateway.api.changes import Changes, claim_of_change, text_of
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies, account_fragment
from gateway.calls.idempotency import fingerprint
from gateway.docs.account import packs as docs
from gateway.http.bodies import read_json
from gateway.http.errors import InvalidParam, Refused
from gateway.http.params import CURSOR, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from limits.idempotency import StoredReply
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import limit

if TYPE_CHECKING:
    from gateway.payments.checkout import Checkout

PACKS: Final = "/v1/packs"
PURCHASES: Final = "/v1/purchases"
BILLING_PAGE: Final = "/dashboard/billing"
_LIST: Final = (limit(100), CURSOR)
_WayBack = Annotated[
    str,
    msgspec.Meta(
        max_length=2_048,
        description="An https URL that the payment page returns to.",
        examples=["https://example.com/paid"],
    ),
]


class BuyBody(msgspec.Struct, frozen=True):
    """The body of a purchase. Without URLs, the payment page returns to the dashboard."""

    pack: Annotated[str, msgspec.Meta(max_length=40, description="The pack's name.", examples=["starter"])]
    success_url: _WayBack | None = None
    cancel_url: _WayBack | None = None


class PackRoutes:
    """Serves packs and the caller's purchases. Without a `checkout`, no purchase can be started."""

    def __init__(
        self, packs: Packs, checkout: Checkout | None, *, signer: CursorSigner, replies: Replies, changes: Changes
    ) -> None:
        self._packs = packs
        self._checkout = checkout
        self._replies = replies
        self._changes = changes
        self._lists = Lists(signer, replies)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of packs and purchases."""
        return (
            Route(PACKS, self.on_sale, doc=docs.PACKS),
            Route(PURCHASES, self.page, doc=docs.PURCHASES, params=_LIST),
            Route(PURCHASES, self.buy, ("POST",), doc=docs.BUY, body=BuyBody),
        )

    async def on_sale(self, request: Request, caller: Caller) -> Reply:
        """Return the packs, in the order of the config."""
        read_free(request.query, ())
        items = [pack_view(pack) for pack in self._packs.on_sale.values()]
        data = {"items": items, "checkout": self._checkout is not None}
        return await self._replies.free(request, caller, account_fragment(request.path, data))

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of purchases, newest first."""
        values = read_free(request.query, _LIST)
        size, place = int(values["limit"]), self._lists.position(request, caller, values)
        found = await self._packs.list(caller.key.account_id, before=place.before, limit=size + 1)
        last = found[size - 1] if len(found) > size else None
        more = None if last is None else position_after(last.created_at, last.id)
        items = [purchase_view(one) for one in found[:size]]
        return await self._lists.page(request, caller, items, place=place, more=more)

    async def buy(self, request: Request, caller: Caller) -> Reply:
        """Start a purchase. Return 201 with the URL of the payment page."""
        read_free(request.query, ())
        sent = await read_json(request, BuyBody)
        checkout = self._checkout
        if checkout is None:
            message = "This node does not accept card payments. Ask its operator for a pack."
            raise Refused("INVALID_REQUEST", message, details={"reason": "capability_missing", "param": "pack"})
        self._check(sent.pack)
        page = f"{self._replies.base_url_for(request)}{BILLING_PAGE}"
        success, cancel = _return_url("success_url", sent.success_url), _return_url("cancel_url", sent.cancel_url)

        async def open_page(purchase: Purchase) -> str:
            session = await checkout.open_page(
                purchase, success_url=success or f"{page}?paid=1", cancel_url=cancel or page
            )
            data = {"purchase_id": purchase.id, "checkout_url": session.url, "expires_at": iso(session.expires_at)}
            return orjson.dumps(data).decode()

        claim = claim_of_change(request, caller, sent)
        named = None if claim is None else fingerprint(claim.id.encode(), claim.fingerprint.encode())
        begin = self._packs.beginning(caller.key.account_id, sent.pack, named)
        made = await self._changes.make_outside(claim, begin, open_page, undo=drop_purchase)
        data = orjson.loads(text_of(made) if isinstance(made, StoredReply) else made)
        return await self._changes.answer(request, caller, account_fragment(PURCHASES, data), made, status=201)

    def _check(self, name: str) -> None:
        """Raise InvalidParam if the pack cannot be bought."""
        try:
            pack = self._packs.get(name)
        except PackUnknown as exc:
            on_sale = ", ".join(exc.on_sale) or "none"
            raise InvalidParam("pack", f"must be one of the packs on sale: {on_sale}", meant=exc.nearest) from exc
        if not pack.price_cents:
            raise InvalidParam("pack", "has no price; only the operator can grant it")


def _return_url(param: str, url: str | None) -> str | None:
    """Return the URL unchanged. Raise InvalidParam if a browser must not be redirected to it."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" or not parts.hostname or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidParam(param, "must be an absolute URL that begins with https://")
    return url
