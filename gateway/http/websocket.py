"""A response as a WebSocket, accepted with its first message. Earlier errors use their usual HTTP status."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.server.asgi import Receive, Send

TRY_AGAIN_LATER = 1013
POLICY_VIOLATION = 1008
GOING_AWAY = 1001


class SocketStream:
    """One client's WebSocket. Only one task may receive from it."""

    def __init__(self, receive: Receive, send: Send, head: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
        self._receive = receive
        self._send = send
        self._head = head
        self.started = False
        self._ended = False

    async def send_text(self, text: bytes) -> None:
        """Send one message, which is JSON.

        Raises:
            ClientGone: the client has disconnected.
        """
        if not self.started:
            self.started = True
            await self._send({"type": "websocket.accept", "headers": self._head()})
        await self._send({"type": "websocket.send", "text": text.decode()})

    async def receive(self) -> str | bytes | None:
        """Return the client's next message; None once the client has disconnected. Cancelling loses no message."""
        message = await self._receive()
        while message["type"] != "websocket.disconnect":
            if message["type"] == "websocket.receive":
                payload = message["text"] if message["bytes"] is None else message["bytes"]
                assert payload is not None, "a message contains text or bytes"
                return payload
            message = await self._receive()
        self._ended = True
        return None

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket from the server's side.

        Raises:
            ClientGone: the client has disconnected.
        """
        if not self._ended:
            self._ended = True
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def refuse(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Send an error: as the handshake's response or, after the handshake, as the last message before the close.

        Raises:
            ClientGone: the client has disconnected.
        """
        if not self.started:
            await self._send({"type": "websocket.http.response.start", "status": status, "headers": headers})
            await self._send({"type": "websocket.http.response.body", "body": body})
            return
        if self._ended:
            return
        await self.send_text(b'{"type":"error",' + body[1:])
        await self.close(POLICY_VIOLATION if status < 500 else TRY_AGAIN_LATER, "see the last message")
