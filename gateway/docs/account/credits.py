"""The account's money, for its readers (decisions 4)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, told
from gateway.http.routing import RouteDoc


class RecentDeductions(TypedDict):
    """Credits that were spent of late."""

    last_24h: Annotated[int, told("In the last 24 hours.", 12)]
    last_7d: Annotated[int, told("In the last seven days.", 80)]


class BalanceData(TypedDict):
    """The account's credits."""

    balance: Annotated[int, told("Credits that can be spent.", 999)]
    held: Annotated[int, told("Credits that calls on their way have reserved.", 0)]
    recent_deductions: RecentDeductions


class TransactionItem(TypedDict):
    """One entry of the account's statement."""

    id: Annotated[str, told("The entry.", "txn_42")]
    type: Literal["purchase", "deduction", "refund", "bonus"]
    amount: Annotated[int, told("Credits; a deduction is negative.", -1)]
    balance_after: Annotated[int, told("The balance behind it.", 999)]
    description: Annotated[str | None, told("One line on it.", "github/profile")]
    endpoint: Annotated[str | None, told("The path that was called.", "/v1/github/profile")]
    platform: Annotated[str | None, told("The platform that was called.", "github")]
    request_id: Annotated[str | None, told("The request that it belongs to.", "req_01a1fd6f28fd7bba92988ba98f5dc154")]
    key_id: Annotated[str | None, told("The key that was used.", "key_01a1ff6d81bd7442a2cbf7b8f1d3ab3c")]
    created_at: Instant


class TransactionsData(TypedDict):
    """A page of the statement."""

    items: list[TransactionItem]


BALANCE: Final = RouteDoc("get_balance", "The account's balance, held credits and latest deductions.", BalanceData)
TRANSACTIONS: Final = RouteDoc("list_transactions", "The account's statement, newest first.", TransactionsData)
