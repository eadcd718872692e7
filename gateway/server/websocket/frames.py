"""Turns a client's WebSocket frames into complete messages of limited size, for both engines. No I/O.

wsproto reads and writes the frames. It checks masks, reserved bits and UTF-8, and allows control frames between the
pieces of a message.

No compression is negotiated. The size of a compressed message is unknown until it is inflated, and a compressor takes
more memory than all other state of a connection.
"""

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

Control = Ping | Pong | CloseConnection
"""A control frame.

`CloseConnection` is a close by the client, or an error in the client's frames; its code says which.
"""


class Frames:
    """The server's side of the frames of an accepted WebSocket.

    Stores at most one incomplete message and the last input.
    """

    __slots__ = ("_connection", "_held", "_message_bytes")

    def __init__(self, message_bytes: int) -> None:
        self._connection = Connection(ConnectionType.SERVER)
        self._held = bytearray()  # the pieces of an incomplete message; text is stored as UTF-8
        self._message_bytes = message_bytes

    @property
    def open(self) -> bool:
        """Return whether neither side has sent a close frame."""
        return self._connection.state is ConnectionState.OPEN

    def feed(self, data: bytes) -> None:
        """Add bytes from the client. Call this only after `take` has returned None, and not after a close."""
        self._connection.receive_data(data)

    def take(self) -> str | bytes | Control | None:
        """Return the next message or control frame, or None if more bytes are needed.

        After a close, always return None.
        """
        for event in self._connection.events():
            if isinstance(event, TextMessage | BytesMessage):
                whole = self._join(event)
                if whole is not None:
                    return whole
            elif isinstance(event, Control):
                return event
        return None

    def _join(self, piece: TextMessage | BytesMessage) -> str | bytes | CloseConnection | None:
        """Append `piece`. Return the message if it is complete, or a close if it is too long."""
        data = piece.data
        size = len(data.encode() if isinstance(data, str) else data)
        if len(self._held) + size > self._message_bytes:
            return CloseConnection(
                CloseReason.MESSAGE_TOO_BIG, f"A message can have at most {self._message_bytes} bytes."
            )
        if piece.message_finished and not self._held:
            return data if isinstance(data, str) else bytes(data)
        self._held += data.encode() if isinstance(data, str) else data
        if not piece.message_finished:
            return None
        whole, self._held = self._held, bytearray()
        return whole.decode() if isinstance(piece, TextMessage) else bytes(whole)

    def message(self, data: str | bytes) -> bytes:
        """Return the frame for a message to the client. Only allowed while open."""
        return bytes(self._connection.send(TextMessage(data) if isinstance(data, str) else BytesMessage(data)))

    def ping(self) -> bytes:
        """Return a ping frame. Only allowed while open."""
        return bytes(self._connection.send(Ping()))

    def answer(self, control: Control) -> bytes:
        """Return the reply to a control frame: a pong or a close. Empty once the server has sent a close."""
        if isinstance(control, CloseConnection):
            return self.close(control.code, control.reason)
        return bytes(self._connection.send(control.response())) if isinstance(control, Ping) and self.open else b""

    def close(self, code: int, reason: str | None = None) -> bytes:
        """Return a close frame, also as the reply to a client's close. Empty once the server has sent a close."""
        if self._connection.state not in {ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING}:
            return b""
        return bytes(self._connection.send(CloseConnection(code, reason)))
