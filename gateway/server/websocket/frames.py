"""A client's WebSocket frames as complete messages of limited size, for both engines. No I/O.

wsproto reads and writes the frames: only masked ones, no reserved bits, text in UTF-8, control frames between the
pieces of a message. No extension is ever negotiated: a compressed message has an unknown size before it is inflated,
and a connection's compressor is larger than all its other state.
"""

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

Control = Ping | Pong | CloseConnection
"""`CloseConnection` is a close by the client, or an error of the client; its code says which."""


class Frames:
    """One accepted WebSocket, from the server's side. It stores one unfinished message and the last input."""

    __slots__ = ("_connection", "_held", "_message_bytes")

    def __init__(self, message_bytes: int) -> None:
        self._connection = Connection(ConnectionType.SERVER)
        self._held = bytearray()  # the message so far, text as UTF-8
        self._message_bytes = message_bytes

    @property
    def open(self) -> bool:
        """Return whether neither side has closed."""
        return self._connection.state is ConnectionState.OPEN

    def feed(self, data: bytes) -> None:
        """Take bytes from the client, once `take` has returned everything before; none after a close."""
        self._connection.receive_data(data)

    def take(self) -> str | bytes | Control | None:
        """Return the next message or control frame; None until more is fed. A close is the last one."""
        for event in self._connection.events():
            if isinstance(event, TextMessage | BytesMessage):
                whole = self._join(event)
                if whole is not None:
                    return whole
            elif isinstance(event, Control):
                return event
        return None

    def _join(self, piece: TextMessage | BytesMessage) -> str | bytes | CloseConnection | None:
        """Return the message that `piece` ends."""
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
        """Return a message to the client as one frame; only while open."""
        return bytes(self._connection.send(TextMessage(data) if isinstance(data, str) else BytesMessage(data)))

    def ping(self) -> bytes:
        """Return a ping; only while open."""
        return bytes(self._connection.send(Ping()))

    def answer(self, control: Control) -> bytes:
        """Return the reply to a control frame: a pong, or a close; empty once we have closed."""
        if isinstance(control, CloseConnection):
            return self.close(control.code, control.reason)
        return bytes(self._connection.send(control.response())) if isinstance(control, Ping) and self.open else b""

    def close(self, code: int, reason: str | None = None) -> bytes:
        """Return a close, also as a reply to one; empty once we have closed."""
        if self._connection.state not in {ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING}:
            return b""
        return bytes(self._connection.send(CloseConnection(code, reason)))
