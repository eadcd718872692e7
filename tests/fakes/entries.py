"""The ledger's entries, one per posting and one per settlement, read directly from either engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from billing.journal import BONUS, PURCHASE, request_text

CLOSED = """
SELECT accounts.id, journal.kind, journal.id, taken, refunded, issued, balance_after, balance_closed, journal.place,
       refund_place, issued_place, notes.text, keys.id, endpoints.path
FROM journal JOIN accounts ON accounts.number = journal.account LEFT JOIN keys ON keys.number = journal.key
LEFT JOIN notes ON notes.id = journal.note LEFT JOIN endpoints ON endpoints.id = journal.endpoint
"""
OPEN = """
SELECT accounts.id, kind, charges.id, credits, issued, balance_after, charges.place, issued_place, keys.id,
       endpoints.path
FROM charges JOIN endpoints ON endpoints.id = charges.endpoint JOIN accounts ON accounts.number = charges.account
LEFT JOIN keys ON keys.number = charges.key
"""


class EntryRow(NamedTuple):
    """An entry.

    `id` is its position in the account's order; a settlement has the same id as the posting that it closes.
    """

    id: int
    account: str
    kind: str
    amount: int
    balance_after: int
    request_id: str | None
    key: str | None
    description: str


def read_entries(run: Callable[[str], Iterable[Sequence[Any]]]) -> list[EntryRow]:
    """Return every entry, ordered by account and position. `run` executes a statement and returns its rows."""
    entries = [entry for row in run(CLOSED) for entry in _closed(*row)]
    for account, kind, id_, taken, issued, after, place, issued_place, key, path in run(OPEN):
        request_id = request_text(kind, bytes(id_)) or ""
        entries += _taking(account, request_id, taken, issued, after, place, issued_place, key, path)
    rank = {"settlement": 1, "refund": 2}
    return sorted(entries, key=lambda entry: (entry.account, entry.id, rank.get(entry.kind, 0)))


def nets(entries: Iterable[EntryRow]) -> dict[str, int]:
    """Return the cost of each request so far."""
    ways = {"deduction": 1, "refund": -1}
    found: dict[str, int] = {}
    for entry in entries:
        if entry.request_id is not None:
            found[entry.request_id] = found.get(entry.request_id, 0) + ways.get(entry.kind, 0) * entry.amount
    return found


def _closed(
    account: str,
    kind: int,
    id_: bytes,
    taken: int,
    refunded: int,
    issued: int,
    after: int,
    closed: int,
    place: int,
    refund_place: int | None,
    issued_place: int | None,
    note: str | None,
    key: str | None,
    path: str | None,
) -> list[EntryRow]:
    if kind in (PURCHASE, BONUS):
        name = "purchase" if kind == PURCHASE else "bonus"
        return [EntryRow(place, account, name, issued, after, None, None, note or "")]
    request_id = request_text(kind, bytes(id_))
    assert request_id is not None
    found = _taking(account, request_id, taken, issued, after, place, issued_place, key, path or "")
    if taken > refunded or not taken:
        settled_at = refund_place or place
        spent, before = taken - refunded, closed - refunded
        found.append(EntryRow(settled_at, account, "settlement", spent, before, request_id, key, "Settlement"))
    if refund_place is not None:
        found.append(EntryRow(refund_place, account, "refund", refunded, closed, request_id, key, note or ""))
    return found


def _taking(
    account: str,
    request_id: str,
    taken: int,
    issued: int,
    after: int,
    place: int,
    issued_place: int | None,
    key: str | None,
    path: str,
) -> list[EntryRow]:
    found = [EntryRow(place, account, "deduction", taken, after, request_id, key, path)]
    if issued_place is not None:
        bonus = EntryRow(issued_place, account, "bonus", issued, after + taken, request_id, None, "Unlimited plan")
        found.append(bonus)
    return found
