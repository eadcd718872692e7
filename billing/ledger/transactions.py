"""Reads the balance and the transactions for an account's owner (decisions 4)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import trio

from billing.accounts.accounts import read_account
from storage.store import Row, Store, Tx, Value

DAY_S = 86_400.0

# What was settled is deductions less their refunds; what is still held comes on top.
SPENT_SINCE = """
SELECT COALESCE(SUM(amount), 0), COALESCE(SUM(CASE WHEN created_at >= ? THEN amount ELSE 0 END), 0)
FROM ledger_entries WHERE kind = 'settlement' AND account_id = ? AND created_at >= ?
"""
COLUMNS = "id, kind, amount, balance_after, description, endpoint, platform, request_id, key_id, created_at"
PAGE = f"""
SELECT {COLUMNS} FROM ledger_entries
WHERE account_id = ? AND id < ? AND kind <> 'settlement' ORDER BY id DESC LIMIT ?
"""  # noqa: S608 - constants
# Materialized, or the order asked for makes the database walk through all of the account's entries.
PAGE_OF_REQUEST = f"""
WITH found AS MATERIALIZED (SELECT * FROM ledger_entries WHERE request_id = ?)
SELECT {COLUMNS} FROM found WHERE account_id = ? AND id < ? AND kind <> 'settlement' ORDER BY id DESC LIMIT ?
"""  # noqa: S608 - constants
NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BalanceReport:
    """The credits that can be spent, that open charges hold, and that were deducted lately, net of refunds."""

    balance: int
    held: int
    last_24h: int
    last_7d: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """One line of an account's statement; a deduction's `amount` is negative."""

    id: int
    type: Literal["purchase", "deduction", "refund", "bonus"]
    amount: int
    balance_after: int
    description: str
    endpoint: str | None
    platform: str | None
    request_id: str | None
    key_id: str | None
    created_at: float


class Ledger:
    """Reads of the ledger."""

    def __init__(self, store: Store, *, now: Callable[[], float]) -> None:
        """`now` gives Unix seconds."""
        self._store = store
        self._now = now

    async def report(self, account_id: str) -> BalanceReport:
        """The account's balance. Raises AccountUnknown."""
        return await self._store.read(partial(_report, account_id, self._now()))

    async def transactions(
        self, account_id: str, *, limit: int, before: int | None = None, request_id: str | None = None
    ) -> list[Transaction]:
        """Up to `limit` lines, newest first, older than the line `before`, of one request if one is named.

        How a charge was settled is no line of its own: the deduction has said it already.
        """
        if request_id is not None and "\0" in request_id:  # which not every store takes, and no request is called
            await trio.lowlevel.checkpoint()
            return []
        tail: tuple[Value, ...] = (account_id, NEWEST if before is None else before, limit)
        sql, params = (PAGE, tail) if request_id is None else (PAGE_OF_REQUEST, (request_id, *tail))
        return await self._store.read(lambda tx: [_transaction(row) for row in tx.all(sql, params)])


def _report(account_id: str, now: float, tx: Tx) -> BalanceReport:
    account = read_account(tx, account_id)
    week, day = tx.all(SPENT_SINCE, (now - DAY_S, account_id, now - 7 * DAY_S))[0]
    return BalanceReport(account.balance, account.held, day + account.held, week + account.held)


def _transaction(row: Row) -> Transaction:
    id_, kind, amount, *rest = row
    return Transaction(id_, kind, -amount if kind == "deduction" else amount, *rest)
