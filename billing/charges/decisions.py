"""The rules of charging, as one pure function over the rows that a batch of requests touches."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from billing.charges.batch_rows import (
    AccountState,
    BatchRows,
    Charge,
    ChargeRequest,
    Closed,
    CloseRequest,
    Counts,
    Decision,
    KeyState,
    Outcome,
    Request,
)
from billing.errors import (
    AccountDeleted,
    AccountSuspended,
    AccountUnknown,
    BillingError,
    ChargeExists,
    ChargeUnknown,
    InsufficientCredits,
    KeyBudgetReached,
    KeyUnusable,
)
from billing.journal import identify, micros


def decide(rows: BatchRows, requests: Sequence[Request], now: float) -> Decision:
    """Judge `requests` one after another, each on the rows as the earlier ones left them."""
    decision = Decision(at=micros(now))
    outcome: Outcome
    for request in requests:
        if isinstance(request, ChargeRequest):
            within = request if request.credits_least is None else _within_means(rows, request, request.credits_least)
            outcome = _refusal(rows, within, now) or _take(rows, decision, within)
        elif isinstance(request, Charge):
            outcome = _settle(rows, decision, request)
        else:
            outcome = _close(rows, decision, request)
        decision.outcomes.append(outcome)
    return decision


def _within_means(rows: BatchRows, request: ChargeRequest, least: int) -> ChargeRequest:
    """The request for as much as the account and the key's budget have of a charge that may be less."""
    account = rows.accounts.get(request.account_id)
    if account is None:
        return request
    means = request.credits if account.unlimited else min(request.credits, account.balance)
    key = rows.keys.get(request.key_id) if request.key_id is not None else None
    if key is not None and key.credit_limit is not None:
        means = min(means, key.credit_limit - key.used)
    return replace(request, credits=max(least, means))


def _refusal(rows: BatchRows, request: ChargeRequest, now: float) -> BillingError | None:
    """Why the request may not be charged, in this order: account, key, balance, the key's budget (spec 5.2)."""
    account = rows.accounts.get(request.account_id)
    if account is None or account.state != "active":
        return _closed(request.account_id, account)
    if request.request_id in rows.charged or request.request_id in rows.open:
        return ChargeExists(request.request_id)
    key = rows.keys.get(request.key_id) if request.key_id is not None else None
    if request.key_id is not None and (reason := _unusable(key, request.account_id, now)):
        return KeyUnusable(reason)
    if request.credits > account.balance and not account.unlimited:
        return InsufficientCredits(required=request.credits, balance=account.balance)
    # A free call does not count, so it passes even where a lowered limit lies below what is used.
    if key is not None and key.credit_limit is not None and 0 < request.credits > key.credit_limit - key.used:
        return KeyBudgetReached(required=request.credits, limit=key.credit_limit, used=key.used)
    return None


def _closed(account_id: str, account: AccountState | None) -> BillingError:
    """Why nothing is taken from an account that is not active."""
    if account is None:
        return AccountUnknown(account_id)
    return AccountSuspended() if account.state == "suspended" else AccountDeleted(account_id)


def _unusable(key: KeyState | None, account_id: str, now: float) -> Literal["unknown", "revoked", "expired"] | None:
    if key is None or key.account_id != account_id:
        return "unknown"
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else None


def _take(rows: BatchRows, decision: Decision, request: ChargeRequest) -> Charge:
    account = rows.accounts[request.account_id]
    id_, account_id, key_id, price = request.request_id, request.account_id, request.key_id, request.credits
    shortfall, issued_place = 0, None
    if account.balance < price:
        # An unlimited account is given exactly what is missing, so that every rule of the ledger holds for it too.
        shortfall = price - account.balance
        account.balance = price
        issued_place = account.place = account.place + 1
        decision.issued += shortfall
    account.balance -= price
    account.held += price
    account.place += 1
    decision.taken += price
    decision.accounts[account_id] = account
    if key_id is not None:
        key = decision.keys[key_id] = rows.keys[key_id]
        key.used += price
    rows.charged.add(id_)
    platform, endpoint = request.platform, request.endpoint
    charge = Charge(
        id_,
        account_id,
        key_id,
        price,
        platform,
        endpoint,
        account.balance,
        account.place,
        decision.at,
        shortfall,
        issued_place,
        rows.endpoints[platform, endpoint],
    )
    rows.open[id_] = decision.opened[id_] = charge
    return charge


def _settle(rows: BatchRows, decision: Decision, charge: Charge) -> Outcome:
    """Settle all of the charge, which moves nothing that can be spent."""
    if not rows.is_plain:
        close = CloseRequest(charge.request_id, charge.account_id, charge.key_id, used=charge.credits)
        return _close(rows, decision, close)
    account = decision.accounts[charge.account_id] = rows.accounts[charge.account_id]
    account.held -= charge.credits
    _enter(rows, decision, charge, 0)
    return charge


def _close(rows: BatchRows, decision: Decision, request: CloseRequest) -> Outcome:
    """Settle what was used and refund the rest, once; a second closing gets the first one's outcome."""
    charge = rows.open.pop(request.request_id, None)
    if charge is None:
        return rows.closed.get(request.request_id) or ChargeUnknown(request.request_id)
    assert 0 <= request.used <= charge.credits, "a charge is closed for no more than was taken"
    account = decision.accounts[charge.account_id] = rows.accounts[charge.account_id]
    account.held -= charge.credits
    rest = charge.credits - request.used
    if rest:
        _give_back(rows, decision, charge, rest)
    _enter(rows, decision, charge, rest, note=rows.notes[request.description] if rest else None)
    if decision.opened.pop(request.request_id, None) is None:
        decision.closed.append(request.request_id)
    outcome = rows.closed[request.request_id] = Closed(request.used, account.balance)
    return outcome


def _give_back(rows: BatchRows, decision: Decision, charge: Charge, amount: int) -> None:
    """Return credits to the account, and to the key's counter if it still holds them."""
    account = rows.accounts[charge.account_id]
    account.balance += amount
    account.place += 1
    if charge.key_id is not None and charge.request_id not in rows.uncounted:
        key = decision.keys[charge.key_id] = rows.keys[charge.key_id]
        key.used -= amount


def _enter(rows: BatchRows, decision: Decision, charge: Charge, refunded: int, *, note: int | None = None) -> None:
    """The row of a charge that is closed now, and its count; the account stands as the closing leaves it."""
    account = rows.accounts[charge.account_id]
    key = None if charge.key_id is None else rows.keys[charge.key_id].number
    kind, id_ = identify(charge.request_id)
    taken, endpoint, at = charge.credits, charge.endpoint_number, charge.taken_at
    of = (id_, kind, account.number, key, endpoint, taken)
    then = (at, decision.at - at, charge.balance_after, account.balance, charge.place)
    if refunded or charge.issued:
        places = (account.place if refunded else None, charge.issued_place, note)
        decision.journal.append((*of, refunded, charge.issued, *then, *places))
    else:
        decision.settled.append((*of, *then))
    place = (account.number, endpoint, key or 0)
    counts = decision.usage.get(place)
    if counts is None:
        counts = decision.usage[place] = Counts()
    counts.calls += 1
    counts.credits += taken - refunded
    counts.refunds += refunded
    counts.failures += 0 < taken == refunded
    decision.spent += taken - refunded
    decision.refunded += refunded
