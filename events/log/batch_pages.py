"""Reads pages for many readers together. Most readers that are woken for an account want the same few newest events.

A reader thread releases the interpreter lock with each statement and row, and must then compete with a busy event loop
to get the lock back. When all polls of a node wake, reading their pages one by one costs more than all other work for
their answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from events.filters import AppendedEvent
from events.log.pages import EventPage, Item, PageQuery, read_heads, read_page
from events.positions import EMPTY, LogHead
from storage.store import Tx

NEAR: Final = 50
"""A position is near if at most this many positions follow it."""
READ_MOVES: Final = """
SELECT pos, created_at, body, type, key_id, subject_id, parent_id FROM events
WHERE account_id = ? AND pos > ? AND pos <= ? ORDER BY pos
"""

Found = EventPage | Exception
_Appended = list[tuple[Item, AppendedEvent]]


def read_pages(tx: Tx, queries: Sequence[PageQuery]) -> dict[PageQuery, Found]:
    """Return the page or exception of `read_page` for each query, all on one snapshot.

    Queries of one account that match the same events share one page, so that its text is built only once.
    """
    if len(queries) == 1:
        return {queries[0]: _read_one(tx, queries[0])}
    of_accounts: defaultdict[str, list[PageQuery]] = defaultdict(list)
    for query in queries:
        of_accounts[query.account_id].append(query)
    heads = read_heads(tx, sorted(of_accounts))
    found: dict[PageQuery, Found] = {}
    for account_id, of_account in of_accounts.items():
        head = heads.get(account_id, EMPTY)
        near = [query for query in of_account if _is_near(query, head)]
        if near:
            appended = _read_appended(tx, account_id, min(query.after for query in near), head)
            pages: dict[tuple[Item, ...], EventPage] = {}
            for query in near:
                items = _items_for(query, appended)
                found[query] = pages.get(items) or pages.setdefault(
                    items, EventPage(items, head.end, has_more=False, head=head)
                )
        found.update({query: _read_one(tx, query) for query in of_account if query not in found})
    return found


def _is_near(query: PageQuery, head: LogHead) -> bool:
    """Return whether few events follow the query's position, and all of them fit on its page."""
    left = head.last_pos - query.after
    of_key = query.key_id is not None
    return of_key and query.upto is None and query.after >= head.first_pos - 1 and 0 <= left <= min(NEAR, query.limit)


def _read_appended(tx: Tx, account_id: str, after: int, head: LogHead) -> _Appended:
    if after == head.last_pos:
        return []
    rows = tx.all(READ_MOVES, (account_id, after, head.last_pos))
    return [
        (Item(pos, at, body.encode()), AppendedEvent(account_id, pos, *columns)) for pos, at, body, *columns in rows
    ]


def _items_for(query: PageQuery, appended: _Appended) -> tuple[Item, ...]:
    return tuple(
        [
            item
            for item, event in appended
            if item.pos > query.after and event.key_id in (None, query.key_id) and query.filters.admit(event)
        ]
    )


def _read_one(tx: Tx, query: PageQuery) -> Found:
    try:
        return read_page(tx, query)
    except Exception as exc:  # noqa: BLE001 - the error of one page must not affect the others
        return exc
