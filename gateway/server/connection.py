"""The task of one connection: reads a request's head, lets the app respond, and reads the next head."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import trio

from gateway.server.asgi import ASGIApp
from gateway.server.edge import Edge, Shedding
from gateway.server.errors import ClientGone, RequestRefused
from gateway.server.exchange import Exchange
from gateway.server.http1.fields import fields_of
from gateway.server.http1.request_head import Peer, RequestHead, RequestHeadReader
from gateway.server.http1.response_head import head_lines
from gateway.server.wire import HEAD_READ_BYTES, Wire

if TYPE_CHECKING:
    from gateway.server.websocket.engine import WebSocket

LINGER_BYTES = 65_536
FAILED = "The app failed on %s %s"
_logger = logging.getLogger("sluice.server")


class Connection:
    """A client's connection, from the first byte until it is closed."""

    __slots__ = ("_edge", "_exchange", "_heads", "_is_admitted", "_socket", "wire")

    def __init__(self, wire: Wire, edge: Edge, peer: Peer) -> None:
        self.wire = wire
        self._edge = edge
        self._heads = RequestHeadReader(peer, edge.bounds, edge.known_headers)
        self._exchange: Exchange | None = None
        self._socket: WebSocket | None = None  # the same object as `_exchange` if that is a WebSocket
        self._is_admitted = False  # whether `RefusedClients` has already decided to serve the next request

    @property
    def idle(self) -> bool:
        """Return whether the connection waits for the first byte of a request."""
        return self._exchange is None and not self._heads.begun

    def close_if_idle(self) -> None:
        """Wake the connection if it waits between two requests. It then closes unless a request has just arrived."""
        if self.idle:
            self.wire.wake()

    async def run(self) -> None:
        """Serve the client until either side ends the connection. Always close the socket at the end."""
        try:
            await self._serve()
        except ClientGone:
            self.wire.abort()
        except Exception:  # last resort: the failure of one connection must not end the server
            _logger.exception("A connection failed")
            self.wire.abort()
        except BaseException:  # cancelled
            self._end_cancelled()
            raise
        finally:
            self._edge.hangups.drop(self.wire.fd)
            self.wire.close()
            self._edge.connections.discard(self)
            self._edge.room.unpark()

    async def _serve(self) -> None:
        """Serve requests until the client, the idle limit, a stop, a refusal or a response ends the connection."""
        wire, edge, heads = self.wire, self._edge, self._heads
        shedding = edge.shedding
        while True:
            data = wire.unread
            if data:
                wire.unread = b""
                await trio.lowlevel.checkpoint()
            elif edge.closing:
                data = wire.read_nowait(HEAD_READ_BYTES)
            else:
                wire.read_by = edge.now() + edge.bounds.idle_s
                data = await wire.read(HEAD_READ_BYTES)
                wire.read_by = math.inf
            if not data:
                return
            try:
                request = heads.take(data) or await self._rest_of_head()
                if request is not None:
                    self._exchange = self._exchange_for(request)
            except RequestRefused as refusal:
                await self._refuse(refusal)
                return
            if request is None:
                return
            wire.unread = request.rest
            if shedding is not None and shedding.active and self._is_refused(request, shedding):
                stays_open = await self._shed(request, shedding)
            else:
                stays_open = await self._answer(request, edge.app)
            if not stays_open:
                return

    async def _rest_of_head(self) -> RequestHead | None:
        """Read the rest of an incomplete head and return the head. Return None if the client ends the connection first.

        Raises:
            RequestRefused: the data is not a valid request, or arrived too slowly.
        """
        wire, heads = self.wire, self._heads
        wire.read_by = self._edge.now() + self._edge.bounds.header_s
        found = None
        while found is None and (data := await wire.read(HEAD_READ_BYTES)):
            found = heads.take(data)
        wire.read_by = math.inf
        if wire.expired and heads.begun:
            raise RequestRefused(408, "The request's headers did not arrive in time.")
        return found

    def _exchange_for(self, request: RequestHead) -> Exchange:
        """Return the exchange for the app.

        It is a WebSocket if the client requests one on a path that accepts WebSockets.

        Raises:
            RequestRefused: the server does not support this kind of WebSocket request.
        """
        scope, edge = request.scope, self._edge
        if scope["path"] in edge.websocket_paths:
            from gateway.server.websocket.engine import WebSocket  # noqa: PLC0415 - most nodes never need its library
            from gateway.server.websocket.handshake import read_handshake  # noqa: PLC0415 - see above

            handshake = read_handshake(scope["method"], scope["http_version"], scope["headers"])
            if handshake is not None:
                self._socket = WebSocket(self.wire, edge, request, handshake)
                return self._socket
        return Exchange(self.wire, edge, request)

    def _is_refused(self, request: RequestHead, shedding: Shedding) -> bool:
        """Return whether to refuse the request because of overload. `RefusedClients` may have admitted it already."""
        is_admitted, self._is_admitted = self._is_admitted, False
        return not is_admitted and shedding.refuses(request.scope["path"], request.scope["headers"])

    async def _shed(self, request: RequestHead, shedding: Shedding) -> bool:
        """Refuse the request because of overload. Return whether the connection stays open."""
        edge, scope = self._edge, request.scope
        is_plain = scope["method"] == "GET" and scope["http_version"] == "1.1" and request.body is None
        if not is_plain or not request.keep_alive or edge.stopping or edge.full:
            return await self._answer(request, shedding.refuse)
        self._exchange = None
        wire = self.wire
        await wire.write(shedding.answer(edge.date))
        if not (wire.unread or edge.closing):
            is_admitted = await edge.refused.wait_next(wire, edge.now() + edge.bounds.idle_s)
            if is_admitted is None:
                return False
            self._is_admitted = is_admitted
        return True

    async def _answer(self, request: RequestHead, app: ASGIApp) -> bool:
        """Let the app respond. Return whether the connection stays open."""
        exchange = self._exchange
        assert exchange is not None
        failed = False
        try:
            await app(exchange.scope, exchange.receive, exchange.send)
        except Exception:  # last resort: the failure of one request must not end the server
            failed = True
            if not exchange.gone:
                _logger.exception(FAILED, request.scope["method"], request.scope["path"])
        except BaseExceptionGroup as group:  # the app was cancelled, and may have failed during its cleanup
            failures, cancelled = group.split(Exception)
            if failures is not None:
                _logger.exception(FAILED, request.scope["method"], request.scope["path"], exc_info=failures)
            assert cancelled is not None
            raise cancelled from None
        finally:
            if exchange.watched:
                self._edge.hangups.forget(self.wire.fd)
        if exchange.finished and exchange.keep_alive:
            self._exchange = None
            return True
        if self._socket is not None and self._socket.accepted:
            await self._socket.leave(failed=failed)
        elif not exchange.finished:
            await self._complete(exchange, request, failed=failed)
        elif self.wire.unread or not exchange.body_read:
            await self.wire.linger(discard_bytes=LINGER_BYTES)
        return False

    async def _complete(self, exchange: Exchange, request: RequestHead, *, failed: bool) -> None:
        """End the exchange properly if the app has not sent a complete response."""
        if exchange.started or self.wire.broken:
            self.wire.abort()
        elif exchange.refusal is not None:
            await self._refuse(exchange.refusal, head_only=exchange.head_only)
        elif failed or not self.wire.ended:
            if not failed:
                _logger.error("The app sent no response to %s %s", request.scope["method"], request.scope["path"])
            await self._refuse(RequestRefused(500, "The server failed on this request."), head_only=exchange.head_only)

    def _end_cancelled(self) -> None:
        """After a cancellation, reset the connection if a response is truncated, or close a WebSocket with a frame."""
        if self._socket is not None and self._socket.accepted:
            self._socket.go_away()
        else:
            self.wire.abort()

    async def _refuse(self, refusal: RequestRefused, *, head_only: bool = False) -> None:
        """Send the server's own response to a refused request. No further request is read from the connection."""
        edge = self._edge
        headers, body = edge.edge_answer(refusal.status, refusal.sentence)
        lines, _, _ = head_lines(refusal.status, fields_of(headers), edge.shapes, date=edge.date)
        lines += (b"%b: %b" % field for field in refusal.headers)  # the Connection header for these is added below
        lines += (b"content-length: %d" % len(body), b"connection: " + refusal.connection)
        lines += (b"", b"" if head_only else body)
        await self.wire.write(b"\r\n".join(lines))
        await self.wire.linger(discard_bytes=LINGER_BYTES)
