"""The response cache: encoded responses, each with its own TTL. Its size in bytes is limited by LRU eviction.

It is implemented here instead of using a library, because the values are already bytes whose exact length is limited,
and a hit must cost only a dict lookup.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_OVERHEAD_BYTES = 200
"""The memory of an entry in addition to its key and body: the objects that hold it."""
_EVICTIONS_MAX = 30_000
"""The maximum number of evictions per stored response. Even the longest response needs fewer.

After the limit is lowered, it may take several stored responses to free the space.
"""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """The current statistics. Fields named `*_total` count since startup."""

    entries: int
    bytes: int
    bytes_max: int
    hits_total: int
    misses_total: int
    evicted_total: int


class Cache:
    """Maps a canonical request to its encoded response (decisions 8). Times are monotonic seconds."""

    def __init__(self, bytes_max: int, now: Callable[[], float]) -> None:
        self.bytes_max = bytes_max
        self._now = now
        self._entries: OrderedDict[bytes, tuple[bytes, float]] = OrderedDict()
        self._bytes = 0
        self._hits = self._misses = self._evicted = 0

    def get(self, key: bytes) -> bytes | None:
        """Return the stored response, or None if it is missing or expired."""
        found = self._entries.get(key)
        if found is None:
            self._misses += 1
            return None
        if found[1] <= self._now():
            self._drop(key)
            self._misses += 1
            return None
        self._entries.move_to_end(key)
        self._hits += 1
        return found[0]

    def holds(self, key: bytes, *, for_s: float = 0.0) -> bool:
        """Return whether `get` would return a response, both now and in `for_s` seconds. It is not counted as a hit."""
        found = self._entries.get(key)
        return found is not None and found[1] > self._now() + for_s

    def put(self, key: bytes, body: bytes, ttl_s: float) -> None:
        """Store a response, unless it alone exceeds the limit."""
        if key in self._entries:
            self._drop(key)
        size = _size(key, body)
        if size <= self.bytes_max:
            self._entries[key] = (body, self._now() + ttl_s)
            self._bytes += size
        if self._bytes > self.bytes_max:
            self._evict()

    def _evict(self) -> None:
        """Evict the least recently used entries until the limit is met."""
        for _ in range(_EVICTIONS_MAX):
            if self._bytes <= self.bytes_max:
                break
            self._drop(next(iter(self._entries)))
            self._evicted += 1

    def resize(self, bytes_max: int) -> None:
        """Change the limit. The new limit applies when the next response is stored."""
        self.bytes_max = bytes_max

    def forget(self, key: bytes) -> None:
        """Remove the response to a request."""
        if key in self._entries:
            self._drop(key)

    def _drop(self, key: bytes) -> None:
        body, _ = self._entries.pop(key)
        self._bytes -= _size(key, body)

    def statistics(self) -> CacheStatistics:
        """Return the current statistics."""
        return CacheStatistics(len(self._entries), self._bytes, self.bytes_max, self._hits, self._misses, self._evicted)


def _size(key: bytes, body: bytes) -> int:
    return len(key) + len(body) + _OVERHEAD_BYTES
