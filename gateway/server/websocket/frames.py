"""A client's WebSocket frames as whole messages of bounded size, for both engines. No I/O.

wsproto reads and writes the frames: masked ones only, no reserved bits, text in UTF-8, control frames between the
pieces of a message. No extension is ever agreed on: a compressed message has no size before it is inflated, and
a connection's compressor is larger than all else that it keeps.
"""

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

Control = Ping | Pong | CloseConnection
"""`CloseConnection` stands for a close by the client, and for what the client did wrong: its code says it."""


class Frames:
    """One accepted WebSocket, from the server's side; it keeps one unfinished message and what was fed last."""

    __slots__ = ("_connection", "_held", "_message_bytes")

    def __init__(self, message_bytes: int) -> None:
        self._connection = Connection(ConnectionType.SERVER)
        self._held = bytearray()  # the message so far, text as UTF-8
        self._message_bytes = message_bytes

    @property
    def open(self) -> bool:
        """Whether neither side has closed."""
        return self._connection.state is ConnectionState.OPEN

    def feed(self, data: bytes) -> None:
        """Take bytes from the client, once `take` has given all that came before; none after a close."""
        self._connection.receive_data(data)

    def take(self) -> str | bytes | Control | None:
        """The next message or control frame; None until more is fed. Behind a close there is nothing more."""
        for event in self._connection.events():
            if isinstance(event, TextMessage | BytesMessage):
                whole = self._join(event)
                if whole is not None:
                    return whole
            elif isinstance(event, Control):
                return event
        return None

    def _join(self, piece: TextMessage | BytesMessage) -> str | bytes | CloseConnection | None:
        """The message that `piece` ends."""
        data = piece.data
        size = len(data.encode() if isinstance(data, str) else data)
        if len(self._held) + size > self._message_bytes:
            return CloseConnection(CloseReason.MESSAGE_TOO_BIG, f"A message has {self._message_bytes} bytes at most.")
        if piece.message_finished and not self._held:
            return data if isinstance(data, str) else bytes(data)
        self._held += data.encode() if isinstance(data, str) else data
        if not piece.message_finished:
            return None
        whole, self._held = self._held, bytearray()
        return whole.decode() if isinstance(piece, TextMessage) else bytes(whole)

    def message(self, data: str | bytes) -> bytes:
        """A message to the client as one frame; only while open."""
        return bytes(self._connection.send(TextMessage(data) if isinstance(data, str) else BytesMessage(data)))

    def ping(self) -> bytes:
        """A ping; only while open."""
        return bytes(self._connection.send(Ping()))

    def answer(self, control: Control) -> bytes:
        """Return the frame that answers a control frame: a pong, or a close; nothing once we have closed."""
        if isinstance(control, CloseConnection):
            return self.close(control.code, control.reason)
        return bytes(self._connection.send(control.response())) if isinstance(control, Ping) and self.open else b""

    def close(self, code: int, reason: str | None = None) -> bytes:
        """A close, also in answer to one; nothing once we have closed."""
        if self._connection.state not in {ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING}:
            return b""
        return bytes(self._connection.send(CloseConnection(code, reason)))
