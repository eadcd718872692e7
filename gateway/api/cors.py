"""CORS: lets pages of other sites call the API from a browser (the Fetch standard, 3.2)."""

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
"""How long a browser may cache the permission, in seconds."""


class Cors:
    """Allows the origins in the operator's `[server] cors_origins`. `*` allows every origin."""

    def __init__(self, origins: Sequence[str]) -> None:
        """Accept origins such as `https://app.example.com`."""
        self._origins = frozenset(origin.encode() for origin in origins)
        self._is_open = "*" in origins

    def preflight(self, request: Request) -> Reply | None:
        """Return the response to a preflight request, which needs no key, or None for any other request."""
        headers = request.headers
        if request.method != "OPTIONS" or b"access-control-request-method" not in headers:
            return None
        if self._allowed(headers.get(b"origin", b"")) is None:
            return Reply(204, b"")
        names = (b"access-control-allow-methods", b"access-control-allow-headers", b"access-control-max-age")
        return Reply(204, b"", (names, (_METHODS, _HEADERS, _KEPT_S)))

    def fields(self, origin: bytes) -> Fields:
        """Return the headers that let a page of this origin read a response, or only `Vary` if it may not.

        Unless every origin is allowed, a response depends on the origin, so it has `Vary`.
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
