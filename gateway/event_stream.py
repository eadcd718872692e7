"""An answer as server-sent events: progress while it is made, then the whole envelope (decisions 14)."""

from __future__ import annotations

from collections.abc import Callable

from gateway.request import Headers
from gateway.server.asgi import Send
from gateway.server.errors import ClientGone


class EventStream:
    """Begins with its first event; what is refused before that is answered with its own status, as always."""

    def __init__(self, send: Send, head: Callable[[], Headers]) -> None:
        self._send = send
        self._head = head
        self.started = False
        self.gone = False
        """The client hung up."""

    async def tell(self, name: str, data: bytes) -> None:
        """Send an event of progress; nobody to tell it to is no error."""
        try:
            await self._event(name, data, is_last=False)
        except ClientGone:
            self.gone = True

    async def end(self, name: str, data: bytes) -> None:
        """Send the last event.

        Raises:
            ClientGone: nobody takes it.
        """
        await self._event(name, data, is_last=True)

    async def _event(self, name: str, data: bytes, *, is_last: bool) -> None:
        if not self.started:
            self.started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": self._head()})
        body = b"event: %b\ndata: %b\n\n" % (name.encode(), data)  # the data is JSON on one line
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})
