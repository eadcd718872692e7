"""Which pages of other sites may call the API from a browser, and what it says to them (the Fetch standard, 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.http.request import Reply, Request
from gateway.server.http1.fields import Fields, joined

_METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_HEADERS: Final = (
    b"accept, authorization, cache-control, content-type, idempotency-key, if-none-match, last-event-id, x-api-key"
)
_EXPOSED: Final = (
    b"allow, content-disposition, etag, location, ratelimit, ratelimit-policy, retry-after, x-cache, "
    b"x-concurrency-limit, x-concurrency-remaining, x-credits-remaining, x-credits-used, x-idempotent-replay, "
    b"x-next-cursor, x-poll-interval, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id, "
    b"x-sluice-overhead-ms"
)
_VARIES: Final[Fields] = ((b"vary",), (b"origin",))
_KEPT_S: Final = b"600"
"""How long a browser may remember what it was allowed."""


class Cors:
    """Allows the operator's `[server] cors_origins`; with `*` among them all."""

    def __init__(self, origins: Sequence[str]) -> None:
        """Origins such as `https://app.example.com`."""
        self._origins = frozenset(origin.encode() for origin in origins)
        self._is_open = "*" in origins

    def preflight(self, request: Request) -> Reply | None:
        """The answer to a browser that asks before it calls, which needs no key; None: it is no such question."""
        headers = request.headers
        if request.method != "OPTIONS" or b"access-control-request-method" not in headers:
            return None
        if self._allowed(headers.get(b"origin", b"")) is None:
            return Reply(204, b"")
        names = (b"access-control-allow-methods", b"access-control-allow-headers", b"access-control-max-age")
        return Reply(204, b"", (names, (_METHODS, _HEADERS, _KEPT_S)))

    def fields(self, origin: bytes) -> Fields:
        """The headers that let a page of this origin, none where it is empty, read an answer.

        An answer for one origin differs from those for others also where it lets nobody read it: caches must know.
        """
        allowed = self._allowed(origin)
        if allowed is None:
            return _VARIES
        names = (b"access-control-allow-origin", b"access-control-expose-headers")
        fields: Fields = names, (allowed, _EXPOSED)
        return fields if self._is_open else joined(fields, _VARIES)

    def _allowed(self, origin: bytes) -> bytes | None:
        if self._is_open:
            return b"*"
        return origin if origin in self._origins else None
