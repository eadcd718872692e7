"""Server-sent events: the progress of a call followed by its envelope (decisions 14), or a feed (decisions 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import trio

from gateway.http.slices import slices
from gateway.server.asgi import Receive, Send
from gateway.server.errors import ClientGone

PEEK_S = 0.001
"""Seconds to wait when checking for a disconnect. The server immediately reports a disconnect that it has noticed."""


class EventStream:
    """A response as an event stream, started by its first event. Earlier errors use their usual HTTP status.

    No event is sent while a page is read. Reading takes at most as long as a plain response, so proxies need no
    keep-alives.
    """

    def __init__(self, receive: Receive, send: Send, head: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
        self._receive = receive
        self._send = send
        self._head = head
        self.started = False
        self.ended = False

    async def publish(self, name: str, data: bytes) -> bool:
        """Send a progress event. Return whether the client is still connected."""
        try:
            await self.write(_event(name, data))
        except ClientGone:
            return False
        return not await self._has_left()

    async def _has_left(self) -> bool:
        """Check `receive` for a disconnect, because a server may accept data for a client that has left (ASGI 3)."""
        with trio.move_on_after(PEEK_S):
            while True:
                if (await self._receive())["type"] == "http.disconnect":
                    return True
        return False

    async def end(self, name: str, parts: Sequence[bytes], *, before_last: Callable[[], None]) -> None:
        """Send the last event, whose data is `parts` joined. Call `before_last` before the last slice.

        Raises:
            ClientGone: the client has disconnected.
        """
        event = (_event(name, parts[0]),) if len(parts) == 1 else _event_around(name, parts)
        for piece, whole, is_last in slices(event):
            if is_last:
                before_last()
            await self.write(piece, is_last=is_last, held=whole)

    async def write(self, text: bytes, *, is_last: bool = False, held: bytes = b"") -> None:
        """Send raw stream text: events, comments or settings. `held` is the buffer that contains `text`.

        Raises:
            ClientGone: the client has disconnected.
        """
        if not self.started:
            self.started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": self._head()})
        self.ended = is_last
        await self._send({"type": "http.response.body", "body": text, "more_body": not is_last, "held": held})


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)  # One `data` line, because the JSON has one line.


def _event_around(name: str, parts: Sequence[bytes]) -> tuple[bytes, ...]:
    start, end = _event(name, b"\0").split(b"\0")
    return start, *parts, end
