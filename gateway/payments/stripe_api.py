"""The one part of Stripe's API that is used: creating Checkout sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import httpx
import msgspec
import trio

from gateway.payments.errors import CheckoutFailed
from upstreams.transport.http import Exchange, HttpCall, origin_of

WITHIN_S: Final = 15.0
CONNECTIONS: Final = 4
_MESSAGE_MAX: Final = 300


class CheckoutSession(msgspec.Struct, frozen=True):
    """A page at Stripe on which to pay for one purchase, until `expires_at` (Unix seconds)."""

    id: str
    url: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class CheckoutDraft:
    """The data for a new Checkout session."""

    purchase_id: str
    name: str
    price_cents: int
    currency: str
    success_url: str
    cancel_url: str

    def form(self) -> dict[str, str]:
        """Return the form fields for Stripe. They make every event about the session contain the purchase's id."""
        price = "line_items[0][price_data]"
        return {
            "mode": "payment",
            "client_reference_id": self.purchase_id,
            "metadata[purchase]": self.purchase_id,
            "payment_intent_data[metadata][purchase]": self.purchase_id,
            "line_items[0][quantity]": "1",
            f"{price}[currency]": self.currency,
            f"{price}[unit_amount]": str(self.price_cents),
            f"{price}[product_data][name]": self.name,
            "success_url": self.success_url,
            "cancel_url": self.cancel_url,
        }


class StripeApi:
    """Calls Stripe with the operator's secret key, which never appears in errors or logs."""

    def __init__(self, api_url: str, secret_key: str, exchange: Exchange) -> None:
        self._url = f"{api_url}/v1/checkout/sessions"
        self._secret_key = secret_key
        self._exchange = exchange

    async def begin(self, draft: CheckoutDraft) -> CheckoutSession:
        """Create a Checkout session.

        The purchase's id is the idempotency key, so repeated calls return the same session.

        Raises:
            CheckoutFailed: Stripe rejected the request, or returned no usable response within `WITHIN_S`.
        """
        origin, target = origin_of(self._url)
        headers = (
            ("authorization", f"Bearer {self._secret_key}"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("idempotency-key", draft.purchase_id),
        )
        call = HttpCall("POST", origin, target, headers, urlencode(draft.form()).encode())
        try:
            answer = await self._exchange(call, trio.current_time() + WITHIN_S)
        except (httpx.TransportError, httpx.DecodingError) as exc:
            raise CheckoutFailed(f"Stripe cannot be reached: {type(exc).__name__}: {exc}") from exc
        if answer.status != 200:
            raise CheckoutFailed(f"Stripe responded with {answer.status}: {_error_message(answer.body)}")
        try:
            session = msgspec.json.decode(answer.body, type=CheckoutSession)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise CheckoutFailed(f"Stripe's response is not a Checkout session: {exc}") from exc
        if not session.url.startswith("https://"):  # Browsers are redirected to this URL.
            raise CheckoutFailed("Stripe's response has no https payment URL")
        return session


class _Error(msgspec.Struct, frozen=True):
    message: str = ""


class _Errors(msgspec.Struct, frozen=True):
    error: _Error = _Error()


def _error_message(body: bytes) -> str:
    """Return Stripe's error message. If it quotes the secret key, Stripe has already masked most of the key."""
    try:
        return msgspec.json.decode(body, type=_Errors).error.message[:_MESSAGE_MAX]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "not JSON"
