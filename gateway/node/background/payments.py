"""Opens the payment services of a node, if the operator has configured them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.http.request import AdjacentPages
from gateway.node.node import NodeSetting
from gateway.node.stores import Stores
from gateway.runtime import Runtime

if TYPE_CHECKING:
    from gateway.payments.checkout import Checkout


@dataclass(frozen=True, slots=True)
class PaymentRuntime:
    """The payment services. `checkout` is None unless the environment variables named in `[billing.stripe]` are set."""

    checkout: Checkout | None = None

    @property
    def pages(self) -> tuple[AdjacentPages, ...]:
        """Return the pages that receive the payment provider's notifications. They are not part of the API."""
        return () if self.checkout is None else (self.checkout,)


@asynccontextmanager
async def open_payments(setting: NodeSetting, stores: Stores, runtime: Runtime) -> AsyncIterator[PaymentRuntime]:
    """Open Stripe Checkout with its own connections, if it is configured."""
    terms, environ = setting.config.billing.stripe, setting.environ
    secret_key, webhook_secret = environ.get(terms.secret_key_env, ""), environ.get(terms.webhook_secret_env, "")
    if not secret_key or not webhook_secret:
        yield PaymentRuntime()
        return
    from gateway.payments.checkout import Checkout  # noqa: PLC0415 - most nodes do not need these modules
    from gateway.payments.stripe_api import CONNECTIONS, StripeApi  # noqa: PLC0415

    async with setting.open_exchange(max_connections=CONNECTIONS, egress="", keep=runtime.keep) as exchange:
        stripe = StripeApi(terms.api_url, secret_key, exchange)
        now, log, billing = runtime.now, runtime.log, stores.billing
        yield PaymentRuntime(
            Checkout(billing.packs, billing.payments, stripe, webhook_secret=webhook_secret, now=now, log=log)
        )
