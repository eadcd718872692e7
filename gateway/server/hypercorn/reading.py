"""Applies the native server's limits to Hypercorn clients that read their responses slowly."""

import math
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager

import trio

from gateway.server.bounds import Bounds
from gateway.server.unsent import Unsent
from gateway.server.wire import Patience


class PendingSends:
    """The sends in progress on all connections.

    Only their time limit or the end of a drain can end them early, not the app.
    """

    def __init__(self, bounds: Bounds, unsent: Unsent) -> None:
        self.bounds = bounds
        self.unsent = unsent
        self.under_way: set[trio.CancelScope] = set()
        self.end_at = math.inf

    def end_by(self, end_at: float) -> None:
        """Make all sends in progress end at this time at the latest."""
        self.end_at = end_at
        for scope in self.under_way:
            scope.deadline = min(scope.deadline, end_at)


class ClientReading:
    """Tracks how fast the client of one connection reads; with HTTP/2, of one stream."""

    def __init__(self, sends: PendingSends, stream: trio.abc.Stream) -> None:
        self._sends = sends
        self._stream = stream
        self._scope: trio.CancelScope | None = None
        self.given_up = False
        self.owner = b""
        """The API key of the current request."""
        self.held = b""
        """The buffer that the current piece was cut from."""
        self.begin_answer([])

    def begin_answer(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Reset the state for the response to a request with these headers."""
        self.owner = self._sends.unsent.owner_of(headers)
        self._patience = Patience(self._sends.bounds.answer_bytes_per_s)
        self.held = b""

    @contextmanager
    def bounded(self, data: bytes) -> Iterator[trio.CancelScope]:
        """Limit the time for the block, which sends `data`.

        Afterward, the cancel scope shows whether the send took too long. Only one send at a time is allowed.
        """
        sends, unsent = self._sends, self._sends.unsent
        deadline = min(self._patience.begin(sends.bounds.write_s), sends.end_at)
        with trio.CancelScope(deadline=deadline, shield=True) as scope:
            self._scope = scope
            sends.under_way.add(scope)
            unsent.add(self, (data, self.held))
            try:
                yield scope
            finally:
                unsent.discard(self)
                sends.under_way.discard(scope)
                self._scope = None
                self._patience.end(len(data))
        if scope.cancelled_caught and not self.given_up:
            self._note_too_slow()

    def of_stream(self) -> "ClientReading":
        """Return a new tracker for one stream of this connection (HTTP/2)."""
        return ClientReading(self._sends, self._stream)

    async def bounded_stream(self, sending: Awaitable[None], data: bytes) -> None:
        """Send a piece of a stream's response, when the client's flow control allows it (HTTP/2).

        If the send takes too long, or the request's key has too many unsent bytes, the connection ends with all its
        streams.
        """
        unsent = self._sends.unsent
        with trio.CancelScope(deadline=self._patience.begin(self._sends.bounds.write_s)) as scope:
            self._scope = scope
            unsent.add(self, (data, self.held))
            try:
                await sending
            finally:
                unsent.discard(self)
                self._scope = None
                self._patience.end(len(data))
        if scope.cancelled_caught and not self.given_up:
            self._note_too_slow()
        if self.given_up:
            await trio.aclose_forcefully(self._stream)

    def give_up(self) -> None:
        """End the connection, although some data is unsent."""
        self.given_up = True
        if self._scope is not None:
            self._scope.cancel()

    def _note_too_slow(self) -> None:
        self.given_up = True
        self._sends.unsent.ended["too_slow"] += 1
