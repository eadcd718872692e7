"""A WebSocket of Hypercorn's HTTP/1.1, with the guarantees of the native server.

This module replaces Hypercorn's `WSStream`, which has too many bugs to fix one by one:

- If bytes arrive before the accept, the client gets 400 whatever the app does, and the app receives no further event
  (pgjones/hypercorn#225).
- An error in a client's frames ends the connection without a close frame.
- Compressed messages are inflated without a limit.
- Unanswered pings are not detected.
- An app that does not receive can delay the close.
"""

import logging
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote

import h11
import trio
from hypercorn.protocol.events import Body, Data, EndBody, EndData, Event, Request, Response, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.typing import AppWrapper, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, Scope
from wsproto.events import CloseConnection, Pong
from wsproto.frame_protocol import CloseReason

from gateway.server.asgi import ReceiveMessage, SendMessage, State, WebSocketAccept, WebSocketClose, WebSocketScope
from gateway.server.errors import AppMisbehaved, ClientGone, EdgeAnswer, Headers, RequestRefused
from gateway.server.http1.fields import fields_of
from gateway.server.http1.response_head import switching_lines
from gateway.server.websocket.engine import REFUSED, payload_of, switching_fields
from gateway.server.websocket.frames import Control, Frames
from gateway.server.websocket.handshake import Handshake, read_handshake
from gateway.server.websocket.line import LOST, SocketEnd

GOODBYE_S = 0.5
"""Seconds that a graceful stop waits at its end for a client to read the close frame."""
LINGER_S = 1.0
"""Seconds to wait for the client to close its side."""
_logger = logging.getLogger("sluice.server")


@dataclass(frozen=True, slots=True)
class Upgrades:
    """The paths on which the app accepts WebSockets, and the server's response when the app sends none."""

    paths: frozenset[str]
    edge_answer: EdgeAnswer

    def handshake(self, request: h11.Request) -> Handshake | None:
        """Return the handshake of a WebSocket request.

        Return None if the request gets a plain response, which may be a refusal.
        """
        if unquote(request.target.partition(b"?")[0].decode("ascii")) not in self.paths:
            return None
        with suppress(RequestRefused):
            return read_handshake(request.method.decode(), request.http_version.decode(), list(request.headers))
        return None


