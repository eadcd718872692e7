"""When an account's credits run low or out, judged on what a batch of charges leaves of them.

What counts is the whole: the balance and what open charges hold, which is what there would be if all of them were
refunded. It falls when a charge is settled and at no other time, so that taking, refunding and recovering tell nothing;
it rises only by what is bought, and by any purchase beyond the threshold. So the step over the threshold, and that to
0, is told once for each fall, without a mark that says so; and however settlements fall into batches, the same is told.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from billing.charges.batch_rows import AccountState

LOW_PART = 5
"""Credits are low when a fifth of the last pack is left, rounded down. A pack of less than that has no low."""


class LowBalance(NamedTuple):
    """An account's credits have just become low or exhausted; its numbers as the batch leaves them."""

    account_id: str
    to: Literal["low", "exhausted"]
    balance: int
    held: int
    pack: int
    threshold: int


def judge_low_balances(accounts: Mapping[str, AccountState]) -> list[LowBalance]:
    """The accounts that a batch has brought low or to nothing; one that falls past both is first low.

    An unlimited account never runs low. Every batch of charges pays for this, hence the early way out.
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
