"""Hypercorn's HTTP/2 with fixes, so that no stream can end the connection or delay other streams.

- In Hypercorn, DATA for a stream that had just ended closed the whole connection (pgjones/hypercorn#329). A client that
  was still sending a body after its response lost all other responses. Here, such data is dropped.
- If an app did not read a request's body, no data was read for any stream of the connection. Here, the unread body
  waits in its stream. The stream's flow-control window limits its size, and reopens as the app reads.
- An app's `send` hung after the client had disconnected. Here, the disconnect ends the send.
- A stopping server sent GOAWAY before the end of its last response, and the end was never sent. Here, GOAWAY is sent
  after it.
- A client that opened streams and reset them could start any number of app calls (CVE-2023-44487). Here, such a client
  is disconnected.
- PRIORITY frames, which RFC 9113 has deprecated, could raise an error in Hypercorn's priority tree. Here, they are
  ignored.
- WebSockets over HTTP/2 (RFC 8441) are not offered, so browsers open a separate connection for each WebSocket.
"""

from contextlib import suppress
from typing import cast

import h2.events
import trio
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hypercorn.events import Closed, Event, Updated
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.events import EndBody, Request, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h2 import H2Protocol, StreamBuffer
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.typing import AppWrapper, ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, ASGISendEvent, Scope
from hypercorn.utils import filter_pseudo_headers

from gateway.server.errors import ClientGone

END_S = 1.0
"""How many seconds the end of a response may take to be sent, after all bytes of the response were sent."""
APPS_MAX = 200
"""The maximum number of running app calls per connection, which is twice the number of streams that may be open."""


