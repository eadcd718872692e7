"""Ledger entries: the five ways credits move between an account's books."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from storage.store import Tx

Kind: TypeAlias = Literal["purchase", "bonus", "deduction", "settlement", "refund"]

ADD_ENTRIES = """
INSERT INTO ledger_entries (account_id, kind, debit, credit, amount, balance_after, request_id, key_id, platform,
                            endpoint, description, created_at)
VALUES {rows}
"""


class Entry(NamedTuple):
    """One entry in the order of its columns: a tuple, since it goes to the database as it is."""

    account_id: str
    kind: Kind
    debit: str
    credit: str
    amount: int
    balance_after: int
    request_id: str | None
    key_id: str | None
    platform: str | None
    endpoint: str | None
    description: str
    created_at: float


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
    return Entry(
        account_id, kind, "issued", "available", amount, balance_after, request_id, None, None, None, description, now
    )


def add_entries(tx: Tx, entries: Sequence[Entry]) -> None:
    """Append `entries` to the ledger. The caller keeps the account's own columns in step."""
    tx.run_many(ADD_ENTRIES, entries)
