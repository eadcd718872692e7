"""Reference texts for the account's balance and statement (decisions 4)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, meaning, shown
from gateway.http.routing import RouteDoc


class RecentDeductions(TypedDict):
    """Credits spent recently."""

    last_24h: Annotated[int, meaning("Credits spent in the last 24 hours.", 12)]
    last_7d: Annotated[int, meaning("Credits spent in the last seven days.", 80)]


class BalanceData(TypedDict):
    """The account's credits."""

    balance: Annotated[int, meaning("Credits available to spend.", 999)]
    held: Annotated[int, meaning("Credits reserved by calls in progress.", 0)]
    recent_deductions: RecentDeductions


class TransactionItem(TypedDict):
    """One entry of the account's statement."""

    id: Annotated[str, meaning("The entry's id. For a daily sum, it contains the day.", "txn_42")]
    type: Annotated[Literal["purchase", "deduction", "refund", "bonus"], shown("deduction")]
    amount: Annotated[int, meaning("Credits; a deduction is negative.", -1)]
    balance_after: Annotated[int | None, meaning("The balance after this entry; null for a daily sum.", 999)]
    description: Annotated[str | None, meaning("A one-line description.", "github/profile")]
    endpoint: Annotated[str | None, meaning("The path that was called.", "/v1/github/profile")]
    platform: Annotated[str | None, meaning("The platform that was called.", "github")]
    request_id: Annotated[str | None, meaning("The request that caused the entry.", "req_01a1fd6f28fd7bba92988ba9")]
    key_id: Annotated[str | None, meaning("The key that was used.", "key_01a1ff6d81bd7442a2cbf7b8f1d3ab3c")]
    created_at: Instant
    source: Annotated[
        Literal["journal", "archive", "usage"],
        meaning("Where the entry was read. `usage` is a daily sum, used when archived entries cannot be read."),
    ]


class TransactionsData(TypedDict):
    """A page of the statement."""

    items: list[TransactionItem]
    _warnings: NotRequired[list[str]]


BALANCE: Final = RouteDoc("get_balance", "The account's balance, reserved credits and latest deductions.", BalanceData)
TRANSACTIONS: Final = RouteDoc("list_transactions", "The account's statement, newest first.", TransactionsData)
