"""A stand-in for Stripe on loopback. It creates Checkout sessions, and builds and signs events as Stripe does."""

from __future__ import annotations

import time
import warnings
from contextlib import AbstractAsyncContextManager
from itertools import count
from typing import Any
from urllib.parse import parse_qsl

import orjson
import trio

from gateway.server.asgi import Receive, Scope, Send
from gateway.server.http1.whole_body import read_body
from tests.fakes.scripted_upstream import open_app

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # raised by the import of Stripe's library
    import stripe

SECRET_KEY = "sk_test_of_the_stand_in"
WEBHOOK_SECRET = "whsec_of_the_stand_in"
_NUMBERS = count(1)


class StripeStandIn:
    """Stripe's Checkout over HTTP. `refusing` is the error status to answer with, if set.

    Like Stripe, it refuses an idempotency key that is reused with a different form.
    """

    def __init__(self) -> None:
        self.sessions: list[dict[str, str]] = []
        self.refusing: int | None = None
        self.slow_s = 0.0
        """Seconds to wait before each answer, after the session was created."""
        self.keys: list[str] = []
        """The idempotency key of each call, in order."""
        self._by_key: dict[str, bytes] = {}
        self._forms: dict[str, bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        headers = dict(scope["headers"])
        body = await read_body(receive, bytes_max=100_000)
        status, answer = self._answer(scope["method"], scope["path"], headers, body)
        await trio.sleep(self.slow_s)
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": answer})

    def _answer(self, method: str, path: str, headers: dict[bytes, bytes], body: bytes) -> tuple[int, bytes]:
        if headers.get(b"authorization") != f"Bearer {SECRET_KEY}".encode():
            return 401, _error("Invalid API Key provided: sk_test_****")
        if (method, path) != ("POST", "/v1/checkout/sessions"):
            return 404, _error("Unrecognized request URL")
        if headers.get(b"content-type") != b"application/x-www-form-urlencoded":
            return 400, _error("Send a form")
        if self.refusing is not None:
            return self.refusing, _error("The stand-in refuses")
        key = headers[b"idempotency-key"].decode()
        self.keys.append(key)
        if self._forms.setdefault(key, body) != body:
            return 400, _error("Keys for idempotent requests can only be used with the same parameters")
        if key not in self._by_key:
            form = dict(parse_qsl(body.decode(), strict_parsing=True))
            id_ = f"cs_test_{next(_NUMBERS)}"
            self.sessions.append({**form, "id": id_})
            made = {"id": id_, "object": "checkout.session", "url": f"https://checkout.stripe.com/c/pay/{id_}"}
            self._by_key[key] = orjson.dumps({**made, "expires_at": int(time.time()) + 86_400})
        return 200, self._by_key[key]


def _error(message: str) -> bytes:
    return orjson.dumps({"error": {"type": "invalid_request_error", "message": message}})


def open_stripe(stand_in: StripeStandIn) -> AbstractAsyncContextManager[str]:
    """Serve the stand-in on its own port, and return the address for `api_url`."""
    return open_app(stand_in, change="billing.stripe.api_url")


def event(type_: str, thing: dict[str, Any], event_id: str = "") -> bytes:
    """Return the body of an event in Stripe's format: with spaces, and with many unused fields."""
    whole = {
        "id": event_id or f"evt_test_{next(_NUMBERS)}",
        "object": "event",
        "api_version": "2024-06-20",
        "livemode": False,
        "pending_webhooks": 1,
        "type": type_,
        "data": {"object": thing},
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2)


def session(
    purchase: str, payment: str = "pi_1", status: str = "paid", cents: int = 900, currency: str = "usd"
) -> dict[str, Any]:
    """Return a Checkout session in an event."""
    return {
        "object": "checkout.session",
        "client_reference_id": purchase,
        "payment_intent": payment,
        "payment_status": status,
        "amount_total": cents,
        "currency": currency,
        "metadata": {"purchase": purchase},
    }


def charge(payment: str = "pi_1", refunded: int = 900, cents: int = 900) -> dict[str, Any]:
    """Return a refunded charge in an event."""
    return {"object": "charge", "payment_intent": payment, "amount": cents, "amount_refunded": refunded}


def dispute(status: str, payment: str = "pi_1", cents: int = 900) -> dict[str, Any]:
    """Return a dispute in an event."""
    return {"object": "dispute", "payment_intent": payment, "amount": cents, "status": status}


def signature(body: bytes, *, at: float | None = None, secret: str = WEBHOOK_SECRET) -> str:
    """Return the header that Stripe's own code computes."""
    header = stripe.WebhookSignature.generate_signature_header(body.decode(), secret, None if at is None else int(at))
    assert isinstance(header, str)
    return header