class HTTP2Stream(HTTPStream):
    """A request on a connection. Its body is stored here until the app reads it."""

    def __init__(self, owner: "GuardedH2Protocol", stream_id: int) -> None:
        super().__init__(
            cast("AppWrapper", self._run),
            owner.config,
            owner.context,
            owner.task_group,
            owner.ssl,
            owner.client,
            owner.server,
            owner.stream_send,
            stream_id,
        )
        self._owner = owner
        self._body = bytearray()
        self._unacknowledged = 0
        self._is_whole = False
        self._is_delivered = False  # whether the app has received the end of the body
        self._changed = trio.Event()

    async def handle(self, event: StreamEvent) -> None:
        """Handle an event of the connection for this stream. Only a request starts a call of the app."""
        if isinstance(event, Request):
            await super().handle(event)
        elif isinstance(event, EndBody):
            self._is_whole = True
        elif isinstance(event, StreamClosed):
            self.closed = True
            await self._acknowledge()
        self._changed.set()

    def take(self, data: bytes, window_bytes: int) -> None:
        """Store bytes of the body. `window_bytes` is the part of the flow-control window that they used."""
        self._body += data
        self._unacknowledged += window_bytes
        self._changed.set()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the available part of the body, or wait for more.

        After the last part, each call returns the disconnect.
        """
        while not self.closed:
            if self._body or (self._is_whole and not self._is_delivered):
                data, self._is_delivered = bytes(self._body), self._is_whole
                self._body.clear()
                await self._acknowledge()
                return {"type": "http.request", "body": data, "more_body": not self._is_delivered}
            self._changed = trio.Event()
            await self._changed.wait()
        await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    async def app_send(self, message: ASGISendEvent | None) -> None:
        """Send a message of the app. None means that the app has ended.

        Raises:
            ClientGone: the client no longer reads the response.
        """
        if message is not None and (self.closed or self._owner.closed):
            await trio.lowlevel.checkpoint()
            raise ClientGone("The client has left.")
        await super().app_send(message)

    async def _acknowledge(self) -> None:
        """Reopen the flow-control window by the bytes that the app has read."""
        count, self._unacknowledged = self._unacknowledged, 0
        await self._owner.acknowledge(count, self.stream_id)

    async def _run(self, scope: Scope, _receive: ASGIReceiveCallable, send: ASGISendCallable, *threads: object) -> None:
        self._owner.apps += 1
        try:
            with suppress(ClientGone):
                await self._owner.app(scope, self.receive, send, *threads)  # type: ignore[arg-type]  # Hypercorn's own
        finally:
            self._owner.apps -= 1


class GuardedH2Protocol(H2Protocol):
    """HTTP/2 on one connection."""

    def __init__(self, wrapper: ProtocolWrapper) -> None:
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
        self.apps = 0
        """The number of running app calls, including calls whose stream was reset by the client."""
        self.gone = trio.Event()
        """Set when either side has closed the connection."""
        self._ends: dict[int, trio.Event] = {}
        offered = {SettingCodes(code): value for code, value in self.connection.local_settings.items()}
        offered[SettingCodes.ENABLE_CONNECT_PROTOCOL] = 0
        self.connection.local_settings = Settings(client=False, initial_values=offered)

    async def handle(self, event: Event) -> None:
        """Handle data from the client, or the end of the connection, which ends every waiting send."""
        await super().handle(event)
        if isinstance(event, Closed):
            self.gone.set()
            for buffer in [*self.stream_buffers.values()]:
                await buffer.close()

    async def acknowledge(self, count: int, stream_id: int) -> None:
        """Allow the client to send `count` more bytes on the connection, and on the stream if it is still open."""
        if count and not self.closed:
            with suppress(ProtocolError):
                self.connection.acknowledge_received_data(count, stream_id)
            await self._flush()

    async def say_goodbye(self, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Announce to the client that the connection closes (GOAWAY)."""
        with suppress(ProtocolError):
            self.connection.close_connection(code)
        await self._flush()

    async def stream_send(self, event: StreamEvent) -> None:
        """Send an event on a stream. A connection counts as idle only after the end of its last response was sent.

        If the server is stopping, an idle connection sends GOAWAY, and after that the end of a stream cannot be sent.
        """
        if not isinstance(event, StreamClosed):
            await super().stream_send(event)
            return
        # Shielded, because an app may cancel itself when its response ends, which would also cancel this code.
        with trio.move_on_after(END_S, shield=True):
            await self._close_stream(event.stream_id)
            buffer = self.stream_buffers.get(event.stream_id)
            if buffer is not None and buffer.complete:
                ended = self._ends[event.stream_id] = trio.Event()
                await ended.wait()
        with trio.move_on_after(END_S, shield=True):
            await self.send(Updated(idle=all(stream.idle for stream in self.streams.values())))

    async def _send_data(self, stream_id: int) -> None:
        await super()._send_data(stream_id)
        if stream_id not in self.stream_buffers and (ended := self._ends.pop(stream_id, None)) is not None:
            ended.set()

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.DataReceived):
                await self._take_body(event)
            else:
                await super()._handle_events([event])
        await self._flush()

    async def _take_body(self, event: h2.events.DataReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if isinstance(stream, HTTP2Stream):
            stream.take(event.data, event.flow_controlled_length)
        else:  # the response was sent, or the request was for a WebSocket and is refused
            await self.acknowledge(event.flow_controlled_length, event.stream_id)

    async def _create_stream(self, request: h2.events.RequestReceived) -> None:
        pseudo = {name: value for name, value in request.headers if name.startswith(b":")}
        method, path = pseudo[b":method"], pseudo.get(b":path", b"")
        if self.apps >= APPS_MAX:
            await self.say_goodbye(ErrorCodes.ENHANCE_YOUR_CALM)
            await self.send(Closed())
        elif method == b"CONNECT":  # for a WebSocket or for a proxy, neither of which this server offers here
            refusal = [(b":status", b"403" if path else b"501"), (b"content-length", b"0"), (b"server", b"sluice")]
            self.connection.send_headers(request.stream_id, refusal, end_stream=True)
        elif not (path.isascii() and method.isascii()):
            self.connection.reset_stream(request.stream_id, ErrorCodes.PROTOCOL_ERROR)
        else:
            await self._begin(request, method.decode().upper(), path)

    async def _begin(self, request: h2.events.RequestReceived, method: str, path: bytes) -> None:
        stream = self.streams[request.stream_id] = HTTP2Stream(self, request.stream_id)
        self.stream_buffers[request.stream_id] = StreamBuffer(self.context.event_class)
        self.priority.insert_stream(request.stream_id)
        self.priority.block(request.stream_id)
        headers = filter_pseudo_headers(request.headers)
        asked = Request(
            stream_id=request.stream_id,
            headers=headers,
            http_version="2",
            method=method,
            raw_path=path,
            state=self.connection_state,
        )
        await stream.handle(asked)
        self.keep_alive_requests += 1
        await self.context.mark_request()

    async def _priority_updated(self, event: h2.events.PriorityUpdated) -> None:
        """Ignore the change, because all streams have the same priority."""
