"""Takes back credits whose payment is missing or was reversed. The account may be in any state.

Taking credits back is recorded like a deduction for a call. The hourly usage counts it under an endpoint without a
platform.
"""

from typing import Final

from billing.charges.batch_rows import AccountState, Counts, Decision
from billing.charges.charge_rows import READ_ACCOUNTS, write_decision
from billing.journal import identify, micros
from billing.names import Names
from storage.store import Tx

PLATFORM: Final = "billing"
"""The platform name for credits that are taken back. Forecasts exclude this platform."""
PATH: Final = "pack_reversed"


def take_back(tx: Tx, account_id: str, most: int, *, request_id: str, now: float) -> Decision:
    """Take `most` credits, or as many as the account has, under an unused id. Return the written decision."""
    endpoint = Names().endpoints(tx, {(PLATFORM, PATH)})[PLATFORM, PATH]
    ((_id, balance, held, unlimited, version, pack, number, place, state),) = tx.all_in(READ_ACCOUNTS, [account_id])
    amount = min(most, balance)
    decision = Decision(at=micros(now), taken=amount)
    if not amount:
        return decision
    whole, left, place = balance + held, balance - amount, place + 1
    kind, row_id = identify(request_id)
    amounts = (amount, 0, 0, decision.at, 0, left, left)
    decision.journal.append((row_id, kind, number, None, endpoint, *amounts, place, None, None, None))
    decision.usage[number, None, endpoint] = Counts(credits=amount)
    decision.accounts[account_id] = AccountState(
        left, held, bool(unlimited), version, pack, whole, number, place, state
    )
    write_decision(tx, decision)
    return decision
