"""One request as the API sees it, and the answer it gets; both are plain values around ASGI's own."""

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
"""Answers a read that needs no key."""
ESCAPE, PLUS = b"%+"
_FIELDS_MAX = 100
_ONCE = (b"x-api-key", b"authorization", b"idempotency-key", b"content-encoding", b"last-event-id")
_QUALITY = re.compile(rb"(?:^|;)[ \t]*q=([01](?:\.[0-9]{0,3})?)[ \t]*(?:;|$)")


async def _nothing_comes() -> ReceiveMessage:  # noqa: ASYNC124 - it stands for ASGI's
    raise RuntimeError("this request has no server")


@dataclass(slots=True)
class Caller:
    """The caller of a request: its key and, once it is admitted, the key's window and the lease that it holds."""

    key: Key
    window: WindowState | None = None
    lease: LeaseHandle | None = None

    def hold(self, turn: LeaseHandle) -> None:
        """Give `turn` back with the lease, once the answer was sent."""
        self.lease = turn if self.lease is None else _Both(self.lease, turn)


@dataclass(frozen=True, slots=True)
class _Both:
    """Two leases that end together."""

    first: LeaseHandle
    second: LeaseHandle

    def release(self) -> None:
        """Give both back."""
        self.first.release()
        self.second.release()


@dataclass(slots=True)
class Request:
    """A request as a route reads it; `started` is Trio's clock at its arrival. Only the API's entry, the admission,
    the routing table, what charges it and the feed, which may hold it open, change one."""

    id: str
    method: str
    path: str
    query_string: bytes
    headers: dict[bytes, bytes]
    """By name in lower case; a repeated header's values are joined."""
    started: float
    caller: Caller | None = None
    stream: EventStream | None = None
    """Where events go, when the client accepts them; a route that has none to tell leaves it alone."""
    socket: SocketStream | None = None
    """Set for a request that asks to become a WebSocket."""
    receive: Receive = field(default=_nothing_comes, repr=False)
    """ASGI's: the pieces of the body, and behind them the client's hang-up."""
    send: Send | None = field(default=None, repr=False)
    """ASGI's, where the server has our extension of it."""
    client: tuple[str, int] | None = None
    """The address and the port that the connection came from."""
    named: Mapping[str, str] | None = None
    """The segments of the path where its route has `{name}`; the routing table sets them."""
    held_s: float = 0.0
    """For how long it was held open, waiting for something to tell: not what the gateway cost."""
    owed: Charge | None = None
    """The charge that its answer used in full; the entry settles it once the answer has left, or nobody takes it."""

    def owe(self, charge: Charge) -> None:
        """Have this settled behind the answer."""
        self.owed = charge

    @property
    def query(self) -> list[tuple[str, str]]:
        """The query's pairs (`query_of`), read anew each time."""
        return query_of(self.query_string)


@dataclass(slots=True)
class Reply:
    """An answer before it is sent: `code` is the error's name, or `OK`; `upstream_s` was waited for others."""

    status: int
    body: bytes
    headers: Fields = NO_FIELDS
    code: str = "OK"
    content_type: bytes = b"application/json"
    credits_used: int = 0
    upstream_s: float = 0.0
    charge_s: float = 0.0
    close_s: float = 0.0
    """Waited for the commits of its charge and of the charge's close."""
    streamed: bool = False
    """It ends an event stream."""
    pieces: tuple[bytes, ...] | AsyncIterator[bytes] | None = None
    """The body, when `body` is not: its parts, when it is too large to be copied and answers share what is cached; or
    an iterator, when it is sent while it is made and its length is not known."""
    request_id: str | None = None
    """The request that the answer belongs to, when it repeats an earlier one's."""


class PagesBeside(Protocol):
    """Pages that stand beside the API and answer by themselves, whatever the method."""

    def covers(self, path: str) -> bool:
        """Whether a path is one of theirs."""
        ...

    async def answer(self, request: Request) -> Reply:
        """The page."""
        ...


def joined_headers(sent: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by name; those of a repeated one stand behind each other, as the items of a list do (RFC 9110, 5.3)."""
    headers: dict[bytes, bytes] = {}
    for name, value in sent:
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def repeated_of(sent: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The first header that may stand once and was repeated."""
    seen = Counter(name for name, _ in sent)
    return next((name.decode() for name in _ONCE if seen[name] > 1), None)


def names(header: bytes | None, token: bytes) -> bool:
    """Whether `token`, in whatever case, is an item of a header that is a list, and not one of the quality nought.

    `find` comes first, since most headers do not hold it; `in` of two bytes is slower (measured).
    """
    if header is None or (listed := header.lower()).find(token) < 0:
        return False
    return any(name.strip(b" \t") == token and _quality(rest) > 0 for name, _, rest in _items(listed))


def prefers(header: bytes | None, token: bytes, other: bytes) -> bool:
    """Whether an `Accept` has the media type `token` and wants it no less than `other` (RFC 9110, 12.5.1)."""
    if header is None or (listed := header.lower()).find(token) < 0:  # as in `names`
        return False
    wanted = qualities(listed)
    ranges = (other, other.partition(b"/")[0] + b"/*", b"*/*")
    least = next((wanted[one] for one in ranges if one in wanted), 0.0)
    return wanted.get(token, 0.0) >= max(least, 0.001)


def qualities(listed: bytes) -> dict[bytes, float]:
    """The quality of each item of a header in lower case that is a list."""
    return {name.strip(b" \t"): _quality(rest) for name, _, rest in _items(listed)}


def _items(listed: bytes) -> Iterable[tuple[bytes, bytes, bytes]]:
    return (item.partition(b";") for item in listed.split(b","))


def _quality(parameters: bytes) -> float:
    """The quality that an item's parameters give it; 1 where they give none that can be read."""
    found = _QUALITY.search(parameters)
    return float(found[1]) if found else 1.0


def query_of(raw: bytes) -> list[tuple[str, str]]:
    """The pairs of a query string in their order, form-decoded; what is not UTF-8 shows up as U+FFFD.

    Raises:
        InvalidParam: more than 100 of them.
    """
    if ESCAPE not in raw and PLUS not in raw and raw.count(b"&") < _FIELDS_MAX and raw.isascii():
        # hot: nothing is to be decoded in most queries
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
