"""Serves an app with Hypercorn's protocols: HTTP/1.1, and HTTP/2 over TLS.

Hypercorn's own `serve` has two faults. The failure of one connection ends the server, and a malformed upgrade request
is enough to cause such a failure (pgjones/hypercorn#225). Second, open requests are aborted three seconds after a stop.
Sluice therefore uses only the protocol code, for each connection separately, and has its own code for accepting,
lifespan, draining, and the last-resort handler of a connection.
"""

import logging
import ssl
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ASGIReceiveCallable, ASGISendCallable, ConnectionState
from hypercorn.typing import Scope as HypercornScope

from gateway.server.accepting import accept_one, accept_until
from gateway.server.asgi import ASGIApp, HTTPScope, Receive, ResponseStart, Send, SendMessage, WebSocketScope
from gateway.server.bounds import Bounds
from gateway.server.errors import ClientGone, EdgeAnswer, RequestRefused
from gateway.server.hypercorn.protocol import GuardedConnection
from gateway.server.hypercorn.reading import ClientReading, PendingSends
from gateway.server.hypercorn.websocket import GOODBYE_S, Upgrades
from gateway.server.lifespan import open_lifespan
from gateway.server.unsent import Unsent
from gateway.server.websocket.handshake import read_handshake
from storage.supervision import Keep, unsupervised

_logger = logging.getLogger("sluice.server")


