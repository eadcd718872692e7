"""An accepted WebSocket on its socket: messages in, messages out, pings, and one end.

One task may listen, any number may speak. The socket is read only while a task listens. There is no other task and no
queue: what cannot be sent is waited for by who sends it, and of control frames only some bytes are kept.
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
"""Read at once: a client can make thousands of frames of more, and they are taken without a pause."""
OWED_BYTES = 1_024
"""A client that reads nothing is owed no more than this in control frames."""
LINGER_BYTES = 1_048_576
"""Behind a close, as much of what the client still sends is dropped, so that it can read why."""


class SocketEnd(NamedTuple):
    """How a WebSocket ended; `here` if the app said so."""

    code: int
    reason: str
    here: bool


LOST = SocketEnd(CloseReason.ABNORMAL_CLOSURE.value, "", here=False)


class SocketLine:
    """Lives from the accept to the connection's end."""

    __slots__ = ("_bounds", "_frames", "_owed", "_patience", "_ping_at", "_rounds", "_turn", "_wire", "end")

    def __init__(self, wire: Wire, bounds: Bounds) -> None:
        self._wire = wire
        self._bounds = bounds
        self._frames = Frames(bounds.message_bytes)
        self._turn = trio.Lock()  # held while a message is on its way
        self._patience = wire.patience_of_answer()
        self._owed = b""  # control frames, or the rest of one, that go ahead of what is sent next
        self._ping_at = trio.current_time() + bounds.ping_s
        self._rounds = 0  # since the ping that is not answered
        self.end: SocketEnd | None = None

    async def receive(self) -> str | bytes | None:
        """The client's next message; None once the WebSocket has ended. Nothing is lost when this is cancelled."""
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
        """Wait for bytes, or until a ping is due."""
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
        """A ping is due, or the answer to one is overdue.

        The answer may be among what is unread, if nobody has listened for a while: so there is one more round for it,
        but only one. While a message is on its way, the wire's patience with the client is what counts.
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
            ClientGone: the client has closed or left, or did not read in time.
            AppMisbehaved: the app has closed.
        """
        async with self._turn:
            if self.end is not None and self.end.here:
                raise AppMisbehaved("The app sent a message behind its close.")
            if self.end is not None:
                raise ClientGone("The client has closed the WebSocket.")
            await self._write(self._frames.message(message))

    async def close(self, code: int, reason: str) -> None:
        """Say that it ends here; nothing when it has ended already.

        Raises:
            ClientGone: the client did not read in time.
        """
        async with self._turn:
            if self.end is None:
                self.end = SocketEnd(code, reason, here=True)
                await self._write(self._frames.close(code, reason))
                self._wire.wake()  # who listens hears of the end

    async def _write(self, frame: bytes) -> None:
        """Write a frame, and the control frames that come up meanwhile; the caller has the turn."""
        data, self._owed = self._owed + frame, b""
        whole = False
        try:
            while data:
                await self._wire.write(data, self._patience)
                data, self._owed = self._owed, b""
            whole = True
        finally:
            if not whole:  # nothing can follow a frame that was cut
                self._lose()

    def _write_control(self, frame: bytes) -> None:
        """Write a control frame as far as that goes without waiting; the rest goes ahead of what is sent next."""
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
        """The client is gone, or as good as gone."""
        self._wire.broken = True
        self.end = self.end or LOST
        self._wire.wake()

    def part(self, code: CloseReason) -> bool:
        """Say that it ends, unless that was said, without waiting; whether the client can hear it."""
        if self.end is None:
            self.end = SocketEnd(code.value, "", here=True)
            self._write_control(self._frames.close(code))
        if self._owed:
            self._wire.broken = True
        if self._wire.broken:
            self._wire.abort()
        return not self._wire.broken

    async def leave(self, code: CloseReason) -> None:
        """End it in good order: drop what the client still sends, for a moment."""
        if self.part(code):
            await self._wire.linger(discard_bytes=LINGER_BYTES)
