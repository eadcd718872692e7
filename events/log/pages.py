"""Reads the account's log in a reader's transaction: where it begins and ends, and its pages.

A page scans at most `SCAN_MAX` positions, so that a read is bounded whatever its filters are. A page that reaches this
bound is cut short, and the next page begins where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from events.errors import CursorAhead, CursorExpired
from events.filters import Filters
from events.positions import EMPTY, LogHead, Position
from storage.store import Tx, Value

SCAN_MAX: Final = 10_000
COUNT_STEP: Final = 200_000
"""The maximum number of positions that one statement counts. A server aborts statements that take too long."""
_COUNTS_AT_ONCE: Final = 100

READ_HEAD = "SELECT first_pos, first_at, last_pos, last_at FROM feeds WHERE account_id = ?"
READ_HEADS = "SELECT account_id, first_pos, first_at, last_pos, last_at FROM feeds WHERE account_id IN {in}"
READ_AT = "SELECT created_at FROM events WHERE account_id = ? AND pos = ?"
FIND = """
SELECT pos, created_at FROM events WHERE id = ? AND account_id = ? AND (key_id IS NULL OR key_id = ?) AND pos >= ?
"""
OF_OWNER = "account_id = ? AND pos > ? AND pos <= ?"
VISIBLE = f"{OF_OWNER} AND (key_id IS NULL OR key_id = ?)"


class Item(NamedTuple):
    """An event: its JSON object, without the cursor."""

    pos: int
    at: float
    body: bytes


class PageQuery(NamedTuple):
    """A read of up to `limit` events after the position `after`, and not beyond `upto`.

    A key sees its own events and events without a key. Without a key id, the account's owner sees all events.
    """

    account_id: str
    key_id: str | None
    after: int
    limit: int
    filters: Filters
    upto: int | None = None


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in order, and the position after which the next page begins.

    If not `has_more`, that position is the end of the log.
    """

    items: tuple[Item, ...]
    end: Position
    has_more: bool
    head: LogHead


def read_head(tx: Tx, account_id: str) -> LogHead:
    """Return where the account's log begins and ends."""
    row = tx.one(READ_HEAD, (account_id,))
    return EMPTY if row is None else LogHead(*row)


def read_heads(tx: Tx, account_ids: Sequence[str]) -> dict[str, LogHead]:
    """Return the heads of the accounts' logs that have begun."""
    return {row[0]: LogHead(*row[1:]) for row in tx.all_in(READ_HEADS, account_ids)}


def check_kept(head: LogHead, after: int) -> None:
    """Check that the log can be read after the position `after`.

    Raises:
        CursorExpired: events after the position were removed.
        CursorAhead: the position is beyond the end.
    """
    if after < head.first_pos - 1:
        raise CursorExpired(head)
    if after > head.last_pos:
        raise CursorAhead(head)


def read_page(tx: Tx, query: PageQuery, *, scan_max: int = SCAN_MAX) -> EventPage:
    """Return one page.

    Raises:
        CursorExpired: events after the position were removed.
        CursorAhead: the position is beyond the end.
    """
    head = read_head(tx, query.account_id)
    check_kept(head, query.after)
    last = head.last_pos if query.upto is None else min(query.upto, head.last_pos)
    bound = max(query.after, min(query.after + scan_max, last))
    where, params = _matching(query.account_id, query.key_id, query.filters, after=query.after, upto=bound)
    sql = f"SELECT pos, created_at, body FROM events WHERE {where} ORDER BY pos LIMIT ?"  # noqa: S608 - constants
    # One extra row shows whether the page is cut short.
    rows = tx.all(sql, (*params, query.limit + 1)) if bound > query.after else []
    items = tuple([Item(pos, at, body.encode()) for pos, at, body in rows[: query.limit]])
    is_cut = len(rows) > query.limit
    end = Position(items[-1].pos, items[-1].at) if is_cut else _position(tx, query.account_id, bound, head)
    return EventPage(items, end, end.pos < head.last_pos, head)


