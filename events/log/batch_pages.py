"""Pages for many readers at once. Who was woken wants the last few events of its account, as do those beside it.

A reader's thread hands the interpreter's lock over and back with each statement and row, and waits for it beside a busy
loop. Pages that are read one by one cost a node more, when all its polls wake, than the rest of their answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from events.filters import Moved
from events.log.pages import EventPage, Item, PageQuery, read_heads, read_page
from events.positions import EMPTY, LogHead
from storage.store import Tx

NEAR: Final = 50
"""How many positions from the end is near."""
READ_NEWS: Final = """
SELECT pos, created_at, body, type, key_id, subject_id, parent_id FROM events
WHERE account_id = ? AND pos > ? AND pos <= ? ORDER BY pos
"""

Found = EventPage | Exception
_News = list[tuple[Item, Moved]]


def read_pages(tx: Tx, asks: Sequence[PageQuery]) -> dict[PageQuery, Found]:
    """What `read_page` gives or raises for each, all on one snapshot. Asks of one account that find the same news get
    one page, so that its text has to be made only once.
    """
    if len(asks) == 1:
        return {asks[0]: _read_one(tx, asks[0])}
    of_accounts: defaultdict[str, list[PageQuery]] = defaultdict(list)
    for ask in asks:
        of_accounts[ask.account_id].append(ask)
    heads = read_heads(tx, sorted(of_accounts))
    found: dict[PageQuery, Found] = {}
    for account_id, of_account in of_accounts.items():
        head = heads.get(account_id, EMPTY)
        near = [ask for ask in of_account if _is_near(ask, head)]
        if near:
            news = _read_news(tx, account_id, min(ask.after for ask in near), head)
            pages: dict[tuple[Item, ...], EventPage] = {}
            for ask in near:
                items = _items_for(ask, news)
                found[ask] = pages.get(items) or pages.setdefault(
                    items, EventPage(items, head.end, has_more=False, head=head)
                )
        found.update({ask: _read_one(tx, ask) for ask in of_account if ask not in found})
    return found


def _is_near(ask: PageQuery, head: LogHead) -> bool:
    """Whether all that comes after it is little, and fits on its page."""
    left = head.last_pos - ask.after
    return ask.upto is None and ask.after >= head.first_pos - 1 and 0 <= left <= min(NEAR, ask.limit)


def _read_news(tx: Tx, account_id: str, after: int, head: LogHead) -> _News:
    if after == head.last_pos:
        return []
    rows = tx.all(READ_NEWS, (account_id, after, head.last_pos))
    return [(Item(pos, at, body.encode()), Moved(account_id, pos, *told)) for pos, at, body, *told in rows]


def _items_for(ask: PageQuery, news: _News) -> tuple[Item, ...]:
    return tuple(
        [
            item
            for item, moved in news
            if item.pos > ask.after and moved.key_id in (None, ask.key_id) and ask.filters.admit(moved)
        ]
    )


def _read_one(tx: Tx, ask: PageQuery) -> Found:
    try:
        return read_page(tx, ask)
    except Exception as exc:  # noqa: BLE001 - one page's error is its own, whatever it is
        return exc
