"""The rules for charging, as a pure function over the rows that a batch of requests touches."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec.structs import replace

from billing.charges.batch_rows import (
    AS_USUAL,
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

KEPT_CREDITS: Final = 50
"""Credits that an optional reservation leaves for other calls, one for each concurrent request of a key (spec 8)."""


def decide(rows: BatchRows, requests: Sequence[Request], now: float, at: int) -> Decision:
    """Decide `requests` in order. Each request sees the changes of the earlier ones. `at` is `now` in microseconds."""
    decision = Decision(at=at)
    outcomes, settled = decision.outcomes, rows.settled
    _count_settled(rows, decision)
    outcome: Outcome
    for request in requests:
        if type(request) is ChargeRequest:  # `isinstance` takes ten times as long if the type differs
            outcome = _charge(rows, decision, request, now)
        elif type(request) is Charge:
            id_ = request.request_id
            is_settled = settled.pop(id_, None) is not None
            outcome = request if is_settled else rows.closed.get(id_) or ChargeUnknown(id_)
        else:
            outcome = _close(rows, decision, request)
        outcomes.append(outcome)
    _note_taken(rows, decision, decision.opened.values())
    return decision


def _charge(rows: BatchRows, decision: Decision, request: ChargeRequest, now: float) -> Outcome:
    """Return the new charge or the refusal. Hot path: an ordinary request with enough credits needs few checks."""
    id_, price = request.request_id, request.credits
    account = rows.accounts.get(request.account_id)
    key = rows.keys.get(request.key_id) if request.key_id is not None else None
    if (
        account is None
        or key is None
        or key.plain is not account
        or price > account.balance
        or request.credits_least is not None
        or id_ in rows.charged
        or id_ in decision.opened
    ):
        return _charge_with_checks(rows, decision, request, now)
    account.balance = balance = account.balance - price
    account.place = place = account.place + 1
    account.held += price
    key.used += price
    kind, row_id = identify(id_)
    endpoint = rows.endpoints[request.platform, request.endpoint]
    row = (row_id, account.number, key.number, endpoint, price, balance, place, decision.at, rows.node)
    charge = Charge(id_, request.account_id, request.key_id, price, balance, row)
    if kind != REQUEST:
        charge.extra = (kind, 0, None)
    decision.opened[id_] = charge
    return charge


def _charge_with_checks(rows: BatchRows, decision: Decision, request: ChargeRequest, now: float) -> Outcome:
    """Return the new charge or the refusal, like `_charge`, after all checks."""
    if request.in_background and request.key_id not in rows.keys:
        request = replace(request, key_id=None)  # the key was deleted, and its counter with it
    if request.credits_least is not None:
        request = _limit_optional(rows, request, request.credits_least)
    refusal = _refusal(rows, decision, request, now)
    if refusal is not None:
        return refusal
    key = rows.keys.get(request.key_id) if request.key_id is not None else None
    return _take(rows, decision, request, rows.accounts[request.account_id], key)


def _limit_optional(rows: BatchRows, request: ChargeRequest, least: int) -> ChargeRequest:
    """Return the request with as many optional credits as the account and the key's budget can spare."""
    account = rows.accounts.get(request.account_id)
    if account is None:
        return request
    optional = request.credits - least
    if not account.unlimited:
        optional = min(optional, spare_credits(account.balance - least))
    key = rows.keys.get(request.key_id) if request.key_id is not None else None
    if key is not None and key.credit_limit is not None:
        optional = min(optional, spare_credits(key.credit_limit - key.used - least))
    return replace(request, credits=least + optional)