def find_event(tx: Tx, account_id: str, key_id: str, event_id: str) -> Position | None:
    """Return the position right after an event, or None if no kept event with this id is visible to the key."""
    if "\0" in event_id:  # PostgreSQL rejects text with a NUL, and no id has one
        return None
    first_pos = read_head(tx, account_id).first_pos
    row = tx.one(FIND, (event_id, account_id, key_id, first_pos))
    return None if row is None else Position(*row)


class CountQuery(NamedTuple):
    """The events after `after`, up to `upto`, that a key sees and `filters` select."""

    account_id: str
    key_id: str
    filters: Filters
    after: int
    upto: int


def count_many(tx: Tx, queries: Sequence[CountQuery]) -> list[int]:
    """Return the number of events for each query. No statement counts more than `COUNT_STEP` positions."""
    totals = [0] * len(queries)
    parts: list[str] = []
    params: list[Value] = []
    left = COUNT_STEP
    for place, query in enumerate(queries):
        start = query.after
        while start < query.upto:
            end = min(start + left, query.upto)
            where, more = _matching(query.account_id, query.key_id, query.filters, after=start, upto=end)
            parts.append(f"SELECT {place}, COUNT(*) FROM events WHERE {where}")  # noqa: S608 - constants and a number
            params += more
            start, left = end, left - (end - start)
            if not left or len(parts) == _COUNTS_AT_ONCE:
                _add_counts(tx, totals, parts, params)
                parts, params, left = [], [], COUNT_STEP
    if parts:
        _add_counts(tx, totals, parts, params)
    return totals


def _add_counts(tx: Tx, totals: list[int], parts: list[str], params: list[Value]) -> None:
    for place, found in tx.all(" UNION ALL ".join(parts), params):
        totals[place] += found


def count(tx: Tx, account_id: str, key_id: str, filters: Filters, *, after: int, upto: int) -> int:
    """Return how many events after `after`, up to `upto`, the key sees and the filters select."""
    total = 0
    for start in range(after, upto, COUNT_STEP):
        end = min(start + COUNT_STEP, upto)
        where, params = _matching(account_id, key_id, filters, after=start, upto=end)
        row = tx.one(f"SELECT COUNT(*) FROM events WHERE {where}", params)  # noqa: S608 - constants
        assert row is not None
        total += row[0]
    return total


def _position(tx: Tx, account_id: str, pos: int, head: LogHead) -> Position:
    if pos == head.last_pos:
        return head.end
    if pos < head.first_pos:
        return head.start
    row = tx.one(READ_AT, (account_id, pos))
    assert row is not None, "a log has no holes"
    return Position(pos, row[0])


def _matching(
    account_id: str, key_id: str | None, filters: Filters, *, after: int, upto: int
) -> tuple[str, list[Value]]:
    """Return the SQL condition of a read, and its parameters."""
    where = VISIBLE if key_id is not None else OF_OWNER
    params: list[Value] = [account_id, after, upto, *(() if key_id is None else (key_id,))]
    if filters.types is not None:
        types = _padded(sorted(filters.types))
        where += f" AND type IN ({_marks(types)})"
        params += types
    if filters.subjects is not None:
        subjects = _padded(sorted(filters.subjects))
        where += f" AND (subject_id IN ({_marks(subjects)}) OR parent_id IN ({_marks(subjects)}))"
        params += subjects * 2
    return where, params


def _padded(names: list[str]) -> list[str]:
    """Return the names, with the last one repeated until the length is a power of two.

    This keeps the number of prepared statements small. An empty list becomes one empty name, which selects nothing,
    because no stored name is empty.
    """
    names = names or [""]
    size = 1 << (len(names) - 1).bit_length()
    return names + names[-1:] * (size - len(names))


def _marks(names: Sequence[str]) -> str:
    return ", ".join("?" * len(names))
