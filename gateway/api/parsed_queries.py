"""Parsed queries of data endpoints, cached because clients repeat the same few hundred queries constantly.

The gain was measured (`docs/performance.md`).
"""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from gateway.api.projection import Projection, projection_of
from gateway.calls.request import cache_key
from gateway.http.params import Declared, declared_by
from gateway.http.request import query_of
from upstreams.catalog import Listing
from upstreams.model.params import Value

QUERIES_BYTES_MAX: Final = 16_000_000
"""Maximum number of bytes of the parsed queries that all endpoints cache, including every object in them."""
_QUERY_BYTES_MAX: Final = 300
"""Longer queries are not cached."""
_ENTRY_BYTES: Final = 336
"""The size of a cached query in bytes, without its texts and values: four objects and a dictionary entry."""
_PATH_BYTES: Final = 300
"""The largest size of a name in `fields`, in bytes: a dictionary, its text and an entry in the parent dictionary."""
ParsedQuery = tuple[dict[str, Value], bytes, Projection | None, bool]
"""The values of a query, its cache key, the requested projection, and whether all callers get the same response."""
_TERMS = frozenset(("dry_run", "max_credits", "max_age", "fresh"))
"""Parameters that change how a call is made, so not all callers get the same response."""


class ParsedQueries:
    """The recently parsed queries of all endpoints, limited by their total size in bytes.

    The queries form two generations. When the recent generation reaches half of the limit, it replaces the older
    generation, which is dropped. An older query that is used again moves to the recent generation, so queries in use
    stay, and a hit needs only one lookup.
    """

    def __init__(self, bytes_max: int = QUERIES_BYTES_MAX) -> None:
        self._generation_bytes_max = bytes_max // 2
        self._recent_bytes = 0
        self._endpoints: list[EndpointQueries] = []

    def of_endpoint(self, listing: Listing) -> EndpointQueries:
        """Create and return the cache for the queries of one endpoint."""
        self._endpoints.append(endpoint := EndpointQueries(self, listing))
        return endpoint

    def make_room(self, size: int) -> None:
        """Count `size` more bytes of recent queries, and start a new generation if half of the limit is reached."""
        self._recent_bytes += size
        if self._recent_bytes > self._generation_bytes_max:
            self._recent_bytes = size
            for endpoint in self._endpoints:
                endpoint.older, endpoint.recent = endpoint.recent, {}


class EndpointQueries:
    """Parses the queries of one endpoint, and caches the results."""

    __slots__ = ("_all", "_listing", "_rules", "older", "recent")

    def __init__(self, every: ParsedQueries, listing: Listing) -> None:
        self._all = every
        self._listing = listing
        self._rules: Declared | None = None  # compiled for the first query, so that it does not delay the start
        self.recent: dict[bytes, ParsedQuery] = {}
        self.older: dict[bytes, ParsedQuery] = {}

    def parse(self, query_string: bytes) -> ParsedQuery:
        """Parse a query, and cache the result for later requests with the same query.

        On the hot path, look in `recent` first.

        Raises:
            InvalidParam: The endpoint does not accept the query.
        """
        parsed = self.older.get(query_string)
        if parsed is None:
            rules = self._rules = self._rules or declared_by(self._listing.endpoint)
            values = rules.read(query_of(query_string))
            part = projection_of(self._listing.endpoint.archetype, values)
            parsed = values, cache_key(self._listing, values), part, _TERMS.isdisjoint(values)
        self.keep(query_string, parsed)
        return parsed

    def keep(self, query_string: bytes, parsed: ParsedQuery) -> None:
        """Cache a query, unless it is too long."""
        if len(query_string) <= _QUERY_BYTES_MAX:
            self._all.make_room(_size_of(query_string, parsed))
            self.recent[query_string] = parsed


def _size_of(query_string: bytes, parsed: ParsedQuery) -> int:
    """Return the largest number of bytes that a cached query can use."""
    values, key, part, _ = parsed
    size = _ENTRY_BYTES + len(query_string) + len(key) + getsizeof(values) + sum(map(getsizeof, values.values()))
    if part is not None:
        paths = str(values.get("fields", ""))
        size += _PATH_BYTES * (1 + paths.count(",") + paths.count(".")) + 4 * len(paths)
    return size