def spare_credits(left: int) -> int:
    """Return how many of the `left` credits an optional reservation may use.

    Half of the credits, but at most `KEPT_CREDITS`, stay available for other calls. An optional reservation therefore
    never exhausts a balance or a key's limit.
    """
    return max(left // 2, left - KEPT_CREDITS, 0)


def _refusal(rows: BatchRows, decision: Decision, request: ChargeRequest, now: float) -> BillingError | None:
    """Return the reason for refusing the request, or None.

    The checks run in this order: account, key, balance, key's limit (spec 5.2).
    """
    account = rows.accounts.get(request.account_id)
    if account is None or account.state != "active":
        return _inactive_error(request.account_id, account)
    id_ = request.request_id
    if id_ in rows.charged or id_ in decision.opened:
        return ChargeExists(id_)
    key = rows.keys.get(request.key_id) if request.key_id is not None else None
    if request.key_id is not None and not request.in_background:
        reason = _unusable(key, request.account_id, now)
        if reason is not None:
            return KeyUnusable(reason)
    if request.credits > account.balance and not account.unlimited:
        return InsufficientCredits(required=request.credits, balance=account.balance, held=account.held)
    # A free call is not counted, so it passes even if the limit was lowered below the credits already used.
    if key is not None and key.credit_limit is not None and 0 < request.credits > key.credit_limit - key.used:
        refusal = KeyBudgetReached(required=request.credits, limit=key.credit_limit, used=key.used)
        if request.credits <= key.credit_limit - key.used + account.held:  # `held` includes what this key reserved
            decision.over_budget.append((key, refusal))
        return refusal
    return None


def _inactive_error(account_id: str, account: AccountState | None) -> BillingError:
    """Return the error for a request on an inactive account."""
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
    id_, price, shortfall, issued_place = request.request_id, request.credits, 0, None
    if account.balance < price:
        # An unlimited account is issued exactly the missing credits, so that every rule of the ledger also applies to
        # it.
        shortfall = price - account.balance
        account.balance = price
        issued_place = account.place = account.place + 1
        decision.issued += shortfall
    account.balance -= price
    account.held += price
    account.place += 1
    if key is not None:
        key.used += price
    kind, row_id = identify(id_)
    endpoint, key_number = rows.endpoints[request.platform, request.endpoint], None if key is None else key.number
    of, after = (row_id, account.number, key_number, endpoint), (account.balance, account.place)
    row = (*of, price, *after, decision.at, rows.node)
    extra = (kind, shortfall, issued_place) if kind != REQUEST or shortfall else AS_USUAL
    charge = Charge(id_, request.account_id, request.key_id, price, account.balance, row, extra)
    decision.opened[id_] = charge
    return charge


def _note_taken(rows: BatchRows, decision: Decision, charges: Iterable[Charge]) -> None:
    """Add the accounts and keys that new charges change, and their credits, to the decision."""
    taken, accounts, keys = 0, decision.accounts, decision.keys
    for charge in charges:
        taken += charge.credits
        if charge.account_id not in accounts:
            accounts[charge.account_id] = rows.accounts[charge.account_id]
        if charge.key_id is not None and charge.key_id not in keys:
            keys[charge.key_id] = rows.keys[charge.key_id]
    decision.taken += taken


def _count_settled(rows: BatchRows, decision: Decision) -> None:
    """Count the charges that were settled in full. Their rows are already written, and no balance changes."""
    usage, accounts = decision.usage, rows.accounts
    for charge in rows.settled.values():
        counts = usage.get(charge.row[1:4]) or _counts(rows, decision, charge)
        counts.calls += 1
        counts.credits += charge.credits
        accounts[charge.account_id].held -= charge.credits


def _close(rows: BatchRows, decision: Decision, request: CloseRequest) -> Outcome:
    """Settle the used credits and refund the rest. If the charge is already closed, return its first outcome."""
    charge = decision.opened.pop(request.request_id, None)
    if charge is not None:
        _note_taken(rows, decision, [charge])
    elif (charge := rows.open.pop(request.request_id, None)) is not None:
        decision.closed.append(request.request_id)
    else:
        return rows.closed.get(request.request_id) or ChargeUnknown(request.request_id)
    assert 0 <= request.used <= charge.credits, "a charge cannot use more credits than it took"
    account, rest = rows.accounts[charge.account_id], charge.credits - request.used
    counts = _counts(rows, decision, charge)
    account.held -= charge.credits
    if rest:
        _return_credits(rows, decision, charge, rest)
    _add_journal_row(decision, charge, account, rest, rows.notes[request.description] if rest else None)
    counts.calls += 1
    counts.credits += request.used
    counts.refunds += rest
    counts.failures += 0 < charge.credits == rest
    rows.charged.add(request.request_id)
    outcome = rows.closed[request.request_id] = Closed(request.used, account.balance)
    return outcome


def _return_credits(rows: BatchRows, decision: Decision, charge: Charge, amount: int) -> None:
    """Add the credits back to the account, and subtract them from the key's counter if it still includes them."""
    account = rows.accounts[charge.account_id]
    account.balance += amount
    account.place += 1
    if charge.key_id is not None and charge.request_id not in rows.uncounted:
        key = decision.keys[charge.key_id] = rows.keys[charge.key_id]
        key.used -= amount


def _add_journal_row(
    decision: Decision, charge: Charge, account: AccountState, refunded: int, note: int | None
) -> None:
    """Add the journal row of a charge that is being closed. `account` already has its final balance."""
    (id_, number, key, endpoint, taken, after, place, at, _node), (kind, issued, issued_place) = (
        charge.row,
        charge.extra,
    )
    of = (id_, kind, number, key, endpoint)
    amounts = (taken, refunded, issued, at, decision.at - at, after, account.balance)
    decision.journal.append((*of, *amounts, place, account.place if refunded else None, issued_place, note))


def _counts(rows: BatchRows, decision: Decision, charge: Charge) -> Counts:
    """Return the `Counts` that include this charge, and mark its account as changed."""
    decision.accounts[charge.account_id] = rows.accounts[charge.account_id]
    _id, account, key, endpoint, *_rest = charge.row
    return decision.usage.setdefault((account, key, endpoint), Counts())
