"""Reads the balance and the transactions for an account's owner (decisions 4).

A line of the statement is a posting of a journal row or of an open charge: deduction, refund, purchase or bonus. Its id
is its place in the account's order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, Literal, NamedTuple

import trio

from billing.accounts.accounts import read_account
from billing.journal import BONUS, HOUR_MICROS, PURCHASE, identify, micros, request_text
from storage.store import Row, Store, Tx

DAY_HOURS: Final = 24
WEEK_HOURS: Final = 168

# What was settled is deductions less their refunds; what is still held comes on top.
SPENT_SINCE = """
SELECT COALESCE(SUM(credits), 0), COALESCE(SUM(CASE WHEN hour >= ? THEN credits ELSE 0 END), 0)
FROM usage WHERE account = (SELECT number FROM accounts WHERE id = ?) AND hour >= ?
"""
_POSTED = """
SELECT journal.kind, journal.id, taken, refunded, issued, taken_at, taken_at + closed_after, balance_after,
       balance_closed, place, refund_place, issued_place, notes.text, endpoints.path, endpoints.platform, keys.id
FROM journal LEFT JOIN notes ON notes.id = journal.note LEFT JOIN endpoints ON endpoints.id = journal.endpoint
LEFT JOIN keys ON keys.number = journal.key
WHERE journal.account = (SELECT number FROM accounts WHERE id = ?)
"""
# One page by the index of each kind of posting.
PAGES = tuple(
    f"{_POSTED} AND journal.{place} < ? ORDER BY journal.{place} DESC LIMIT ?"
    for place in ("place", "refund_place", "issued_place")
)
OF_REQUEST = f"{_POSTED} AND journal.id = ?"
OPEN = """
SELECT request_id, credits, issued, taken_at, balance_after, charges.place, issued_place, endpoints.path,
       endpoints.platform, key_id
FROM charges JOIN endpoints ON endpoints.id = charges.endpoint WHERE account_id = ?
"""
OPEN_OF_REQUEST = f"{OPEN} AND request_id = ?"
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
        """The account's balance, and what was spent lately, by whole hours. Raises AccountUnknown."""
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
        newest = NEWEST if before is None else before
        if request_id is None:
            return await self._store.read(partial(_page, account_id, newest, limit))
        return await self._store.read(partial(_page_of_request, account_id, request_id, newest, limit))


def _report(account_id: str, now: float, tx: Tx) -> BalanceReport:
    account = read_account(tx, account_id)
    hour = micros(now) // HOUR_MICROS
    week, day = tx.all(SPENT_SINCE, (hour - DAY_HOURS, account_id, hour - WEEK_HOURS))[0]
    return BalanceReport(account.balance, account.held, day + account.held, week + account.held)


def _page(account_id: str, newest: int, limit: int, tx: Tx) -> list[Transaction]:
    rows = {row[1]: row for sql in PAGES for row in tx.all(sql, (account_id, newest, limit))}
    return _newest(list(rows.values()), tx.all(OPEN, (account_id,)), newest, limit)


def _page_of_request(account_id: str, request_id: str, newest: int, limit: int, tx: Tx) -> list[Transaction]:
    closed = tx.all(OF_REQUEST, (account_id, identify(request_id)[1]))
    return _newest(closed, tx.all(OPEN_OF_REQUEST, (account_id, request_id)), newest, limit)


def _newest(closed: list[Row], open_: list[Row], newest: int, limit: int) -> list[Transaction]:
    lines = [line for line in chain(_lines(closed), _open_lines(open_)) if line.id < newest]
    lines.sort(key=lambda line: -line.id)
    return lines[:limit]


def _lines(rows: list[Row]) -> Iterator[Transaction]:
    for row in rows:
        kind, id_, taken, refunded, issued, taken_at, closed_at, after, closed, place, refund_place, issued_place = row[
            :12
        ]
        note, path, platform, key_id = row[12:]
        if kind in (PURCHASE, BONUS):
            type_: Literal["purchase", "bonus"] = "purchase" if kind == PURCHASE else "bonus"
            yield Transaction(place, type_, issued, after, note, None, None, None, None, taken_at / 1e6)
            continue
        call = _Call(path, platform, request_text(kind, id_) or "", key_id)
        yield from _taking_lines(_Taking(taken, issued, taken_at, after, place, issued_place), call)
        if refund_place is not None:
            yield Transaction(refund_place, "refund", refunded, closed, note, *call, closed_at / 1e6)


class _Call(NamedTuple):
    """The call that a charge was for."""

    path: str
    platform: str
    request_id: str
    key_id: str | None


class _Taking(NamedTuple):
    """How the credits of a charge were taken."""

    taken: int
    issued: int
    taken_at: int
    balance_after: int
    place: int
    issued_place: int | None


def _open_lines(rows: list[Row]) -> Iterator[Transaction]:
    for request_id, *taking, path, platform, key_id in rows:
        yield from _taking_lines(_Taking(*taking), _Call(path, platform, request_id, key_id))


def _taking_lines(taking: _Taking, call: _Call) -> Iterator[Transaction]:
    """The deduction, and the bonus that an unlimited account was given for it."""
    after, at = taking.balance_after, taking.taken_at / 1e6
    yield Transaction(taking.place, "deduction", -taking.taken, after, call.path, *call, at)
    if taking.issued_place is not None:
        covered = (taking.issued, after + taking.taken, "Unlimited plan", None, None, call.request_id, None, at)
        yield Transaction(taking.issued_place, "bonus", *covered)
