"""Removes events older than the retention, in whole days, and the logs of deleted accounts (spec 8, decisions 13).

One small write moves a log's first position, which immediately hides everything before it. The rows are deleted later
in chunks with pauses, so that neither readers nor the writer wait. Any number of nodes may sweep at the same time. If a
sweep is interrupted, the next one continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from events.log.log import feed_lock
from storage.store import Store, Tx

DAY_S: Final = 86_400.0
FEEDS_A_READ: Final = 200
CHUNK: Final = 500
PAUSE_S: Final = 0.05

FIND_DUE: Final = """
SELECT account_id, first_pos, last_pos, purged_pos FROM feeds
WHERE account_id > ? AND ((first_at < ? AND first_pos <= last_pos) OR purged_pos < first_pos - 1)
ORDER BY account_id LIMIT ?
"""
READ_AT: Final = "SELECT created_at FROM events WHERE account_id = ? AND pos = ?"
# If all events are old, `first_at` is the time of an event appended in the meantime, or else of the last event.
JUMP: Final = """
UPDATE feeds SET first_pos = ?, first_at = COALESCE(
    (SELECT created_at FROM events WHERE events.account_id = feeds.account_id AND events.pos = ?), last_at)
WHERE account_id = ? AND first_pos < ?
"""
PURGE: Final = "DELETE FROM events WHERE account_id = ? AND pos > ? AND pos <= ?"
READ_ENDS: Final = "SELECT last_pos, purged_pos FROM feeds WHERE account_id = ?"
FORGET: Final = "DELETE FROM feeds WHERE account_id = ? AND purged_pos = last_pos"
PURGED: Final = "UPDATE feeds SET purged_pos = ? WHERE account_id = ? AND purged_pos < ?"


class DueRemoval(NamedTuple):
    """A log with rows to remove.

    The rows are after `purged_pos` and before `keep_from`, which becomes the log's first position.
    """

    account_id: str
    first_pos: int
    keep_from: int
    purged_pos: int


def cutoff(now: float, days: int) -> float:
    """Return the midnight (UTC) before which events are removed: `days` whole days are kept besides the current one."""
    return now // DAY_S * DAY_S - days * DAY_S


async def sweep(store: Store, now: float, days: int, *, chunk: int = CHUNK, pause_s: float = PAUSE_S) -> int:
    """Remove events older than `days` from all logs, up to `chunk` rows per write. Return how many."""
    before, after, removed = cutoff(now, days), "", 0
    while dues := await store.read(partial(_find_due, after, before)):
        for due in dues:
            if due.keep_from > due.first_pos:
                await store.write(partial(jump, due.account_id, due.keep_from))
            for start in range(due.purged_pos, due.keep_from - 1, chunk):
                end = min(start + chunk, due.keep_from - 1)
                removed += await store.write(partial(purge, due.account_id, start, end))
                await trio.sleep(pause_s)
        after = dues[-1].account_id
    return removed


async def clear(store: Store, account_id: str, *, chunk: int = CHUNK, pause_s: float = PAUSE_S) -> None:
    """Remove an account's whole log in the same way as `sweep`, and then the row in `feeds`."""
    while (ends := await store.read(lambda tx: tx.one(READ_ENDS, (account_id,)))) is not None:
        last_pos, purged_pos = ends
        await store.write(partial(jump, account_id, last_pos + 1))
        for start in range(purged_pos, last_pos, chunk):
            await store.write(partial(purge, account_id, start, min(start + chunk, last_pos)))
            await trio.sleep(pause_s)
        if await store.write(partial(_forget, account_id)):
            return


def _forget(account_id: str, tx: Tx) -> bool:
    """Delete the row in `feeds`. Return False if an event was appended in the meantime."""
    tx.lock([feed_lock(account_id)])
    return tx.run(FORGET, (account_id,)) == 1


def jump(account_id: str, first_pos: int, tx: Tx) -> None:
    """Move the log's first position forward to `first_pos`, unless it is already later."""
    tx.lock([feed_lock(account_id)])
    tx.run(JUMP, (first_pos, first_pos, account_id, first_pos))


def purge(account_id: str, after: int, upto: int, tx: Tx) -> int:
    """Delete rows that readers no longer see. Return how many."""
    removed = tx.run(PURGE, (account_id, after, upto))
    tx.run(PURGED, (upto, account_id, upto))
    return removed


def _find_due(after: str, before: float, tx: Tx) -> Sequence[DueRemoval]:
    return [
        DueRemoval(account_id, first_pos, _first_kept(tx, account_id, first_pos, last_pos, before=before), purged_pos)
        for account_id, first_pos, last_pos, purged_pos in tx.all(FIND_DUE, (after, before, FEEDS_A_READ))
    ]


def _first_kept(tx: Tx, account_id: str, first_pos: int, last_pos: int, *, before: float) -> int:
    """Return the position of the first event from `first_pos` on that was not created before `before`.

    If there is none, return the position after the last event.

    Times never decrease along a log, so bisection finds the position.
    """
    low, high = first_pos, last_pos + 1
    while low < high:
        middle = (low + high) // 2
        row = tx.one(READ_AT, (account_id, middle))
        assert row is not None, "a log has no holes"
        low, high = (middle + 1, high) if row[0] < before else (low, middle)
    return low
