"""An accepted WebSocket on its socket. Receives and sends messages, sends pings, and closes the connection once.

One task may receive, and any number of tasks may send. The socket is read only while a task receives. There is no extra
task and no queue. A sender waits until its message is sent, and only a few bytes of control frames are stored.
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
"""Bytes per read. A larger read could contain thousands of frames, which are handled without a checkpoint."""
OWED_BYTES = 1_024
"""Maximum number of bytes of unsent control frames for a client that reads nothing."""
LINGER_BYTES = 1_048_576
"""How many bytes from the client are read and dropped after a close, while the client reads the reason."""


class SocketEnd(NamedTuple):
    """How a WebSocket ended. `here` is True if the app closed it."""

    code: int
    reason: str
    here: bool


LOST = SocketEnd(CloseReason.ABNORMAL_CLOSURE.value, "", here=False)


class SocketLine:
    """A WebSocket, from its accept to the end of the connection."""

    __slots__ = ("_bounds", "_frames", "_owed", "_patience", "_ping_at", "_rounds", "_turn", "_wire", "end")

    def __init__(self, wire: Wire, bounds: Bounds) -> None:
        self._wire = wire
        self._bounds = bounds
        self._frames = Frames(bounds.message_bytes)
        self._turn = trio.Lock()  # locked while a message is being sent
        self._patience = wire.patience_of_answer()
        self._owed = b""  # unsent bytes of control frames, sent before the next message
        self._ping_at = trio.current_time() + bounds.ping_s
        self._rounds = 0  # how many ping intervals have ended since an unanswered ping
        self.end: SocketEnd | None = None

    async def receive(self) -> str | bytes | None:
        """Return the client's next message, or None if the WebSocket has ended. A cancelled call loses no message."""
        while self.end is None:
            received = self._frames.take()
            if isinstance(received, str | bytes):
                return received
            if received is not None:
                self._handle_control(received)
            else:
                await self._listen()
        return None

    def _handle_control(self, control: Control) -> None:
        self._write_control(self._frames.answer(control))
        if isinstance(control, CloseConnection):
            self.end = self.end or SocketEnd(int(control.code), control.reason or "", here=False)
        elif isinstance(control, Pong):
            self._rounds = 0

    async def _listen(self) -> None:
        """Wait for data from the client, or until the next ping must be sent."""
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
            self._mark_disconnected()

    def _ping(self, *, unread: bool) -> None:
        """Send the next ping, or end the WebSocket if the last one is unanswered.

        If the app has not received for a while, the pong may be in the unread data, so the WebSocket ends only after
        one more read. While a message is being sent, the `Patience` of the send applies instead.
        """
        self._ping_at = trio.current_time() + self._bounds.ping_s
        if self.end is not None or self._turn.locked():
            return
        if not self._rounds:
            self._write_control(self._frames.ping())
        elif self._rounds > 1 or not unread:
            self._mark_disconnected()
        self._rounds += 1

    async def send_message(self, message: str | bytes) -> None:
        """Send a message.

        Raises:
            ClientGone: the client has closed or disconnected, or did not read in time.
            AppMisbehaved: the app has already closed the WebSocket.
        """
        async with self._turn:
            if self.end is not None and self.end.here:
                raise AppMisbehaved("The app sent a message after its close.")
            if self.end is not None:
                raise ClientGone("The client has closed the WebSocket.")
            await self._write(self._frames.message(message))

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame, unless the WebSocket has ended already.

        Raises:
            ClientGone: the client did not read in time.
        """
        async with self._turn:
            if self.end is None:
                self.end = SocketEnd(code, reason, here=True)
                await self._write(self._frames.close(code, reason))
                self._wire.wake()  # so that the receiving task sees the end

    async def _write(self, frame: bytes) -> None:
        """Write a frame, and then the control frames that were added meanwhile. The caller must hold the lock."""
        data, self._owed = self._owed + frame, b""
        whole = False
        try:
            while data:
                await self._wire.write(data, self._patience)
                data, self._owed = self._owed, b""
            whole = True
        finally:
            if not whole:  # no frame can follow a truncated one
                self._mark_disconnected()

    def _write_control(self, frame: bytes) -> None:
        """Write as much of a control frame as possible without waiting. The rest is sent before the next message."""
        if len(self._owed) < OWED_BYTES:
            self._owed += frame
        if self._owed and not self._turn.locked():
            try:
                sent = self._wire.write_nowait(self._owed)
            except ClientGone:
                self._mark_disconnected()
            else:
                self._owed = self._owed[sent:]

    def _mark_disconnected(self) -> None:
        """Mark the client as disconnected."""
        self._wire.broken = True
        self.end = self.end or LOST
        self._wire.wake()

    def part(self, code: CloseReason) -> bool:
        """Send a close frame without waiting, unless one was already sent.

        Return whether the client can still read it.
        """
        if self.end is None:
            self.end = SocketEnd(code.value, "", here=True)
            self._write_control(self._frames.close(code))
        if self._owed:
            self._wire.broken = True
        if self._wire.broken:
            self._wire.abort()
        return not self._wire.broken

    async def leave(self, code: CloseReason) -> None:
        """Close cleanly: send a close frame, then read and drop further data from the client for a moment."""
        if self.part(code):
            await self._wire.linger(discard_bytes=LINGER_BYTES)
