"""Counts the calls that charge nothing, and adds them to usage every few seconds.

These are hits of the cache, and refusals for want of credits or by a limit of the key. A process that dies loses those
of its last seconds, which moves no credit.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from billing.journal import HOUR_MICROS, micros
from billing.names import Names
from storage.store import Store, Tx

# Usage is locked by account, as batches of charges do it: whoever adds to a row holds the row's account.
READ_ACCOUNTS = """
SELECT accounts.id, number FROM {in} AS asked, accounts WHERE accounts.id = asked.value ORDER BY accounts.id {lock}
"""
READ_KEYS = "SELECT keys.id, number FROM {in} AS asked, keys WHERE keys.id = asked.value"
ADD_USAGE = """
INSERT INTO usage (account, key, endpoint, hour, calls, hits, refusals, credits, refunds, failures) VALUES {rows}
ON CONFLICT (account, hour, endpoint, key) DO UPDATE
SET hits = usage.hits + excluded.hits, refusals = usage.refusals + excluded.refusals
"""
SEEN_MAX: Final = 100_000
"""Calls between two flushes; of more the oldest are not counted."""
PLACES_MAX: Final = 100_000
"""Keys, endpoints and hours that are counted apart while the store is away; calls of further ones are not counted."""
FLUSHED_AT_ONCE: Final = 200

_log = logging.getLogger(__name__)

Call: TypeAlias = tuple[str, str, str]
"""The ids of account and key, and the endpoint's path."""


class _Place(NamedTuple):
    call: Call
    hour: int


class FreeUsage:
    """The calls of this node that charged nothing, until they are in the store."""

    def __init__(self, store: Store, *, now: Callable[[], float]) -> None:
        """`now` gives Unix seconds."""
        self._store = store
        self._now = now
        self._platforms: dict[str, str] = {}
        self._seen_hits = deque[Call](maxlen=SEEN_MAX)
        self._seen_refusals = deque[Call](maxlen=SEEN_MAX)
        self.hit = self._seen_hits.append
        """Counts an answer from the cache: an append, and the rest with the flush, since hits are hot (measured)."""
        self.refusal = self._seen_refusals.append
        """Counts a refusal, if it is an endpoint's."""
        self._hits = Counter[_Place]()
        self._refusals = Counter[_Place]()
        self._names = Names()

    def declare(self, path: str, platform: str) -> None:
        """Count the calls of an endpoint; others are not counted."""
        self._platforms[path] = platform

    async def flush(self) -> int:
        """Add what was counted to usage; gives the number of keys, endpoints and hours.

        Calls whose key or account is gone from the store are dropped.

        Raises:
            StorageError: what is not added yet is kept for the next time.
        """
        self._add_up()
        flushed = 0
        while places := list(islice({**self._hits, **self._refusals}, FLUSHED_AT_ONCE)):
            counts = [(place, self._hits[place], self._refusals[place]) for place in places]
            await self._store.write(partial(self._write, counts))
            for place, hits, refusals in counts:
                _take_off(self._hits, place, hits)
                _take_off(self._refusals, place, refusals)
            flushed += len(places)
        return flushed

    def _add_up(self) -> None:
        hour = micros(self._now()) // HOUR_MICROS
        for seen, counter in ((self._seen_hits, self._hits), (self._seen_refusals, self._refusals)):
            for call, count in Counter(seen).items():
                place = _Place(call, hour)
                if call[2] in self._platforms and (place in counter or len(counter) < PLACES_MAX):
                    counter[place] += count
            seen.clear()

    def _write(self, counts: Sequence[tuple[_Place, int, int]], tx: Tx) -> None:
        calls = [place.call for place, _hits, _refusals in counts]
        endpoints = self._names.endpoints(tx, {(self._platforms[path], path) for _account, _key, path in calls})
        accounts: dict[str, int] = dict(tx.all_in(READ_ACCOUNTS, sorted({account for account, _key, _path in calls})))
        keys: dict[str, int] = dict(tx.all_in(READ_KEYS, sorted({key for _account, key, _path in calls})))
        rows = [
            (accounts[account], keys[key], endpoints[self._platforms[path], path], hour, 0, hits, refusals, 0, 0, 0)
            for ((account, key, path), hour), hits, refusals in counts
            if account in accounts and key in keys
        ]
        if len(rows) < len(counts):
            _log.warning("the usage of %d keys is dropped: their rows are gone from the store", len(counts) - len(rows))
        tx.run_many(ADD_USAGE, rows)


def _take_off(counter: Counter[_Place], place: _Place, count: int) -> None:
    counter[place] -= count
    if not counter[place]:
        del counter[place]
