"""Ledger entries: the five ways credits move between an account's books."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from storage.store import Tx

Kind: TypeAlias = Literal["purchase", "bonus", "deduction", "settlement", "refund"]

ADD_ENTRIES = """
INSERT INTO ledger_entries (account_id, kind, debit, credit, amount, balance_after, request_id, key_id, platform,
                            endpoint, description, created_at)
VALUES {rows}
"""


# In the order of the columns above, as it goes to the database; a tuple, since each call makes one.
Entry: TypeAlias = tuple[
    str, Kind, str, str, int, int, str | None, str | None, str | None, str | None, str, float
]  # fmt: skip
KIND: Final = 1
AMOUNT: Final = 4


def issue(
    account_id: str,
    kind: Literal["purchase", "bonus"],
    amount: int,
    *,
    balance_after: int,
    description: str,
    now: float,
    request_id: str | None = None,
) -> Entry:
    """Credits that come into the account."""
    books = ("issued", "available")
    return (account_id, kind, *books, amount, balance_after, request_id, None, None, None, description, now)


def add_entries(tx: Tx, entries: Sequence[Entry]) -> None:
    """Append `entries` to the ledger. The caller keeps the account's own columns in step."""
    tx.run_many(ADD_ENTRIES, entries)
