"""One WebSocket of the native server: `receive` and `send` for one call of the app (ASGI 3, websocket scope).

As with plain requests, the socket is read only while the app waits in `receive`. At other times, no pings are sent or
answered and no disconnect is detected, so an app should always have a task in `receive`.

The server side of trio-websocket was considered, but it is not suitable:

- An error in a client's frames (no mask, text that is not UTF-8, ...) ends the connection without a close frame, so no
  client ever receives 1002 or 1007.
- The size of a message is counted in characters, which allows four times the bytes.
- Data that arrived together with the handshake is not read until the client sends more.
- A separate task reads into a queue. That costs a nursery and a second task for every connection, and while the queue
  is full, a client's pong is not read.

This server therefore reads the frames with wsproto, as trio-websocket does. The tests connect with trio-websocket's
client.
"""

import trio
from wsproto.frame_protocol import CloseReason

from gateway.server.asgi import (
    ReceiveMessage,
    Scope,
    SendMessage,
    WebSocketAccept,
    WebSocketClose,
    WebSocketScope,
    WebSocketSend,
)
from gateway.server.edge import Edge
from gateway.server.errors import AppMisbehaved, Headers
from gateway.server.exchange import Exchange
from gateway.server.http1.fields import fields_of
from gateway.server.http1.request_head import RequestHead
from gateway.server.http1.response_head import switching_lines
from gateway.server.websocket.handshake import Handshake
from gateway.server.websocket.line import LOST, SocketLine
from gateway.server.wire import Wire

REFUSED = "The WebSocket was refused."


class WebSocket(Exchange):
    """The state of one call of the app. Before the app accepts, it can also send a response, as for any request."""

    __slots__ = ("_connected", "_handshake", "_line", "_settled")

    def __init__(self, wire: Wire, edge: Edge, request: RequestHead, handshake: Handshake) -> None:
        super().__init__(wire, edge, request)
        self._handshake = handshake
        self._line: SocketLine | None = None
        self._settled = trio.Event()  # set when the app has accepted or refused
        self._connected = False  # whether the app has received the connect

    @property
    def accepted(self) -> bool:
        """Return whether the app has accepted the WebSocket, which ends HTTP on this connection."""
        return self._line is not None

    @property
    def scope(self) -> Scope:
        """Return the ASGI scope for the app."""
        request = self._request.scope
        scope: WebSocketScope = {
            "type": "websocket",
            "asgi": request["asgi"],
            "http_version": request["http_version"],
            "scheme": "ws",
            "path": request["path"],
            "raw_path": request["raw_path"],
            "query_string": request["query_string"],
            "root_path": request["root_path"],
            "headers": request["headers"],
            "client": request["client"],
            "server": request["server"],
            "subprotocols": [*self._handshake.subprotocols],
            "extensions": {"websocket.http.response": {}},
        }
        if "state" in request:
            scope["state"] = request["state"]
        return scope

    @property
    def gone(self) -> bool:
        """Return whether the client has disconnected or was disconnected.

        In that case, a failed send is not the app's error.
        """
        end = None if self._line is None else self._line.end
        return super().gone or (end is not None and not end.here)

    async def receive(self) -> ReceiveMessage:
        """Return the connect event and, after the accept, the client's messages.

        After the end, each call returns the disconnect.
        """
        if not self._connected:
            self._connected = True
            await trio.lowlevel.checkpoint()
            return {"type": "websocket.connect"}
        await self._settled.wait()
        received = None if self._line is None else await self._line.receive()
        if isinstance(received, str):
            return {"type": "websocket.receive", "text": received, "bytes": None}
        if received is not None:
            return {"type": "websocket.receive", "text": None, "bytes": received}
        end = LOST if self._line is None or self._line.end is None else self._line.end
        return {"type": "websocket.disconnect", "code": end.code, "reason": end.reason}

    async def send(self, message: SendMessage) -> None:
        """Send a message of the app: accept, send, close, or a part of a response that refuses the WebSocket.

        Raises:
            ClientGone: the client has closed or disconnected, or did not read in time.
            AppMisbehaved: the message is invalid in the WebSocket's current state.
        """
        if message["type"] == "websocket.send" and self._line is not None:
            await self._line.send_message(payload_of(message))
        elif message["type"] == "websocket.close":
            await self._close(message)
        elif self.accepted:
            raise AppMisbehaved(f"The app sent {message['type']} out of turn.")
        elif message["type"] == "websocket.accept":
            await self._accept(message)
        elif message["type"] == "websocket.http.response.start":
            headers = message.get("headers", ())
            await super().send({"type": "http.response.start", "status": message["status"], "headers": headers})
        elif message["type"] == "websocket.http.response.body":
            await self._refuse(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise AppMisbehaved(f"The app sent {message['type']} out of turn.")

    async def _accept(self, message: WebSocketAccept) -> None:
        if self._lines is not None:
            raise AppMisbehaved("The app accepted a WebSocket that it had refused.")
        fields = switching_fields(self._handshake, message.get("subprotocol"))
        lines = switching_lines(fields_of(message.get("headers", ())), self._edge.shapes, date=self._edge.date)
        lines += [b"%b: %b" % field for field in fields]
        self.started = True
        try:
            await self._wire.write(b"\r\n".join((*lines, b"", b"")))
            self._wire.owner = self._edge.unsent.owner_of(self._request.scope["headers"])
            self._line = SocketLine(self._wire, self._edge.bounds)
        finally:
            self._settled.set()
        await trio.lowlevel.checkpoint()

    async def _close(self, message: WebSocketClose) -> None:
        if self._line is not None:
            await self._line.close(message.get("code", CloseReason.NORMAL_CLOSURE.value), message.get("reason") or "")
            return
        headers, body = self._edge.edge_answer(403, REFUSED)
        await super().send({"type": "http.response.start", "status": 403, "headers": headers})
        await self._refuse(body, more=False)

    async def _refuse(self, body: bytes, *, more: bool) -> None:
        try:
            await super().send({"type": "http.response.body", "body": body, "more_body": more})
        finally:
            if not more:
                self._settled.set()

    async def leave(self, *, failed: bool) -> None:
        """End an accepted WebSocket after the app has ended, normally or with an error."""
        assert self._line is not None
        await self._line.leave(CloseReason.INTERNAL_ERROR if failed else CloseReason.NORMAL_CLOSURE)

    def go_away(self) -> None:
        """End an accepted WebSocket immediately, because the server stops."""
        assert self._line is not None
        self._line.part(CloseReason.GOING_AWAY)


def payload_of(message: WebSocketSend) -> str | bytes:
    """Return the text or the bytes in the app's message.

    Raises:
        AppMisbehaved: the message has neither.
    """
    data, text = message.get("bytes"), message.get("text")
    whole = text if data is None else data
    if whole is None:
        raise AppMisbehaved("The app sent neither text nor bytes.")
    return whole


def switching_fields(handshake: Handshake, subprotocol: str | None) -> Headers:
    """Return the headers of the response that accepts a handshake.

    Raises:
        AppMisbehaved: the client does not offer `subprotocol`.
    """
    if subprotocol is not None and subprotocol not in handshake.subprotocols:
        raise AppMisbehaved("The app chose a subprotocol that the client does not offer.")
    chosen = [] if subprotocol is None else [(b"sec-websocket-protocol", subprotocol.encode())]
    return [
        (b"upgrade", b"websocket"),
        (b"connection", b"upgrade"),
        (b"sec-websocket-accept", handshake.accept),
        *chosen,
    ]
