"""The first and the last step of a request's money: credits are reserved, a charge is closed (decisions 6 and 7).

Under an idempotency key each of them is one transaction with the key's claim.
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
    """Reserves the credits of requests and closes their charges."""

    def __init__(self, charges: Charges, claims: Claims, base_url: str) -> None:
        self._charges = charges
        self._claims = claims
        self._base_url = base_url

    def reserve(self, charge: ChargeRequest, claim: Claim | None) -> Awaitable[Charge | StoredReply]:
        """Take a charge; under an idempotency key claim it too, or get the reply to replay.

        Raises:
            ClaimRefused, InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was charged.
        """
        return self._charges.take(charge) if claim is None else self._claim(claim, charge)

    async def _claim(self, claim: Claim, charge: ChargeRequest) -> Charge | StoredReply:
        begun = await self._claims.begin(Begin(claim, charge))
        assert begun is not None, "only a cache hit begins without a charge"
        return begun

    def refusal_to_store(self, claim: Claim | None, exc: Exception) -> StoredReply | None:
        """The reply that a failure leaves under its key; one that is worth a retry leaves none."""
        refused = refusal_of(exc)
        if claim is None or refused.code.retryable:
            return None
        text = envelope.error_fragment(refused, self._base_url).decode()
        return StoredReply(refused.code.status, text, claim.owner)

    async def close(
        self, claim: Claim | None, charge: Charge, used: int, reply: StoredReply | None = None
    ) -> tuple[int, int | None]:
        """Settle what was used and refund the rest, in a shield: what it cost, and the balance after it.

        When the store does not confirm it in time, the charge stands until recovery. One whose row is gone from the
        store cost nothing.
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
    """The charge to take before the call; where the price is fixed there is no least one."""
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
