"""An accepted WebSocket on its socket: messages in, messages out, pings, and one end.

One task may receive, any number may send. The socket is read only while a task receives. No other task and no queue
exist: the sender waits until its message can be sent, and only some bytes of control frames are stored.
"""

from typing import NamedTuple

import trio
from wsproto.events import CloseConnection, Pong
from wsproto.frame_protocol import CloseReason

from gateway.server.bounds import Bounds
from gateway.server.errors import AppMisbehaved, ClientGone
from gateway.server.websocket.frames import Control, Frames
from gateway.server.wire import Wire

READ_BYTES = 4_096
"""Bytes per read. More could contain thousands of frames from a client, which are handled without a pause."""
OWED_BYTES = 1_024
"""The limit of unsent control frames for a client that reads nothing."""
LINGER_BYTES = 1_048_576
"""Bytes from the client that are dropped after a close, so that it can read the reason."""


class SocketEnd(NamedTuple):
    """How a WebSocket ended; `here` if the app closed it."""

    code: int
    reason: str
    here: bool


LOST = SocketEnd(CloseReason.ABNORMAL_CLOSURE.value, "", here=False)


class SocketLine:
    """The state from the accept to the connection's end."""

    __slots__ = ("_bounds", "_frames", "_owed", "_patience", "_ping_at", "_rounds", "_turn", "_wire", "end")

    def __init__(self, wire: Wire, bounds: Bounds) -> None:
        self._wire = wire
        self._bounds = bounds
        self._frames = Frames(bounds.message_bytes)
        self._turn = trio.Lock()  # held while a message is being sent
        self._patience = wire.patience_of_answer()
        self._owed = b""  # control frames, or the rest of one, that precede the next message
        self._ping_at = trio.current_time() + bounds.ping_s
        self._rounds = 0  # since the unanswered ping
        self.end: SocketEnd | None = None

    async def receive(self) -> str | bytes | None:
        """Return the client's next message; None once the WebSocket has ended. Cancelling this loses no message."""
        while self.end is None:
            received = self._frames.take()
            if isinstance(received, str | bytes):
                return received
            if received is not None:
                self._obey(received)
            else:
                await self._listen()
        return None

    def _obey(self, control: Control) -> None:
        self._write_control(self._frames.answer(control))
        if isinstance(control, CloseConnection):
            self.end = self.end or SocketEnd(int(control.code), control.reason or "", here=False)
        elif isinstance(control, Pong):
            self._rounds = 0

    async def _listen(self) -> None:
        """Wait for bytes, or until the next ping."""
        wire = self._wire
        data, wire.unread = wire.unread, b""
        if not data:
            with trio.CancelScope(deadline=self._ping_at) as silence:
                data = await wire.read(READ_BYTES)
            if silence.cancelled_caught:
                data = wire.read_nowait(READ_BYTES)
                self._ping(unread=bool(data))
                if not (data or wire.ended):
                    return
        if data and self._frames.open:
            self._frames.feed(data)
        elif self.end is None:
            self._lose()

    def _ping(self, *, unread: bool) -> None:
        """Send the next ping, or end the WebSocket if the last one is unanswered.

        The pong may be in the unread data if the app has not received for a while, so there is one more round for it,
        but only one. While a message is being sent, the wire's patience with the client applies instead.
        """
        self._ping_at = trio.current_time() + self._bounds.ping_s
        if self.end is not None or self._turn.locked():
            return
        if not self._rounds:
            self._write_control(self._frames.ping())
        elif self._rounds > 1 or not unread:
            self._lose()
        self._rounds += 1

    async def say(self, message: str | bytes) -> None:
        """Send a message.

        Raises:
            ClientGone: the client has closed or disconnected, or did not read in time.
            AppMisbehaved: the app has closed.
        """
        async with self._turn:
            if self.end is not None and self.end.here:
                raise AppMisbehaved("The app sent a message after its close.")
            if self.end is not None:
                raise ClientGone("The client has closed the WebSocket.")
            await self._write(self._frames.message(message))

    async def close(self, code: int, reason: str) -> None:
        """Send a close; nothing if it has ended already.

        Raises:
            ClientGone: the client did not read in time.
        """
        async with self._turn:
            if self.end is None:
                self.end = SocketEnd(code, reason, here=True)
                await self._write(self._frames.close(code, reason))
                self._wire.wake()  # the receiver sees the end

    async def _write(self, frame: bytes) -> None:
        """Write a frame, and the control frames that arise meanwhile; the caller holds the turn."""
        data, self._owed = self._owed + frame, b""
        whole = False
        try:
            while data:
                await self._wire.write(data, self._patience)
                data, self._owed = self._owed, b""
            whole = True
        finally:
            if not whole:  # no frame can follow one that was cut
                self._lose()

    def _write_control(self, frame: bytes) -> None:
        """Write as much of a control frame as possible without waiting. The rest precedes the next message."""
        if len(self._owed) < OWED_BYTES:
            self._owed += frame
        if self._owed and not self._turn.locked():
            try:
                sent = self._wire.write_nowait(self._owed)
            except ClientGone:
                self._lose()
            else:
                self._owed = self._owed[sent:]

    def _lose(self) -> None:
        """Mark the client as disconnected."""
        self._wire.broken = True
        self.end = self.end or LOST
        self._wire.wake()

    def part(self, code: CloseReason) -> bool:
        """Send a close, unless that was done, without waiting; return whether the client can read it."""
        if self.end is None:
            self.end = SocketEnd(code.value, "", here=True)
            self._write_control(self._frames.close(code))
        if self._owed:
            self._wire.broken = True
        if self._wire.broken:
            self._wire.abort()
        return not self._wire.broken

    async def leave(self, code: CloseReason) -> None:
        """End it in good order: for a moment, drop further data from the client."""
        if self.part(code):
            await self._wire.linger(discard_bytes=LINGER_BYTES)
