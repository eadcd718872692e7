"""Converts journal rows and open charges into statement lines (decisions 4)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from billing.journal import BONUS, PURCHASE, request_text
from storage.store import Row

Source: TypeAlias = Literal["journal", "archive", "usage"]


@dataclass(frozen=True, slots=True)
class Transaction:
    """One line of an account's statement; a deduction's `amount` is negative."""

    id: int | str
    """The place in the account's order. For a sum, its day and number."""
    type: Literal["purchase", "deduction", "refund", "bonus"]
    amount: int
    balance_after: int | None
    """The balance after this line. None for a sum."""
    description: str
    endpoint: str | None
    platform: str | None
    request_id: str | None
    key_id: str | None
    created_at: float
    source: Source = "journal"
    """The source of the line. If a day's lines can no longer be read, sums from `usage` replace them."""


class _Call(NamedTuple):
    """The endpoint and the key of a call that was charged."""

    path: str
    platform: str
    request_id: str
    key_id: str | None


class _Taking(NamedTuple):
    """The columns of a charge that describe its deduction."""

    taken: int
    issued: int
    taken_at: int
    balance_after: int
    place: int
    issued_place: int | None


def place_of(line: Transaction) -> int:
    """Return the place of a line that is not a sum."""
    assert isinstance(line.id, int)
    return line.id


def closed_lines(rows: Iterable[Row], source: Source = "journal") -> Iterator[Transaction]:
    """Yield the statement lines of journal rows.

    Columns: kind, id, amounts, timestamps, balances, places, note, endpoint, key.
    """
    for row in rows:
        kind, id_, taken, refunded, issued, taken_at, closed_at, after, closed = row[:9]
        place, refund_place, issued_place, note, path, platform, key_id = row[9:]
        if kind in (PURCHASE, BONUS):
            type_: Literal["purchase", "bonus"] = "purchase" if kind == PURCHASE else "bonus"
            yield Transaction(place, type_, issued, after, note, None, None, None, None, taken_at / 1e6, source)
            continue
        call = _Call(path, platform, request_text(kind, id_) or "", key_id)
        yield from _taking_lines(_Taking(taken, issued, taken_at, after, place, issued_place), call, source)
        if refund_place is not None:
            yield Transaction(refund_place, "refund", refunded, closed, note, *call, closed_at / 1e6, source)


def open_lines(rows: Iterable[Row]) -> Iterator[Transaction]:
    """Yield the statement lines of open charges.

    Columns: kind, id, amounts, timestamp, balance, places, endpoint, key.
    """
    for kind, id_, *taking, path, platform, key_id in rows:
        call = _Call(path, platform, request_text(kind, id_) or "", key_id)
        yield from _taking_lines(_Taking(*taking), call, "journal")


def newest_of(lines: Iterable[Transaction], newest: int, limit: int) -> list[Transaction]:
    """Return the lines below the place `newest`, newest first."""
    found = [line for line in lines if place_of(line) < newest]
    found.sort(key=place_of, reverse=True)
    return found[:limit]


def _taking_lines(taking: _Taking, call: _Call, source: Source) -> Iterator[Transaction]:
    """Yield the line for the deduction, and a line for the bonus if an unlimited account received one for it."""
    after, at = taking.balance_after, taking.taken_at / 1e6
    yield Transaction(taking.place, "deduction", -taking.taken, after, call.path, *call, at, source)
    if taking.issued_place is not None:
        covered = (taking.issued, after + taking.taken, "Unlimited plan", None, None, call.request_id, None, at)
        yield Transaction(taking.issued_place, "bonus", *covered, source)