class WebSocketStream:
    """A WebSocket request. Translates between the events of Hypercorn's protocol and ASGI."""

    idle = False

    def __init__(self, owner: H11Protocol, handshake: Handshake, edge_answer: EdgeAnswer) -> None:
        self._owner = owner
        self._handshake = handshake
        self._edge_answer = edge_answer
        self._ping_s = owner.config.websocket_ping_interval or math.inf
        self._frames = Frames(owner.config.websocket_max_message_size)
        self._incoming, self._messages = trio.open_memory_channel[str | bytes](0)
        self._settled = trio.Event()  # set when accepted, refused, or ended
        self._gone = trio.Event()  # set when the client has disconnected
        self._refusal: tuple[int, Headers] | None = None  # unsent status and headers of a refusal
        self._answered = False
        self._accepted = False
        self._connected = False  # whether the app has received the connect event
        self._busy = 0  # the number of sends in progress, plus one while a message waits for the app
        self._pinged = False
        self._end: SocketEnd | None = None

    async def handle(self, event: Event) -> None:
        """Handle an event of the connection for this stream."""
        if isinstance(event, Request):
            app, scope = cast("AppWrapper", self._run), cast("Scope", self._scope(event))
            await self._owner.task_group.spawn_app(app, self._owner.config, scope, self._on_end_of_app)
        elif isinstance(event, Data):
            await self._read(event.data)
        elif isinstance(event, StreamClosed):
            self._gone.set()
            self._stop(LOST)

    def _scope(self, request: Request) -> WebSocketScope:
        path, _, query = request.raw_path.partition(b"?")
        return {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.http_version,
            "scheme": "wss" if self._owner.ssl else "ws",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": self._owner.config.root_path,
            "headers": request.headers,
            "client": self._owner.client,
            "server": self._owner.server,
            "subprotocols": [*self._handshake.subprotocols],
            "extensions": {"websocket.http.response": {}},
            "state": cast("State", request.state.copy()),
        }

    async def _run(
        self, scope: Scope, _receive: ASGIReceiveCallable, _send: ASGISendCallable, *threads: object
    ) -> None:
        """Call the app. If it ends without a response or a close, send one."""
        failed = False
        receive, send = cast("ASGIReceiveCallable", self.receive), cast("ASGISendCallable", self.send)
        try:
            await self._owner.app(scope, receive, send, *threads)  # type: ignore[arg-type]  # Hypercorn's own
        except Exception:  # last resort, as in the native server
            failed = True
            if self._end is None or self._end.here:
                _logger.exception("The app failed on a WebSocket")
        if self._accepted:
            await self._close(CloseReason.INTERNAL_ERROR if failed else CloseReason.NORMAL_CLOSURE, "")
            with trio.move_on_after(LINGER_S):
                await self._gone.wait()
        elif not self._answered and not self._gone.is_set():
            if not failed:
                _logger.error("The app sent no response to a request for a WebSocket")
            await self._refuse(500, "The server failed on this request.")

    async def _on_end_of_app(self, _message: ASGISendEvent | None) -> None:
        """Called by Hypercorn when the app has ended. If the app was cancelled, the WebSocket is closed here."""
        self._stop(LOST if not self._accepted else None)
        self._messages.close()
        if self._accepted:
            with trio.CancelScope(deadline=trio.current_time() + GOODBYE_S, shield=True):
                await self._close(CloseReason.GOING_AWAY, "")
        await self._owner.stream_send(StreamClosed(stream_id=STREAM_ID))

    async def receive(self) -> ReceiveMessage:
        """Return the connect event, then the client's messages. After the end, each call returns the disconnect."""
        if not self._connected:
            self._connected = True
            await trio.lowlevel.checkpoint()
            return {"type": "websocket.connect"}
        try:
            received = await self._messages.receive()
        except trio.EndOfChannel:
            end = self._end or LOST
            return {"type": "websocket.disconnect", "code": end.code, "reason": end.reason}
        text, data = (received, None) if isinstance(received, str) else (None, received)
        return {"type": "websocket.receive", "text": text, "bytes": data}

    async def _read(self, data: bytes) -> None:
        """Handle data from the client. Waits for the accept, and then until the app has received the messages."""
        await self._settled.wait()
        if not self._accepted or self._end is not None:
            return
        self._frames.feed(data)
        while self._end is None and (received := self._frames.take()) is not None:
            if isinstance(received, str | bytes):
                self._busy += 1
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the app or the WebSocket has ended
                    await self._incoming.send(received)
                self._busy -= 1
            else:
                await self._handle_control(received)

    async def _handle_control(self, control: Control) -> None:
        reply = self._frames.answer(control)
        if isinstance(control, Pong):
            self._pinged = False
        elif isinstance(control, CloseConnection):
            self._stop(SocketEnd(int(control.code), control.reason or "", here=False))
        if reply:
            await self._write(reply)
        if self._end is not None:
            await self._owner.stream_send(EndData(stream_id=STREAM_ID))

    async def send(self, message: SendMessage) -> None:
        """Send a message of the app.

        Raises:
            ClientGone: the client has closed or disconnected.
            AppMisbehaved: the message is invalid in the WebSocket's current state.
        """
        if message["type"] == "websocket.send" and self._accepted:
            if self._end is not None and not self._end.here:
                raise ClientGone("The client has closed the WebSocket.")
            if self._end is not None:
                raise AppMisbehaved("The app sent a message after its close.")
            await self._write(self._frames.message(payload_of(message)))
        elif message["type"] == "websocket.close":
            await self._close_or_refuse(message)
        elif message["type"] == "websocket.accept" and not self._accepted and self._refusal is None:
            await self._accept(message)
        elif message["type"] == "websocket.http.response.start" and not self._accepted and self._refusal is None:
            self._refusal = message["status"], [*message.get("headers", ())]
        elif message["type"] == "websocket.http.response.body" and self._refusal is not None:
            await self._answer(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise AppMisbehaved(f"The app sent {message['type']} out of turn.")

    async def _accept(self, message: WebSocketAccept) -> None:
        headers = [*message.get("headers", ())]
        fields = switching_fields(self._handshake, message.get("subprotocol"))
        switching_lines(fields_of(headers), {}, date=b"")  # called only to reject invalid headers
        await self._owner.stream_send(
            Response(stream_id=STREAM_ID, status_code=101, headers=[*headers, (b"server", b"sluice"), *fields])
        )
        self._accepted = True
        self._settled.set()
        self._owner.task_group.spawn(self._keep_pinging)

    async def _close_or_refuse(self, message: WebSocketClose) -> None:
        if self._accepted:
            await self._close(message.get("code", CloseReason.NORMAL_CLOSURE.value), message.get("reason") or "")
        elif self._refusal is None:
            await self._refuse(403, REFUSED)
        else:
            raise AppMisbehaved("The app closed a WebSocket that it had refused.")

    async def _refuse(self, status: int, sentence: str) -> None:
        """Send the server's own response."""
        headers, body = self._edge_answer(status, sentence)
        self._refusal = status, [*headers, (b"content-length", b"%d" % len(body))]
        await self._answer(body, more=False)

    async def _answer(self, body: bytes, *, more: bool) -> None:
        """Send a piece of the response that refuses the WebSocket. After the last piece, the connection ends."""
        assert self._refusal is not None
        if not self._answered:
            status, given = self._refusal
            headers = [(name.lower(), value) for name, value in given if name.lower() != b"connection"]
            headers += [(b"server", b"sluice"), (b"connection", b"close")]
            await self._owner.stream_send(Response(stream_id=STREAM_ID, status_code=status, headers=headers))
            self._answered = True
        await self._owner.stream_send(Body(stream_id=STREAM_ID, data=body))
        if not more:
            await self._owner.stream_send(EndBody(stream_id=STREAM_ID))
            self._stop(LOST)

    async def _keep_pinging(self) -> None:
        """Send regular pings. End the WebSocket if a ping is still unanswered when the next one must be sent.

        Pongs are not read while a message is being sent, or while the app does not receive. The WebSocket is not ended
        during these times.
        """
        while self._end is None:
            with trio.move_on_after(self._ping_s):
                await self._gone.wait()
            if self._end is None and not self._pinged:
                self._pinged = True
                await self._write(self._frames.ping())
            elif self._end is None and not self._busy:
                self._stop(LOST)
                await self._owner.stream_send(StreamClosed(stream_id=STREAM_ID))

    async def _write(self, frame: bytes) -> None:
        self._busy += 1
        try:
            await self._owner.stream_send(Data(stream_id=STREAM_ID, data=frame))
        finally:
            self._busy -= 1

    async def _close(self, code: int, reason: str) -> None:
        if self._end is None:
            frame = self._frames.close(code, reason)
            self._stop(SocketEnd(int(code), reason, here=True))
            await self._write(frame)
            await self._owner.stream_send(EndData(stream_id=STREAM_ID))

    def _stop(self, end: SocketEnd | None) -> None:
        """End the stream, and wake all tasks that wait for it. No further message arrives."""
        self._end = self._end or end
        self._settled.set()
        if self._end is not None:
            self._incoming.close()
