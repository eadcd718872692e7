"""The transport to upstreams: HTTP/1.1 with kept-alive connections, on Trio.

`exchange` is the hot path and uses only the exceptions of httpx; `handle_async_request` makes the class an httpx
transport. A call that could smuggle a second request is refused (`request_bytes`, `header_lines`).
"""

import math
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TypedDict, Unpack

import certifi
import httpx
import trio

from limits.timers import Deadlines
from storage.errors import reason_of
from storage.supervision import Keep, unsupervised
from upstreams.transport.answer_parser import AnswerParser, AnswerStartParser, LongBody
from upstreams.transport.connection import UpstreamConnection, open_connection
from upstreams.transport.http import ACCEPT_ENCODING, BODY_BYTES_MAX, HttpAnswer, HttpCall, origin_of
from upstreams.transport.ordinary_head import AnswerHeadReader
from upstreams.transport.origin import Origin
from upstreams.transport.phases import PhaseDeadline
from upstreams.transport.pool import Lane, OriginStatistics, Pool
from upstreams.transport.proxy import Proxy
from upstreams.transport.threads import run_in_thread
from upstreams.transport.wire import open_wire

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
_REPLACED_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_RESERVED_HEADERS = frozenset({"", "host", "content-length", "transfer-encoding"})
_LENGTH_ALWAYS = frozenset({"POST", "PUT", "PATCH"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")
_ENCODED_BODY_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})

_ROUTES_KEPT = 256
"""Maximum number of cached routes with their header lines. Most calls to a platform have the same headers, and
formatting them each time would cost 6 us per call."""

Headers = tuple[tuple[str, str], ...]


class TransportOptions(TypedDict, total=False):
    """The arguments of `Transport`, for code that forwards them."""

    max_connections: int
    max_idle: int | None
    connect_s: float
    idle_s: float
    body_bytes_max: int
    header_bytes_max: int
    egress: str
    proxy: Proxy | None
    ssl_context: ssl.SSLContext | None
    starts_only: bool
    repeats: frozenset[str]


@dataclass(frozen=True, slots=True)
class TransportStatistics:
    """The result of `Transport.statistics`: the statistics of every origin with connections or waiters."""

    origins: Mapping[Origin, OriginStatistics]


