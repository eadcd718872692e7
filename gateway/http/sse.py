"""An answer as server-sent events: the progress of a call and then its envelope (decisions 14), or a feed (13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import trio

from gateway.http.slices import slices
from gateway.server.asgi import Receive, Send
from gateway.server.errors import ClientGone

GLANCE_S = 0.001
"""How long to look whether a client is still there; a hang-up that was noticed is told at once."""


class EventStream:
    """Begins with its first event; what is refused before that is answered with its own status, as always.

    It is silent while a page is read: as long as a plain answer may take, so no proxy needs to be kept awake.
    """

    def __init__(self, receive: Receive, send: Send, head: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
        self._receive = receive
        self._send = send
        self._head = head
        self.started = False
        self.ended = False

    async def publish(self, name: str, data: bytes) -> bool:
        """Send an event of progress; whether the client is still there to take another."""
        try:
            await self.write(_event(name, data))
        except ClientGone:
            return False
        return not await self._has_left()

    async def _has_left(self) -> bool:
        """A server may take what it sends to a client that left for delivered; only `receive` tells (ASGI 3)."""
        with trio.move_on_after(GLANCE_S):
            while True:
                if (await self._receive())["type"] == "http.disconnect":
                    return True
        return False

    async def end(self, name: str, parts: Sequence[bytes], *, before_last: Callable[[], None]) -> None:
        """Send the last event, whose data are `parts` behind each other; `before_last` is called before its last slice.

        Raises:
            ClientGone: nobody takes it.
        """
        event = (_event(name, parts[0]),) if len(parts) == 1 else _event_around(name, parts)
        for piece, whole, is_last in slices(event):
            if is_last:
                before_last()
            await self.write(piece, is_last=is_last, held=whole)

    async def write(self, text: bytes, *, is_last: bool = False, held: bytes = b"") -> None:
        """Send events, comments or settings of the stream as they are; `held` is what `text` was cut out of.

        Raises:
            ClientGone: nobody takes it.
        """
        if not self.started:
            self.started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": self._head()})
        self.ended = is_last
        await self._send({"type": "http.response.body", "body": text, "more_body": not is_last, "held": held})


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)  # the data is JSON on one line


def _event_around(name: str, parts: Sequence[bytes]) -> tuple[bytes, ...]:
    start, end = _event(name, b"\0").split(b"\0")
    return start, *parts, end
