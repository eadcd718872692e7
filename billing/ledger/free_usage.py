"""Counts calls that cost nothing, and adds them to the usage counters every few seconds.

These calls are cache hits, and refusals because of missing credits or a key's limit. If the process dies, the counts of
the last seconds are lost, but no credits are.
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

# Locks the accounts first, as batches of charges do, because only code that has locked the account may add to its usage
# rows.
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
"""The maximum number of cache hits, and of refusals, between two flushes. Beyond it, the oldest are not counted."""
PLACES_MAX: Final = 100_000
"""The maximum number of combinations of key, endpoint and hour to keep while the store is unavailable.

Calls with further combinations are not counted.
"""
FLUSHED_AT_ONCE: Final = 200

_log = logging.getLogger(__name__)

Call: TypeAlias = tuple[str, str, str]
"""The ids of the account and the key, and the endpoint's path."""


class _Place(NamedTuple):
    call: Call
    hour: int


class FreeUsage:
    """Counts this node's free calls until `flush` writes the counts to the store."""

    def __init__(self, store: Store, *, now: Callable[[], float]) -> None:
        """`now` returns Unix seconds."""
        self._store = store
        self._now = now
        self._platforms: dict[str, str] = {}
        self._seen_hits = deque[Call](maxlen=SEEN_MAX)
        self._seen_refusals = deque[Call](maxlen=SEEN_MAX)
        self.hit = self._seen_hits.append
        """Counts a cache hit. Hits are a hot path, so this only appends to a list, which `flush` evaluates."""
        self.refusal = self._seen_refusals.append
        """Counts a refusal. Calls of undeclared endpoints are not counted."""
        self._hits = Counter[_Place]()
        self._refusals = Counter[_Place]()
        self._names = Names()

    def declare(self, path: str, platform: str) -> None:
        """Declare an endpoint, so that its calls are counted."""
        self._platforms[path] = platform

    async def flush(self) -> int:
        """Add the counts to usage. Return the number of combinations of key, endpoint and hour.

        Calls whose key or account no longer exists in the store are dropped.

        Raises:
            StorageError: counts that were not added yet are kept for the next flush.
        """
        self._add_up()
        flushed = 0
        while places := list(islice({**self._hits, **self._refusals}, FLUSHED_AT_ONCE)):
            counts = [(place, self._hits[place], self._refusals[place]) for place in places]
            await self._store.write(partial(self._write, counts))
            for place, hits, refusals in counts:
                _subtract(self._hits, place, hits)
                _subtract(self._refusals, place, refusals)
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
            _log.warning(
                "dropped %d usage counts: the rows of their keys are missing from the store", len(counts) - len(rows)
            )
        tx.run_many(ADD_USAGE, rows)


def _subtract(counter: Counter[_Place], place: _Place, count: int) -> None:
    counter[place] -= count
    if not counter[place]:
        del counter[place]
