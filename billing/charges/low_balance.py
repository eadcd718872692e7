"""Detects when a batch of charges makes an account's credits low or exhausted.

The decision is based on the whole: the balance plus the credits held by open charges, which is the balance if all of
them were refunded. It falls only when a charge is settled, so taking, refunding and recovering publish nothing. It
rises only by purchases, and any purchase lifts it above the threshold. Each step below the threshold, and each step to
0, is therefore published once per fall without a stored marker, however the settlements are grouped into batches.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from billing.charges.batch_rows import AccountState

LOW_PART = 5
"""Credits are low at a fifth of the last pack, rounded down. Packs below five credits have no low threshold."""


class LowBalance(NamedTuple):
    """An account whose credits just became low or exhausted, with its numbers after the batch."""

    account_id: str
    to: Literal["low", "exhausted"]
    balance: int
    held: int
    pack: int
    threshold: int


def judge_low_balances(accounts: Mapping[str, AccountState]) -> list[LowBalance]:
    """Return the accounts that a batch made low or exhausted. An account that becomes both is listed as low first.

    An unlimited account never runs low. The early return matters because every batch of charges calls this.
    """
    found: list[LowBalance] = []
    for account_id, account in accounts.items():
        left, threshold = account.balance + account.held, account.pack // LOW_PART
        if left > threshold or left >= account.whole or account.unlimited:
            continue
        if account.whole > threshold > 0:
            found.append(LowBalance(account_id, "low", account.balance, account.held, account.pack, threshold))
        if left == 0:
            found.append(LowBalance(account_id, "exhausted", account.balance, account.held, account.pack, threshold))
    return found
