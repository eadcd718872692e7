"""Detects when a batch of charges makes an account's credits low or exhausted.

The decision uses the whole, which is the balance plus the credits reserved by open charges. The whole falls only when a
charge is settled, so reserving, refunding and recovering publish nothing. It rises only by purchases, and every
purchase lifts it above the threshold.

Each fall below the threshold, and each fall to 0, is therefore published once. This needs no stored marker, and does
not depend on how settlements are grouped into batches.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from billing.charges.batch_rows import AccountState

LOW_PART = 5
"""Credits are low at a fifth of the last pack, rounded down. Packs below five credits have no low threshold."""


class LowBalance(NamedTuple):
    """An account whose credits just became low or exhausted, with its amounts after the batch."""

    account_id: str
    to: Literal["low", "exhausted"]
    balance: int
    held: int
    pack: int
    threshold: int


def judge_low_balances(accounts: Mapping[str, AccountState]) -> list[LowBalance]:
    """Return the accounts that a batch made low or exhausted. An account that becomes both is listed as low first.

    An unlimited account never runs low. This is called for every batch of charges, so it returns early if no credits
    were spent.
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