class Transport(httpx.AsyncBaseTransport):
    """Calls upstreams over connections that are kept for the next call.

    - At most `max_connections` connections are open per origin; further calls wait in order.
    - A connection that is idle for `idle_s` is dropped. Over all origins, the `max_idle` most recently used idle
      connections are kept (None: four times `max_connections`).
    - `body_bytes_max` limits the body of an answer before and after decoding. `header_bytes_max` limits its head (plus
      the size of one read).
    - With an `egress`, a call for https://HOST/PATH goes to {egress}/HOST/PATH.
    - With a `proxy`, every connection is a tunnel through it.
    - With `starts_only`, the body of an answer is truncated at `body_bytes_max` and not decoded.
    - Calls with a method in `repeats` may be sent twice: if a kept connection breaks before the answer, it is replaced.
    """

    def __init__(
        self,
        *,
        max_connections: int = 100,
        max_idle: int | None = None,
        connect_s: float = 10,
        idle_s: float = 60,
        body_bytes_max: int = BODY_BYTES_MAX,
        header_bytes_max: int = 65_536,
        egress: str = "",
        proxy: Proxy | None = None,
        ssl_context: ssl.SSLContext | None = None,
        starts_only: bool = False,
        repeats: frozenset[str] = IDEMPOTENT,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._pool = Pool(max_connections=max_connections, idle_s=idle_s, now=now, max_idle=max_idle)
        self._deadlines = Deadlines()
        self._connect_s = connect_s
        self._body_bytes_max = body_bytes_max
        self._header_bytes_max = header_bytes_max
        self._egress = origin_of(egress.rstrip("/") + "/") if egress else None
        self._proxy = proxy
        self._ssl_context = ssl_context
        self._parser_class = AnswerStartParser if starts_only else AnswerParser
        self._repeats = repeats
        self._cached_route = lru_cache(_ROUTES_KEPT)(self._route)
        self._head_reader = AnswerHeadReader()
        self._decoding = trio.CapacityLimiter(1)

    async def exchange(
        self, call: HttpCall, deadline_at: float = math.inf, *, phases: PhaseDeadline | None = None
    ) -> HttpAnswer:
        """Make one call and return the complete answer with any status; the caller handles redirects.

        The call ends at `deadline_at` on Trio's clock if `open_transport` opened the transport. Connecting has its own
        limit. If the peer had closed a kept connection, it is replaced once, unless that could repeat an effect.

        Raises:
            httpx.TransportError: ConnectError, ReadError, WriteError, RemoteProtocolError, LocalProtocolError,
                ProxyError, UnsupportedProtocol, ResponseTooLarge, PoolTimeout, ConnectTimeout, WriteTimeout,
                ReadTimeout.
            httpx.DecodingError: The content coding of the body cannot be decoded.
        """
        if self._pool.closed:
            raise RuntimeError("the transport is closed")
        origin, prefix, headers = self._cached_route(call.origin, call.headers)
        request = request_bytes(call, target=prefix + call.target, headers=headers)
        if phases is not None:
            phases.enter("pool")
        lane = self._pool.enter_nowait(origin) or await self._enter(origin, deadline_at)
        try:
            kept = self._pool.take(lane)
            while True:
                connection = kept or await self._connect(lane, deadline_at, phases)
                self._deadlines.set(connection, deadline_at)
                try:
                    return await connection.exchange(call.method, request, phases=phases)
                except (httpx.NetworkError, httpx.RemoteProtocolError):
                    if kept is None or connection.answered or (connection.spoke and call.method not in self._repeats):
                        raise
                    kept = None
                except LongBody as long:
                    decode = long.decode
                    break
                finally:
                    self._deadlines.clear(connection)
                    self._pool.rest(lane, connection)  # closes the connection unless the exchange ended cleanly
        finally:
            self._pool.leave(lane)
        return await self._decode(decode, deadline_at)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Make one call like `exchange`, but for httpx, with a timeout for each phase."""
        origin, target = origin_of(request.url)
        headers = tuple(item for item in request.headers.multi_items() if item[0] not in _REPLACED_HEADERS)
        call = HttpCall(request.method, origin, target, headers, await request.aread())
        phases = PhaseDeadline(request.extensions.get("timeout", {}))
        with phases.scope:
            answer = await self.exchange(call, phases=phases)
        phases.raise_if_over()
        return httpx.Response(
            answer.status,
            headers=_headers_of_decoded(answer),
            content=answer.body,
            extensions={"http_version": b"HTTP/1.1"},
        )

    async def keep_deadlines(self, scope: trio.CancelScope, keep: Keep) -> None:
        """End exchanges at their deadlines until `scope` is cancelled. Run by `open_transport`."""
        with scope:
            await keep("upstream_deadlines", self._deadlines.run)

    async def aclose(self) -> None:
        """Close all idle connections. Exchanges in flight may finish, and their connections are closed afterwards."""
        self._pool.close()
        await trio.lowlevel.checkpoint()

    def statistics(self) -> TransportStatistics:
        """Return the statistics of the connections by origin."""
        return TransportStatistics(self._pool.statistics())

    def _route(self, origin: Origin, headers: Headers) -> tuple[Origin, str, str]:
        """Return the origin to connect to, the prefix of the target, and the header lines."""
        if self._egress is None:
            return origin, "", header_lines(origin.authority, headers)
        egress, prefix = self._egress
        return egress, prefix + origin.authority, header_lines(egress.authority, headers)

    async def _enter(self, origin: Origin, deadline_at: float) -> Lane:
        with trio.move_on_at(deadline_at):
            return await self._pool.enter(origin)
        raise httpx.PoolTimeout(f"all connections to {origin.authority} were busy for too long")

    async def _decode(self, decode: Callable[[], HttpAnswer], deadline_at: float) -> HttpAnswer:
        with trio.move_on_at(deadline_at):
            return await run_in_thread(decode, self._decoding)
        raise httpx.PoolTimeout("no time left to decode the response")

    async def _connect(self, lane: Lane, deadline_at: float, phases: PhaseDeadline | None) -> UpstreamConnection:
        if phases is not None:
            phases.enter("connect")
        caps = {"header_bytes_max": self._header_bytes_max, "body_bytes_max": self._body_bytes_max}
        parser = self._parser_class(self._head_reader, **caps)
        with trio.move_on_at(min(trio.current_time() + self._connect_s, deadline_at)):
            tls = None
            if lane.origin.scheme == "https":
                tls = self._ssl_context = self._ssl_context or await trio.to_thread.run_sync(_default_context)
            connection = await open_connection(lane.origin, tls, parser, self._proxy)
            lane.opened += 1
            return connection
        raise httpx.ConnectTimeout(f"no connection to {lane.origin.authority} in time")


@asynccontextmanager
async def open_transport(*, keep: Keep = unsupervised, **options: Unpack[TransportOptions]) -> AsyncIterator[Transport]:
    """Open a `Transport` with these arguments for the duration of the block. A system task enforces its deadlines."""
    # The clock of the run is used, because reading it through Trio's function takes three times as long.
    transport = Transport(**options, now=trio.lowlevel.current_clock().current_time)
    watching = trio.CancelScope()
    # A system task is used instead of a nursery, which would wrap exceptions of the block in a group.
    trio.lowlevel.spawn_system_task(transport.keep_deadlines, watching, keep)
    try:
        yield transport
    finally:
        watching.cancel()
        await transport.aclose()


async def try_host(url: str, proxy: Proxy | None = None) -> None:
    """Connect to the host of a URL, through the proxy if there is one; with https, also verify its certificate.

    Raises:
        OSError: The host or the proxy cannot be reached. The message is the reason.
    """
    origin, _ = origin_of(url)
    try:
        wire = await open_wire(origin, _default_context() if origin.scheme == "https" else None, proxy)
    except httpx.TransportError as exc:
        raise OSError(reason_of(exc)) from exc
    wire.close()


def _default_context() -> ssl.SSLContext:
    """Return a context that trusts the known authorities. Loading them takes 40 ms, so the caller uses a thread."""
    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()  # includes the system's authorities, such as a company's authority or SSL_CERT_FILE
    context.set_alpn_protocols(["http/1.1"])
    return context


def _headers_of_decoded(answer: HttpAnswer) -> list[tuple[str, str]]:
    """Return the headers, without headers that would make httpx decode the body again.

    An answer without a body, as to HEAD, keeps its Content-Length.
    """
    if not answer.body:
        return [item for item in answer.headers.items() if item[0] != "content-encoding"]
    return [item for item in answer.headers.items() if item[0] not in _ENCODED_BODY_HEADERS]


def request_bytes(call: HttpCall, *, target: str, headers: str) -> bytes:
    """Return the whole request for `call`. `target` differs from the call's own target if there is an egress.

    `headers` come from `header_lines`.

    Raises:
        httpx.LocalProtocolError: The call cannot be written as one well-formed request.
    """
    method = call.method
    if method != "GET" and not (method.isascii() and method.isalpha()):
        raise httpx.LocalProtocolError("the method must consist of letters")
    if not (target[:1] == "/" and target.isascii() and target.isprintable() and " " not in target):
        raise httpx.LocalProtocolError("the target must be a percent-encoded path")
    if call.body or method in _LENGTH_ALWAYS:
        headers = f"{headers}Content-Length: {len(call.body)}\r\n"
    return f"{method} {target} HTTP/1.1\r\n{headers}\r\n".encode("latin-1") + call.body


def header_lines(host: str, headers: tuple[tuple[str, str], ...]) -> str:
    """Return the header lines of a request, with Host, and with Accept-Encoding unless `headers` contain it.

    The result is cached, so equal headers are checked and written only once.

    Raises:
        httpx.LocalProtocolError: A header is malformed, or is one that the transport sets.
    """
    names = {name.lower() for name, _ in headers}
    if not names.isdisjoint(_RESERVED_HEADERS) or not _TOKEN.fullmatch("".join(names)):
        raise httpx.LocalProtocolError("a header name is malformed, or is set by the transport")
    lines = [f"Host: {host}\r\n", *(f"{name}: {value}\r\n" for name, value in headers)]
    if "accept-encoding" not in names:
        lines.append(f"Accept-Encoding: {ACCEPT_ENCODING}\r\n")
    text = "".join(lines)
    if not (text.count("\n") == text.count("\r") == len(lines)) or "\0" in text:
        raise httpx.LocalProtocolError("a header contains CR, LF or NUL")
    try:
        text.encode("latin-1")
    except UnicodeEncodeError as exc:
        raise httpx.LocalProtocolError("a header contains a character outside Latin-1") from exc
    return text
