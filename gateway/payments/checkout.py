"""Stripe Checkout: a purchase is begun here, paid there, and told back by a signed webhook (decisions 22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import trio

from billing.packs.packs import Packs
from billing.packs.payments import Payments
from billing.packs.records import Purchase
from gateway.http.errors import InvalidParam, Refused
from gateway.http.request import Reply, Request
from gateway.http.routing import body_too_large, wrong_method
from gateway.observability.logs import Log
from gateway.payments.errors import CheckoutFailed, EventUnreadable
from gateway.payments.stripe_api import CheckoutDraft, CheckoutSession, StripeApi
from gateway.payments.stripe_events import read_event
from gateway.server.errors import BodyTooLong
from gateway.server.http1.whole_body import read_body
from scheduler.webhooks.errors import SignatureRefused
from scheduler.webhooks.signature import verify

WEBHOOK_PATH: Final = "/billing/stripe"
RETRY_AFTER_S: Final = 30
FORGET_S: Final = 5.0
BODY_BYTES_MAX: Final = 262_144
_HEADER: Final = b"stripe-signature"
_LEVELS: Final = {"counted": "info", "repeated": "info", "mismatch": "error"}
"""The levels at which outcomes are logged; others are warnings."""


class Begun(NamedTuple):
    """A purchase, and the page on which it can be paid."""

    purchase: Purchase
    session: CheckoutSession


class Checkout:
    """Begins payments, and takes the events that tell how they went."""

    def __init__(
        self,
        packs: Packs,
        payments: Payments,
        stripe: StripeApi,
        *,
        webhook_secret: str,
        now: Callable[[], float],
        log: Log,
    ) -> None:
        self._packs = packs
        self._payments = payments
        self._stripe = stripe
        self._webhook_secret = webhook_secret
        self._now = now
        self._log = log

    async def begin(self, account_id: str, pack: str, *, success_url: str, cancel_url: str) -> Begun:
        """A purchase of this pack that is yet to be paid, with its page.

        Raises:
            PackUnknown: no such pack is on sale.
            Refused: 503, Stripe has begun none; nothing is left of the purchase.
        """
        purchase = await self._packs.begin(account_id, pack)
        try:
            return Begun(purchase, await self.open_page(purchase, success_url=success_url, cancel_url=cancel_url))
        except BaseException:  # nobody was given a page to pay on
            with trio.move_on_after(FORGET_S, shield=True):
                await self._packs.forget(purchase.id)
            raise

    async def open_page(self, purchase: Purchase, *, success_url: str, cancel_url: str) -> CheckoutSession:
        """Open the page on which a purchase is paid. Stripe makes one per purchase, however often it is asked.

        Raises:
            Refused: 503, Stripe has made none, or its answer was lost.
        """
        draft = CheckoutDraft(
            purchase.id,
            f"{purchase.credits:,} credits ({purchase.pack})",
            purchase.price_cents,
            purchase.currency,
            success_url,
            cancel_url,
        )
        try:
            return await self._stripe.begin(draft)
        except CheckoutFailed as failure:
            self._log.failure("checkout_failed", failure, purchase_id=purchase.id)
            message = "The page to pay on could not be made; nothing was bought."
            raise Refused("SERVICE_UNAVAILABLE", message, retry_after_s=RETRY_AFTER_S) from failure

    @staticmethod
    def covers(path: str) -> bool:
        """Whether a path is that of Stripe's webhook."""
        return path == WEBHOOK_PATH

    async def answer(self, request: Request) -> Reply:
        """Count an event. Stripe repeats one until it is answered with 200, which it is once it is committed.

        Raises:
            Refused: it is no POST, is too long, is not signed with the webhook's secret, or not of the last minutes.
        """
        if request.method != "POST":
            raise wrong_method(request, ("POST",))
        try:
            body = await read_body(request.receive, bytes_max=BODY_BYTES_MAX)
        except BodyTooLong as exc:
            raise body_too_large(BODY_BYTES_MAX) from exc
        header = request.headers.get(_HEADER, b"").decode("latin-1")
        try:
            verify(self._webhook_secret, header, body, now=self._now())
            event = read_event(body)
        except SignatureRefused as exc:
            raise InvalidParam("stripe-signature", f"is refused: {exc}") from exc
        except EventUnreadable as exc:
            self._log.failure("payment_event_unreadable", exc)
            raise InvalidParam("body", f"is no event that can be read: {exc}") from exc
        if event.payment is not None:
            outcome, problem = await self._payments.count(event.id, event.type, event.payment)
            level = _LEVELS.get(outcome, "warning")
            more = {"problem": problem} if problem else {}
            self._log.event(level, "payment_event", event_id=event.id, type=event.type, outcome=outcome, **more)
        return Reply(200, b'{"received":true}')
