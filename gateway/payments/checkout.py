"""Buying packs with Stripe Checkout (decisions 22).

This module creates the purchase, Stripe takes the payment, and a signed webhook then confirms it.
"""

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
"""Log levels by outcome. All other outcomes are logged as warnings."""


class Begun(NamedTuple):
    """A new purchase, and the Stripe page on which to pay for it."""

    purchase: Purchase
    session: CheckoutSession


class Checkout:
    """Starts payments, and handles Stripe's events about their outcome."""

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
        """Create an unpaid purchase of a pack, and open its payment page.

        Raises:
            PackUnknown: the pack is not for sale.
            Refused: 503; Stripe did not create a page, so the purchase was removed.
        """
        purchase = await self._packs.begin(account_id, pack)
        try:
            return Begun(purchase, await self.open_page(purchase, success_url=success_url, cancel_url=cancel_url))
        except BaseException:  # remove the purchase, because the buyer has no page on which to pay for it
            with trio.move_on_after(FORGET_S, shield=True):
                await self._packs.forget(purchase.id)
            raise

    async def open_page(self, purchase: Purchase, *, success_url: str, cancel_url: str) -> CheckoutSession:
        """Open the payment page for a purchase. Repeated calls for the same purchase return the same page.

        Raises:
            Refused: 503; Stripe did not create a page, or its response was lost.
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
            message = "The payment page could not be created; nothing was bought."
            raise Refused("SERVICE_UNAVAILABLE", message, retry_after_s=RETRY_AFTER_S) from failure

    @staticmethod
    def covers(path: str) -> bool:
        """Return whether this path is the path of Stripe's webhook."""
        return path == WEBHOOK_PATH

    async def answer(self, request: Request) -> Reply:
        """Handle an event from Stripe, and return 200 once it is committed. Stripe repeats an event until it gets 200.

        Raises:
            Refused: the request is not a POST, is too long or unreadable, or its signature is invalid or too old.
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
            raise InvalidParam("stripe-signature", f"is not valid: {exc}") from exc
        except EventUnreadable as exc:
            self._log.failure("payment_event_unreadable", exc)
            raise InvalidParam("body", f"is not a readable event: {exc}") from exc
        if event.payment is not None:
            outcome, problem = await self._payments.count(event.id, event.type, event.payment)
            level = _LEVELS.get(outcome, "warning")
            more = {"problem": problem} if problem else {}
            self._log.event(level, "payment_event", event_id=event.id, type=event.type, outcome=outcome, **more)
        return Reply(200, b'{"received":true}')
