"""A request as routes see it, and its reply. Both classes are plain values, independent of ASGI messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl

from billing.charges.batch_rows import Charge
from billing.keys.cache import Key
from gateway.http.errors import InvalidParam
from gateway.http.sse import EventStream
from gateway.http.websocket import SocketStream
from gateway.server.asgi import Receive, ReceiveMessage, Send
from gateway.server.http1.fields import NO_FIELDS, Fields
from limits.errors import WindowState
from limits.gate import LeaseHandle

Headers = list[tuple[bytes, bytes]]
Public = Callable[["Request"], Awaitable["Reply"]]
"""A handler for a read that needs no key."""
ESCAPE, PLUS = b"%+"
_FIELDS_MAX = 100
_ONCE = (b"x-api-key", b"authorization", b"idempotency-key", b"content-encoding", b"last-event-id")
_QUALITY = re.compile(rb"(?:^|;)[ \t]*q=([01](?:\.[0-9]{0,3})?)[ \t]*(?:;|$)")


async def _receive_nothing() -> ReceiveMessage:  # noqa: ASYNC124 - it replaces ASGI's `receive`
    raise RuntimeError("this request has no server")


@dataclass(slots=True)
class Caller:
    """The caller of a request: the key and, once the request is admitted, the key's window and lease."""

    key: Key
    window: WindowState | None = None
    lease: LeaseHandle | None = None

    def hold(self, turn: LeaseHandle) -> None:
        """Release `turn` together with the lease, after the response has been sent."""
        self.lease = turn if self.lease is None else _Both(self.lease, turn)


@dataclass(frozen=True, slots=True)
class _Both:
    """Two leases that are released together."""

    first: LeaseHandle
    second: LeaseHandle

    def release(self) -> None:
        """Release both leases."""
        self.first.release()
        self.second.release()


@dataclass(slots=True)
class Request:
    """A request as a route sees it.

    `started` is the time of arrival on Trio's clock. Only the API's entry point, the admission, the routing table, the
    charging code, and the feed (which may hold the request open) modify a request.
    """

    id: str
    method: str
    path: str
    query_string: bytes
    headers: dict[bytes, bytes]
    """Headers by lower-case name. The values of a repeated header are joined."""
    started: float
    caller: Caller | None = None
    stream: EventStream | None = None
    """The event stream, if the client accepts one. Routes without events ignore it."""
    socket: SocketStream | None = None
    """Set if the client requests a WebSocket."""
    receive: Receive = field(default=_receive_nothing, repr=False)
    """ASGI's `receive`: the pieces of the body, then the disconnect."""
    send: Send | None = field(default=None, repr=False)
    """ASGI's `send`, if the server supports Sluice's extension of ASGI."""
    client: tuple[str, int] | None = None
    """The address and port of the connection's peer."""
    named: Mapping[str, str] | None = None
    """The path segments for the `{name}` parts of the route, set by the routing table."""
    held_s: float = 0.0
    """Seconds that the request was held open waiting for events, which do not count as overhead."""
    owed: Charge | None = None
    """A charge that was used in full. The entry point settles it after the response has been sent or the client has
    disconnected.
    """

    def owe(self, charge: Charge) -> None:
        """Settle this charge after the response."""
        self.owed = charge

    @property
    def query(self) -> list[tuple[str, str]]:
        """Return the pairs of the query (`query_of`), parsed on each access."""
        return query_of(self.query_string)


@dataclass(slots=True)
class Reply:
    """A response before it is sent. `code` is the error name or `OK`. `upstream_s` is the time spent upstream."""

    status: int
    body: bytes
    headers: Fields = NO_FIELDS
    code: str = "OK"
    content_type: bytes = b"application/json"
    credits_used: int = 0
    upstream_s: float = 0.0
    charge_s: float = 0.0
    close_s: float = 0.0
    """Seconds spent waiting for the commits of the charge and of its settlement."""
    streamed: bool = False
    """Whether the response was already sent as a stream. This reply then only ends the stream."""
    pieces: tuple[bytes, ...] | AsyncIterator[bytes] | None = None
    """The body in parts, if `body` is not used. It is a tuple if the body is too large to copy and shares cached data,
    or an iterator if the body is sent while it is produced and its length is unknown.
    """
    request_id: str | None = None
    """The id of the original request, if this reply is a replay."""


class AdjacentPages(Protocol):
    """Pages served next to the API, which handle every method themselves."""

    def covers(self, path: str) -> bool:
        """Return whether a path belongs to these pages."""
        ...

    async def answer(self, request: Request) -> Reply:
        """Return the page."""
        ...


def joined_headers(sent: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by name. The values of a repeated header are joined as a list (RFC 9110, 5.3)."""
    headers: dict[bytes, bytes] = {}
    for name, value in sent:
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def repeated_of(sent: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the first repeated header that must be unique, or None."""
    seen = Counter(name for name, _ in sent)
    return next((name.decode() for name in _ONCE if seen[name] > 1), None)


def names(header: bytes | None, token: bytes) -> bool:
    """Return whether a list header contains `token` (case-insensitive) with a quality above zero.

    `find` runs first, because most headers do not contain the token. For two bytes objects, `in` is slower (measured).
    """
    if header is None or (listed := header.lower()).find(token) < 0:
        return False
    return any(name.strip(b" \t") == token and _quality(rest) > 0 for name, _, rest in _items(listed))


def prefers(header: bytes | None, token: bytes, other: bytes) -> bool:
    """Return whether an `Accept` header prefers `token` at least as much as `other` (RFC 9110, 12.5.1)."""
    if header is None or (listed := header.lower()).find(token) < 0:  # `find` runs first, as in `names`.
        return False
    wanted = qualities(listed)
    ranges = (other, other.partition(b"/")[0] + b"/*", b"*/*")
    least = next((wanted[one] for one in ranges if one in wanted), 0.0)
    return wanted.get(token, 0.0) >= max(least, 0.001)


def qualities(listed: bytes) -> dict[bytes, float]:
    """Return the quality of each item of a lower-case list header."""
    return {name.strip(b" \t"): _quality(rest) for name, _, rest in _items(listed)}


def _items(listed: bytes) -> Iterable[tuple[bytes, bytes, bytes]]:
    return (item.partition(b";") for item in listed.split(b","))


def _quality(parameters: bytes) -> float:
    """Return the quality (`q`) in a list item's parameters; 1 if it is missing or invalid."""
    found = _QUALITY.search(parameters)
    return float(found[1]) if found else 1.0


def query_of(raw: bytes) -> list[tuple[str, str]]:
    """Return the form-decoded pairs of a query string, in order. Invalid UTF-8 becomes U+FFFD.

    Raises:
        InvalidParam: the query has more than 100 pairs.
    """
    if ESCAPE not in raw and PLUS not in raw and raw.count(b"&") < _FIELDS_MAX and raw.isascii():
        # Fast path: most queries need no decoding.
        pairs = []
        for piece in raw.decode().split("&"):
            if piece:
                name, _, value = piece.partition("=")
                pairs.append((name, value))
        return pairs
    try:
        return parse_qsl(raw.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError as exc:
        raise InvalidParam("query", f"has more than {_FIELDS_MAX} parameters") from exc
