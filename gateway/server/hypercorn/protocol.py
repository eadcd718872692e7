"""Hypercorn's connection with fixes for upgrades, unlimited sends, connections that stayed open, and lost responses.

The module `http2` contains the fixes for HTTP/2.

- A malformed upgrade request makes Hypercorn respond twice, which h11 refuses, or fail on the request's headers. Here,
  upgrades of HTTP/1.1 are ignored, as RFC 9110, 7.8 allows, and requests for h2c or websocket get a plain response. The
  only exception is a valid request for a WebSocket on a path where the app accepts WebSockets.
- A send was shielded from cancellation and had no deadline, so a client that read nothing could delay a stop forever.
  Here, every send has a deadline.
- The connection was closed or reused in the app's own task, after the app had sent its response. Apps that then cancel
  their own tasks, as quart-trio does, also cancelled the close, and the connection stayed open. Here, the close is
  shielded.
- If a response has `Connection: close`, h11 reports an error for further bytes after the request, and Hypercorn then
  dropped the response. Here, such bytes are ignored.
- For bytes that h11 cannot read, Hypercorn sent a response without a body. Here, the native server's response is sent.
- Any other failure in a connection could end the server. Here, the failure is logged and ends only that connection.
"""

import logging
from contextlib import suppress
from typing import cast

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.events import EndData, Request
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState

from gateway.server.hypercorn.http2 import GuardedH2Protocol
from gateway.server.hypercorn.reading import ClientReading
from gateway.server.hypercorn.websocket import LINGER_S, Upgrades, WebSocketStream

RECYCLE_S = 5.0
_CLOSING = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError)
"""The errors of a stream that is closed, or that another task is closing now."""
_REFUSED = {414: "The request target is too long.", 431: "The request's headers are too large or too many."}
_logger = logging.getLogger("sluice.server")


class _UntilClose(h11.Connection):
    """Wraps h11's connection and ignores data after the last request."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event. After the last request there are no more events."""
        return h11.NEED_DATA if self.their_state is h11.MUST_CLOSE else super().next_event()


class HalfClosed(Event):
    """The server sends no more data, because a WebSocket has ended. The client may still send data."""


class PlainH11Protocol(H11Protocol):
    """HTTP/1.1, which can switch only to a WebSocket, on a path where the app accepts one."""

    def __init__(self, wrapper: ProtocolWrapper, upgrades: Upgrades) -> None:
        super().__init__(
            wrapper.app,
            wrapper.config,
            wrapper.context,
            wrapper.task_group,
            wrapper.state,
            wrapper.ssl,
            wrapper.client,
            wrapper.server,
            wrapper.send,
        )
        self._upgrades = upgrades
        self.connection = _UntilClose(h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size)

    async def _check_protocol(self, event: h11.Request) -> None:
        """Override Hypercorn's hook for upgrades to HTTP/2, which are not supported."""

    async def _create_stream(self, request: h11.Request) -> None:
        handshake = self._upgrades.handshake(request)
        if handshake is None:
            own = (self.app, self.config, self.context, self.task_group, self.ssl, self.client, self.server)
            self.stream = HTTPStream(*own, self.stream_send, STREAM_ID)
        else:
            socket = WebSocketStream(self, handshake, self._upgrades.edge_answer)
            self.stream = cast("WSStream", socket)
            self.connection = H11WSConnection(cast("h11.Connection", self.connection))
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii"),
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1
        await self.context.mark_request()

    async def _send_error_response(self, status_code: int) -> None:
        """Refuse bytes that h11 cannot read, with the statuses and bodies of the native server."""
        status = 400 if status_code == 501 else status_code  # 501 means a transfer coding that h11 does not know
        if status == 431 and b"\n" not in self.connection.trailing_data[0]:
            status = 414
        headers, body = self._upgrades.edge_answer(status, _REFUSED.get(status, "The request is malformed."))
        headers += [(b"content-length", b"%d" % len(body)), (b"connection", b"close"), (b"server", b"sluice")]
        headers += self.config.response_headers("h11")
        await self._send_h11_event(h11.Response(status_code=status, headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())

    async def stream_send(self, event: StreamEvent) -> None:
        """Handle an event that the stream sends to the connection."""
        if isinstance(event, EndData):
            await self.send(HalfClosed())
        else:
            await super().stream_send(event)

    async def _maybe_recycle(self) -> None:
        """Close or reuse the connection. Shielded, because the app may cancel itself at the end of its response."""
        with trio.move_on_after(RECYCLE_S, shield=True):
            await super()._maybe_recycle()


class GuardedConnection(TCPServer):
    """One client's connection."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        *,
        state: ConnectionState,
        stream: trio.abc.Stream,
        reading: ClientReading,
        upgrades: Upgrades,
    ) -> None:
        self._upgrades = upgrades
        super().__init__(app, config, context, state, stream)  # type: ignore[arg-type]  # plain ones work too
        self._reading = reading

    async def run(self) -> None:
        """Serve the client. Every failure is handled here."""
        try:
            await super().run()
        except Exception:  # last resort: the failure of one connection must not end the server
            _logger.exception("A connection failed")
        finally:
            await trio.aclose_forcefully(self.stream)  # when cancelled, Hypercorn does not close the connection itself

    @property
    def protocol(self) -> ProtocolWrapper:
        """Return Hypercorn's protocol for this connection, with its bugs fixed."""
        return self._guarded

    @protocol.setter
    def protocol(self, made: ProtocolWrapper) -> None:
        if isinstance(made.protocol, H11Protocol):
            made.protocol = PlainH11Protocol(made, self._upgrades)
        else:
            made.protocol = GuardedH2Protocol(made)
        self._guarded = made

    async def protocol_send(self, event: Event) -> None:
        """Handle an event that the protocol sends to the socket.

        End the connection if the client does not read in time.
        """
        if isinstance(event, HalfClosed):
            await self._half_close()
            return
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        async with self.send_lock:
            if self._reading.given_up:  # the app may send more messages after that
                return
            try:
                with self._reading.bounded(event.data) as patience:
                    await self.stream.send_all(event.data)
            except _CLOSING:
                await self.protocol.handle(Closed())
            if patience.cancelled_caught:
                await trio.aclose_forcefully(self.stream)
                await self.protocol.handle(Closed())

    async def _initiate_server_close(self) -> None:
        if isinstance(self.protocol.protocol, GuardedH2Protocol):
            await self._leave(self.protocol.protocol)
        await super()._initiate_server_close()

    async def _leave(self, protocol: GuardedH2Protocol) -> None:
        """Send GOAWAY and let the client close first. Otherwise it could lose a response that it has not read."""
        await protocol.say_goodbye()
        async with self.send_lock:
            with suppress(*_CLOSING, AttributeError):
                await self.stream.transport_stream.send_eof()
        with trio.move_on_after(LINGER_S):
            await protocol.gone.wait()

    async def _half_close(self) -> None:
        if isinstance(self.stream, trio.SocketStream):  # TLS has no half-close
            async with self.send_lock:
                with suppress(*_CLOSING):
                    await self.stream.send_eof()
