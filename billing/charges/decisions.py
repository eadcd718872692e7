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
from billing.journal import REQUEST, identify


def decide(rows: BatchRows, requests: Sequence[Request], now: float, at: int) -> Decision:
    """Judge `requests` one after another, each on the rows as the earlier ones left them.

    `at` is `now` in microseconds.
    """
    decision, settled = Decision(at=at), rows.settled
    outcomes = decision.outcomes
    outcome: Outcome
    for request in requests:
        if isinstance(request, ChargeRequest):
            outcome = _charge(rows, decision, request, now)
        elif isinstance(request, Charge):
            if settled.pop(request.request_id, None) is not None:
                _settle(rows, decision, request)
                outcome = request
            else:
                outcome = rows.closed.get(request.request_id) or ChargeUnknown(request.request_id)
        else:
            outcome = _close(rows, decision, request)
        outcomes.append(outcome)
    return decision


def _charge(rows: BatchRows, decision: Decision, request: ChargeRequest, now: float) -> Outcome:
    """Take the credits, or tell why not. Hot: an ordinary request, with enough in its account, needs few looks."""
    account = rows.accounts.get(request.account_id)
    key = rows.keys.get(request.key_id) if request.key_id is not None else None
    if (
        account is None
        or key is None
        or key.account_id != request.account_id
        or not key.is_plain
        or account.state != "active"
        or request.credits > account.balance
        or request.credits_least is not None
        or request.request_id in rows.charged
        or request.request_id in decision.opened
    ):
        if request.credits_least is not None:
            request = _within_means(rows, request, request.credits_least)
        refusal = _refusal(rows, decision, request, now)
        if refusal is not None:
            return refusal
        account = rows.accounts[request.account_id]
    return _take(rows, decision, request, account, key)


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


def _refusal(rows: BatchRows, decision: Decision, request: ChargeRequest, now: float) -> BillingError | None:
    """Why the request may not be charged, in this order: account, key, balance, the key's budget (spec 5.2)."""
    account = rows.accounts.get(request.account_id)
    if account is None or account.state != "active":
        return _closed(request.account_id, account)
    id_ = request.request_id
    if id_ in rows.charged or id_ in decision.opened:
        return ChargeExists(id_)
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


def _take(
    rows: BatchRows, decision: Decision, request: ChargeRequest, account: AccountState, key: KeyState | None
) -> Charge:
    id_, account_id, key_id, price = request.request_id, request.account_id, request.key_id, request.credits
    shortfall, issued_place, key_number = 0, None, 0
    if account.balance < price:
        # An unlimited account is given exactly what is missing, so that every rule of the ledger holds for it too.
        shortfall = price - account.balance
        account.balance = price
        issued_place = account.place = account.place + 1
        decision.issued += shortfall
    account.balance = balance = account.balance - price
    account.held += price
    account.place = place = account.place + 1
    decision.taken += price
    decision.accounts[account_id] = account
    if key is not None and key_id is not None:
        key.used += price
        key_number = key.number
        decision.keys[key_id] = key
    kind, row_id = identify(id_)
    number, endpoint = account.number, rows.endpoints[request.platform, request.endpoint]
    row = (row_id, number, key_number or None, endpoint, price, balance, place, decision.at, rows.node)
    charge = Charge(id_, account_id, key_id, price, balance, (number, endpoint, key_number), row)
    if kind != REQUEST or shortfall:
        charge.extra = (kind, shortfall, issued_place)
    decision.opened[id_] = charge
    return charge


def _settle(rows: BatchRows, decision: Decision, charge: Charge) -> None:
    """Count a charge of which all was used, and whose row is written already; that moves nothing that can be spent."""
    counts = decision.usage.get(charge.numbers) or _counts(rows, decision, charge)
    counts.calls += 1
    counts.credits += charge.credits
    rows.accounts[charge.account_id].held -= charge.credits


def _close(rows: BatchRows, decision: Decision, request: CloseRequest) -> Outcome:
    """Settle what was used and refund the rest, once; a second closing gets the first one's outcome."""
    charge = decision.opened.pop(request.request_id, None)
    if charge is None and (charge := rows.open.pop(request.request_id, None)) is not None:
        decision.closed.append(request.request_id)
    if charge is None:
        return rows.closed.get(request.request_id) or ChargeUnknown(request.request_id)
    assert 0 <= request.used <= charge.credits, "a charge is closed for no more than was taken"
    account, rest = rows.accounts[charge.account_id], charge.credits - request.used
    counts = decision.usage.get(charge.numbers) or _counts(rows, decision, charge)
    account.held -= charge.credits
    if rest:
        _give_back(rows, decision, charge, rest)
    _enter(decision, charge, account, rest, rows.notes[request.description] if rest else None)
    counts.calls += 1
    counts.credits += request.used
    counts.refunds += rest
    counts.failures += 0 < charge.credits == rest
    rows.charged.add(request.request_id)
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


def _enter(decision: Decision, charge: Charge, account: AccountState, refunded: int, note: int | None) -> None:
    """The row of a charge that is closed now; the account stands as the closing leaves it."""
    (id_, number, key, endpoint, taken, after, place, at, _node), (kind, issued, issued_place) = (
        charge.row,
        charge.extra,
    )
    of = (id_, kind, number, key, endpoint)
    amounts = (taken, refunded, issued, at, decision.at - at, after, account.balance)
    decision.journal.append((*of, *amounts, place, account.place if refunded else None, issued_place, note))


def _counts(rows: BatchRows, decision: Decision, charge: Charge) -> Counts:
    """New counts for the charges that are counted together with this one; their account changes."""
    decision.accounts[charge.account_id] = rows.accounts[charge.account_id]
    counts = decision.usage[charge.numbers] = Counts()
    return counts
