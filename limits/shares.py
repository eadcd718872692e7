"""The maximum that an account may store for its idempotency keys, and how the excess is removed.

Above the maximum, the oldest replies are removed first. Their claims remain and are refused as `ReplayUnavailable`, so
that a client never pays twice. Claims whose outcome cost nothing are limited too: the oldest are removed completely, so
a repeated request runs again and is charged for the first time. Claims that were paid for are always kept for a day.

Requests do not check how much their account stores. A node adds up what it has stored for each account, and checks the
account when the sum reaches a fraction of its share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import trio

from limits.idempotency import StoredReply
from limits.stored_replies import ROW_BYTES
from storage.store import Row, Store, Tx

PAUSE_S: Final = 0.05
CHECKS_PER_SHARE: Final = 16
ACCOUNTS_MAX: Final = 100_000
"""The maximum number of accounts whose stored bytes are added up. Beyond it, the oldest account is checked early."""

COUNT_BYTES = "SELECT COALESCE(SUM(bytes), 0) FROM replies WHERE account_id = ?"
COUNT_FREE = "SELECT COUNT(*) FROM claims WHERE account_id = ? AND free = 1"
OLDEST_REPLIES = "SELECT id, kept_at, bytes FROM replies WHERE account_id = ? ORDER BY kept_at, id LIMIT ?"
OLDEST_FREE = "SELECT id, at, 1 FROM claims WHERE account_id = ? AND free = 1 ORDER BY at, id LIMIT ?"
# The time condition keeps a row that was used again in the meantime, because it is no longer among the oldest.
DROP_REPLIES = "DELETE FROM replies WHERE kept_at <= ? AND id IN {in}"
DROP_FREE = "DELETE FROM claims WHERE free = 1 AND at <= ? AND id IN {in}"


@dataclass(frozen=True, slots=True)
class StoredShare:
    """The maximum that an account may store: bytes of replies (plus `ROW_BYTES` each), and keys that cost nothing."""

    bytes: int = 64 * 1024 * 1024
    free_keys: int = 100_000


class Trimmed(NamedTuple):
    """The numbers of replies and free keys that were removed from an account."""

    replies: int
    free_keys: int


class _Kind(NamedTuple):
    """The statements that count one kind of row, find the oldest rows (id, time, weight), and delete them."""

    total: str
    oldest: str
    drop: str
    at_once: int


# Fewer replies per write, because they are large and freeing their pages takes time.
REPLIES: Final = _Kind(COUNT_BYTES, OLDEST_REPLIES, DROP_REPLIES, 50)
FREE_KEYS: Final = _Kind(COUNT_FREE, OLDEST_FREE, DROP_FREE, 200)


class Shares:
    """Finds the accounts that this node may have filled beyond their share, and trims them."""

    def __init__(self, share: StoredShare | None = None) -> None:
        """`share` applies to each account; None means the default."""
        self._share = share or StoredShare()
        self._put: dict[str, int] = {}
        self._due: dict[str, None] = {}
        self._is_due = trio.Event()

    def put(self, account_id: str, kept: StoredReply) -> None:
        """Count an outcome that was stored for the account."""
        put = self._put.get(account_id, 0) + max(self._key_bytes, ROW_BYTES + len(kept.text or ""))
        if put * CHECKS_PER_SHARE < self._share.bytes:
            self._put[account_id] = put
            if len(self._put) <= ACCOUNTS_MAX:
                return
            account_id = next(iter(self._put))  # the oldest is checked early, so that its count can be dropped
        self._put.pop(account_id, None)
        self._due[account_id] = None
        self._is_due.set()

    async def trim_next(self, store: Store) -> tuple[str, Trimmed]:
        """Wait for an account that may have exceeded its share, and trim it.

        Raises:
            StorageError: the account stays in the queue.
        """
        while not self._due:
            self._is_due = trio.Event()
            await self._is_due.wait()
        account_id = next(iter(self._due))
        trimmed = await trim(store, account_id, self._share)
        del self._due[account_id]
        return account_id, trimmed

    @property
    def _key_bytes(self) -> int:
        """The bytes to count for a key, so that many keys with short replies also trigger a check in time."""
        return self._share.bytes // self._share.free_keys


async def trim(store: Store, account_id: str, share: StoredShare, *, pause_s: float = PAUSE_S) -> Trimmed:
    """Remove the oldest replies and free keys that exceed the account's share, a few rows per write.

    Raises:
        StorageError: some of the excess may be left.
    """
    drop = partial(_drop, store, account_id, pause_s=pause_s)
    return Trimmed(await drop(REPLIES, share.bytes), await drop(FREE_KEYS, share.free_keys))


async def _drop(store: Store, account_id: str, kind: _Kind, most: int, *, pause_s: float) -> int:
    removed = 0
    while found := await store.read(partial(_find, account_id=account_id, kind=kind, most=most)):
        ids, newest_at = [row[0] for row in found], found[-1][1]
        removed += await store.write(partial(_drop_some, sql=kind.drop, ids=ids, newest_at=newest_at))
        await trio.sleep(pause_s)
    return removed


def _find(tx: Tx, account_id: str, kind: _Kind, most: int) -> list[Row]:
    """Return the oldest excess rows, at most one batch."""
    ((kept,),) = tx.all(kind.total, (account_id,))
    rows: list[Row] = []
    for row in tx.all(kind.oldest, (account_id, kind.at_once)) if kept > most else ():
        if kept <= most:
            break
        rows.append(row)
        kept -= row[2]
    return rows


def _drop_some(tx: Tx, sql: str, ids: list[str], newest_at: float) -> int:
    return tx.run_in(sql, ids, (newest_at,))
