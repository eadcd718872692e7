"""The first and last step of billing a request: reserve credits, and settle the charge (decisions 6 and 7).

With an idempotency key, each step shares a transaction with the key's claim.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import trio

from billing.charges.batch_rows import Charge, ChargeRequest
from billing.charges.charges import Charges, close_request
from billing.errors import ChargeUnknown
from gateway.calls.idempotency import Begin, ClaimEnd, Claims
from gateway.calls.planning import Quote
from gateway.calls.request import CallRequest
from gateway.http import envelope
from gateway.http.errors import refusal_of
from limits.idempotency import Claim, StoredReply
from storage.errors import StorageError

SETTLE_S: Final = 5.0


class Reservations:
    """Reserves credits for requests and settles their charges."""

    def __init__(self, charges: Charges, claims: Claims, base_url: str) -> None:
        self._charges = charges
        self._claims = claims
        self._base_url = base_url

    def reserve(self, charge: ChargeRequest, claim: Claim | None) -> Awaitable[Charge | StoredReply]:
        """Take a charge. With an idempotency key, also claim the key, or return the reply to replay.

        Raises:
            ClaimRefused, InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was charged.
        """
        return self._charges.take(charge) if claim is None else self._claim(claim, charge)

    async def _claim(self, claim: Claim, charge: ChargeRequest) -> Charge | StoredReply:
        begun = await self._claims.begin(Begin(claim, charge))
        assert begun is not None, "only a cache hit needs no charge"
        return begun

    def refusal_to_store(self, claim: Claim | None, exc: Exception) -> StoredReply | None:
        """Return the reply to store for a failure under its key; None if the failure is retryable."""
        refused = refusal_of(exc)
        if claim is None or refused.code.retryable:
            return None
        text = envelope.error_fragment(refused, self._base_url).decode()
        return StoredReply(refused.code.status, text, claim.owner)

    async def close(
        self, claim: Claim | None, charge: Charge, used: int, reply: StoredReply | None = None
    ) -> tuple[int, int | None]:
        """Settle the used credits and refund the rest, shielded from cancellation. Return the cost and new balance.

        If the store does not confirm in time, the charge stays open until recovery. A charge without a row in the store
        cost nothing.
        """
        with trio.move_on_after(SETTLE_S, shield=True):
            try:
                if claim is None:
                    closed = await self._charges.close(charge, used=used)
                else:
                    closed = await self._claims.end(ClaimEnd(claim, close_request(charge, used=used), reply))
            except StorageError:
                return charge.credits, None
            except ChargeUnknown as exc:
                self._charges.note_lost(exc)
                return 0, None
            return closed.credits_used, closed.balance_after
        return charge.credits, None


def charge_request(request: CallRequest, quoted: Quote) -> ChargeRequest:
    """Return the charge to take before the call. A call with a fixed price has no minimum."""
    key, listing = request.key, request.listing
    least, most = quoted
    return ChargeRequest(
        request.request_id,
        key.account_id,
        key.id,
        most,
        listing.site.platform.slug,
        listing.path,
        None if least == most else least,
    )
