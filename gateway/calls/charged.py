"""Runs any work under one charge.

The credits are reserved first, and the charge is always settled afterwards (decisions 6 and 17).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from billing.charges.batch_rows import Charge, ChargeRequest
from billing.charges.refunds import NOTHING_USED, used_by_failure
from gateway.calls.execute import BilledCalls
from gateway.calls.lookup import balance_of
from gateway.calls.request import CallFailed, CallResult
from gateway.calls.reservations import SETTLE_S
from limits.idempotency import Claim, StoredReply
from storage.errors import StoreUnavailable
from upstreams.model.errors import PageTooCostly


async def run_charged(
    calls: BilledCalls,
    wanted: ChargeRequest,
    claim: Claim | None,
    work: Callable[[Charge], Awaitable[tuple[int, bytes]]],
    *,
    spent: Callable[[], int] = lambda: NOTHING_USED,
    page_credits: int = NOTHING_USED,
) -> CallResult:
    """Return the result of `work`, which returns the credits used and the encoded fragment.

    If the work fails or is cancelled, the credits in `spent` (for results already delivered) stay charged. If a page
    was too costly, at least `page_credits` stay charged.

    Raises:
        InsufficientCredits, KeyBudgetReached, KeyUnusable, ClaimRefused, StorageError: nothing was charged.
        CallFailed: the work failed; the rest was refunded if the store was available.
    """
    if calls.refusal is not None:
        raise StoreUnavailable(calls.refusal)
    arrived, reservations = calls.clock(), calls.reservations
    charge = await reservations.reserve(wanted, claim)
    if isinstance(charge, StoredReply):
        assert charge.text is not None, "a reply without a text is never replayed"
        balance = await balance_of(calls.balances, wanted.account_id)
        return CallResult(charge.text.encode(), 0, balance, replayed=charge)
    started = calls.clock()
    try:
        used, fragment = await work(charge)
    except Exception as exc:
        costly = used_by_failure(charge.credits, page_credits, is_costly=isinstance(exc, PageTooCostly))
        used, reply = max(spent(), costly), reservations.refusal_to_store(claim, exc)
        closing = reservations.close(claim, charge, used, reply)
        used, after = await closing  # noqa: ASYNC120 - it shields itself
        raise CallFailed(used, after, calls.clock() - started) from exc
    except BaseException:  # Cancelled: only the price of delivered results stays charged, and the claim is released.
        with trio.move_on_after(SETTLE_S, shield=True):
            await reservations.close(claim, charge, spent())
        raise
    reply = None if claim is None else StoredReply(200, fragment.decode(), wanted.request_id)
    took_s = calls.clock() - started
    used, after = await reservations.close(claim, charge, used, reply)
    return CallResult(fragment, used, after, took_s, started - arrived)