async def serve_hypercorn(
    app: ASGIApp,
    listeners: Sequence[trio.SocketListener],
    *,
    shutdown: trio.Event,
    drain_s: float,
    edge_answer: EdgeAnswer,
    bounds: Bounds = Bounds(),  # noqa: B008 - the default is immutable
    websocket_paths: frozenset[str] = frozenset(),
    unsent: Unsent | None = None,
    tls: Callable[[], ssl.SSLContext] | None = None,
    keep: Keep = unsupervised,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` like `serve_native`. With `tls`, serve HTTPS, and HTTP/2 if the TLS context offers it.

    `tls` is called at each handshake and returns the TLS context, so that a renewed certificate needs no restart.

    These fields of `bounds` apply: `header_bytes`, `idle_s` (which includes the time for the headers), the limits of
    unread responses and of WebSockets, and `connections` (for each listener).

    Raises:
        LifespanFailed: the app reports that it could not start or stop.
    """
    context = WorkerContext(None)
    config = _config(bounds)
    upgrades = Upgrades(websocket_paths, edge_answer)
    sends = PendingSends(bounds, unsent or Unsent(bounds))
    async with open_lifespan(app) as state, trio.open_nursery() as connections:
        shared = ConnectionState(dict(state or {}))

        def connect(stream: trio.abc.Stream) -> GuardedConnection:
            reading = ClientReading(sends, stream)
            guarded = cast("AppWrapper", ASGIWrapper(_Guarded(app, shutdown, upgrades, reading, bounds=bounds)))
            return GuardedConnection(
                guarded, config, context, state=shared, stream=stream, reading=reading, upgrades=upgrades
            )

        accept = partial(_accept, connect=connect, tls=tls, connections=connections, limit=bounds.connections)
        task_status.started()
        await accept_until(shutdown, listeners, accept, unsent_bytes=bounds.unsent_kernel_bytes, keep=keep)
        await context.terminated.set()
        connections.cancel_scope.deadline = trio.current_time() + drain_s
        sends.end_by(connections.cancel_scope.deadline + GOODBYE_S)


async def _accept(
    listener: trio.SocketListener,
    *,
    connect: Callable[[trio.abc.Stream], GuardedConnection],
    tls: Callable[[], ssl.SSLContext] | None,
    connections: trio.Nursery,
    limit: int,
) -> None:
    room = trio.Semaphore(limit)
    while True:
        await room.acquire()
        stream: trio.abc.Stream = await accept_one(listener)
        if tls is not None:
            stream = trio.SSLStream(stream, tls(), server_side=True, https_compatible=True)
        connections.start_soon(_serve, connect(stream), room)


async def _serve(connection: GuardedConnection, room: trio.Semaphore) -> None:
    try:
        await connection.run()
    finally:
        room.release()


def _config(bounds: Bounds) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = _logger
    config.include_server_header = False
    config.keep_alive_timeout = bounds.idle_s
    config.keep_alive_max_requests = sys.maxsize
    config.ssl_handshake_timeout = bounds.header_s
    config.h11_max_incomplete_size = bounds.header_bytes
    config.websocket_max_message_size = bounds.message_bytes
    config.websocket_ping_interval = bounds.ping_s
    config.h2_max_header_list_size = bounds.header_bytes
    return config


class _Guarded:
    """The app that Hypercorn calls.

    It refuses CONNECT, sends Sluice's own 500, and closes connections after a stop has begun.
    """

    def __init__(
        self, app: ASGIApp, shutdown: trio.Event, upgrades: Upgrades, reading: ClientReading, *, bounds: Bounds
    ) -> None:
        self._app = app
        self._bounds = bounds
        self._shutdown = shutdown
        self._upgrades = upgrades
        self._reading = reading

    async def __call__(self, scope: HypercornScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "websocket":  # only over HTTP/1.1; HTTP/2 does not offer WebSockets here
            self._reading.begin_answer(scope["headers"])
            await self._app(cast("WebSocketScope", scope), cast("Receive", receive), cast("Send", send))
        elif scope["type"] == "http":
            await self._answer(cast("HTTPScope", scope), cast("Receive", receive), cast("Send", send))

    async def _answer(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        closes = scope["http_version"].startswith("1")
        reading = self._reading if closes else self._reading.of_stream()
        reading.begin_answer(scope["headers"])
        started = False

        async def send_on(message: SendMessage) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = self._with_edge_headers(message, closes=closes and self._shutdown.is_set(), upgrades=closes)
            await _send_bounded(send, message, reading, is_alone=closes)

        if (refusal := self._refusal(scope)) is not None:
            await self._send_edge_answer(send_on, refusal, closes=closes)
            return
        try:
            await self._app(scope, receive, send_on)
        except ClientGone:
            raise
        except Exception:  # last resort, as in the native server
            if started:
                raise  # Hypercorn logs the error and closes the connection
            _logger.exception("The app failed on %s %s", scope["method"], scope["path"])
            failure = RequestRefused(500, "The server failed on this request.")
            await self._send_edge_answer(send_on, failure, closes=closes)

    async def _send_edge_answer(self, send: Send, refusal: RequestRefused, *, closes: bool) -> None:
        headers, body = self._upgrades.edge_answer(refusal.status, refusal.sentence)
        headers = [*headers, *refusal.headers, (b"content-length", b"%d" % len(body))]
        headers += [(b"connection", refusal.connection)] if closes else []
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _with_edge_headers(self, start: ResponseStart, *, closes: bool, upgrades: bool) -> ResponseStart:
        headers = [(name.lower(), value) for name, value in start.get("headers", ())]
        if not upgrades:  # HTTP/2 has no Upgrade header
            headers = [(name, value) for name, value in headers if name != b"upgrade"]
        elif any(name == b"upgrade" for name, _ in headers) and all(name != b"connection" for name, _ in headers):
            headers.append((b"connection", b"upgrade"))
        if all(name != b"server" for name, _ in headers):
            headers.append((b"server", b"sluice"))
        if closes and (b"connection", b"close") not in headers:
            headers.append((b"connection", b"close"))
        return {"type": "http.response.start", "status": start["status"], "headers": headers}

    def _refusal(self, scope: HTTPScope) -> RequestRefused | None:
        """Return the refusal of a request that h11 accepts but the native server would refuse.

        None if both accept it.
        """
        try:
            _judge(scope, self._bounds)
            if scope["path"] in self._upgrades.paths:
                read_handshake(scope["method"], scope["http_version"], scope["headers"])
        except RequestRefused as refusal:
            return refusal
        return None


def _judge(scope: HTTPScope, bounds: Bounds) -> None:
    """Reject a request that the native server would refuse, such as one whose body has an ambiguous end.

    Raises:
        RequestRefused: with the status of the native server.
    """
    method, version, headers = scope["method"], scope["http_version"], scope["headers"]
    if not method.isupper():
        raise RequestRefused(400, "This is not HTTP.")
    if method == "CONNECT":
        raise RequestRefused(501, "This server is not a proxy.")
    if version not in {"1.0", "1.1", "2"}:
        raise RequestRefused(505, "This server supports HTTP/1.1 and HTTP/1.0.")
    if len(scope["raw_path"]) + len(scope["query_string"]) >= bounds.request_line_bytes:
        raise RequestRefused(414, "The request target is too long.")
    if len(headers) > bounds.header_count:
        raise RequestRefused(431, "The request's headers are too large or too many.")
    if any(name == b"expect" and value.lower() != b"100-continue" for name, value in headers):
        raise RequestRefused(417, "The only supported expectation is 100-continue.")
    names = {name for name, _ in headers}
    if b"transfer-encoding" in names and (b"content-length" in names or version == "1.0"):
        raise RequestRefused(400, "Transfer-Encoding can only be chunked, on HTTP/1.1 and without Content-Length.")


async def _send_bounded(send: Send, message: SendMessage, reading: ClientReading, *, is_alone: bool) -> None:
    """Send a message of a response within the limits for slow readers. `is_alone` is False for HTTP/2 streams.

    Raises:
        ClientGone: the client no longer reads the response (HTTP/2).
    """
    if message["type"] == "http.response.body":
        reading.held = message.get("held", b"")
    if is_alone:
        await send(message)
    elif reading.given_up:
        raise ClientGone("The client did not read its response in time.")
    else:
        body = message.get("body", b"") if message["type"] == "http.response.body" else b""
        await reading.bounded_stream(send(message), body)
