"""A connection's socket without Trio's wrapper. Makes system calls directly, and waits only if they would block.

Waits need no cancel scopes. Instead, one task for all connections compares `read_by` and `write_by` with the clock.
When a read or write takes too long, that task calls `expire`, which wakes the waiting task.

A client that transfers only a few bytes at a time must not occupy a connection forever. Each wait for a request's body,
or for a client to read a response, therefore uses up a `Patience`. The patience increases with the number of
transferred bytes, and while nothing waits for the client.
"""

import math
import select
import socket
import struct
from collections.abc import Callable, Sequence

import trio

from gateway.server.bounds import Bounds
from gateway.server.errors import ClientGone
from gateway.server.unsent import Unsent

HEAD_READ_BYTES = 16_384
BODY_READ_BYTES = 32_768
HANGUP_POLL_S = 1.0
# only Linux reports that the peer has closed its sending side
_HANGUP: int = getattr(select, "POLLRDHUP", select.POLLHUP)
_ABORT = struct.pack("ii", 1, 0)


class Patience:
    """The remaining time to wait for a client, in one direction of an exchange. A slow transfer reduces this time.

    Time in which nothing waits for the client restores it, so a client that is slow for a moment does not count as slow
    over a whole stream.
    """

    __slots__ = ("_bytes_per_s", "_ended", "_left_s", "_since", "_whole_s")

    def __init__(self, bytes_per_s: int) -> None:
        self._whole_s = self._left_s = math.inf
        self._bytes_per_s = bytes_per_s
        self._since = self._ended = 0.0

    def begin(self, whole_s: float) -> float:
        """Start a wait of at most `whole_s` and return the time at which it must end."""
        self._whole_s = whole_s
        self._since = trio.current_time()
        self._left_s = min(self._left_s + self._since - self._ended, whole_s)
        return self._since + self._left_s

    def end(self, moved_bytes: int) -> None:
        """Record the end of a wait in which this many bytes were transferred."""
        self._ended = trio.current_time()
        self._left_s -= self._ended - self._since
        self.earn(moved_bytes)

    def earn(self, moved_bytes: int) -> None:
        """Record that this many bytes were transferred."""
        self._left_s = min(self._whole_s, self._left_s + moved_bytes / self._bytes_per_s)


class Wire:
    """A connected, non-blocking socket of the standard library. The connection's task owns and closes it."""

    __slots__ = (
        "_bounds",
        "_given_up",
        "_socket",
        "_unsent",
        "broken",
        "ended",
        "expired",
        "fd",
        "owner",
        "read_by",
        "unread",
        "wake_parked",
        "write_by",
    )

    def __init__(self, sock: socket.socket, bounds: Bounds, unsent: Unsent) -> None:
        self._socket = sock
        self.fd = sock.fileno()
        self._bounds = bounds
        self._unsent = unsent
        self._given_up = False
        self.owner = b""
        """The API key of the current request. Used only if a write has to wait."""
        self.unread = b""
        """Data that has arrived but is not processed yet."""
        self.wake_parked: Callable[[], None] | None = None
        """Wakes the connection's task while it waits in `RefusedClients` instead of in a read or write."""
        self.read_by = math.inf
        self.write_by = math.inf
        self.expired = False
        self.ended = False
        """Whether the client will send no more data."""
        self.broken = False
        """Whether the client will read no more data."""

    async def read(self, size: int) -> bytes:
        """Return the next bytes. Empty if the client has ended, the time limit has passed, or `wake` was called."""
        while not self.ended:
            woken = False
            try:
                await trio.lowlevel.wait_readable(self.fd)
            except trio.ClosedResourceError:
                woken = True
            if self.expired:
                break
            data = self.read_nowait(size)
            if data or woken:
                return data
        return b""

    def read_nowait(self, size: int) -> bytes:
        """Return the bytes that have arrived. Empty if there are none, or if the client has ended its side."""
        try:
            data = self._socket.recv(size)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.ended = not data
        return data

    async def write(self, data: bytes, patience: Patience | None = None) -> None:
        """Pass `data` to the kernel.

        Wait only if the kernel does not accept all of it; otherwise there is no checkpoint.

        `patience` is the client's patience for the response that `data` belongs to.

        Raises:
            ClientGone: the data cannot be delivered.
        """
        patience = patience or self.patience_of_answer()
        sent = self.write_nowait(data)
        patience.earn(sent)
        if sent < len(data):
            await self.write_rest((data,), sent, patience)

    def patience_of_answer(self) -> Patience:
        """Return a new patience for a client that reads a response."""
        return Patience(self._bounds.answer_bytes_per_s)

    async def write_rest(
        self, buffers: Sequence[bytes], sent: int, patience: Patience, *, also_held: bytes = b""
    ) -> None:
        """Write the data that the kernel did not accept immediately, which is `buffers` after their first `sent` bytes.

        The buffers are not copied. While they wait, they are counted as unsent, together with `also_held`.

        Raises:
            ClientGone: the data cannot be delivered.
        """
        rest = _rest_of([memoryview(buffer) for buffer in buffers], sent)
        if not rest:
            return
        self._unsent.add(self, (*buffers, also_held))
        try:
            while rest:
                await self._wait_reader(patience)
                sent = self.write_buffers_nowait(rest)
                patience.end(sent)
                if sent:
                    self._unsent.moved(self)
                rest = _rest_of(rest, sent)
        except trio.ClosedResourceError:
            if not (self._given_up or self.broken):
                self._unsent.ended["too_slow"] += 1
            self.broken = True
            raise ClientGone("The client did not read its response in time.") from None
        finally:
            self._unsent.discard(self)
            self.write_by = math.inf

    async def _wait_reader(self, patience: Patience) -> None:
        """Wait until the kernel accepts more data.

        Raises:
            ClosedResourceError: the patience has run out, or `give_up` was called before or during the wait.
        """
        if self._given_up:
            raise trio.ClosedResourceError
        self.write_by = patience.begin(self._bounds.write_s)
        await trio.lowlevel.wait_writable(self.fd)

    def write_buffers_nowait(self, buffers: Sequence[bytes | memoryview]) -> int:
        """Like `write_nowait`, for several consecutive buffers."""
        if self.broken:
            raise ClientGone("The client has closed the connection.")
        try:
            return self._socket.sendmsg(buffers)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self.broken = True
            raise ClientGone("The client has closed the connection.") from exc

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Return how many bytes of `data` the kernel has accepted.

        Raises:
            ClientGone: the data cannot be delivered.
        """
        if self.broken:
            raise ClientGone("The client has closed the connection.")
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self.broken = True
            raise ClientGone("The client has closed the connection.") from exc

    async def wait_hangup(self, *, unread_bytes: int) -> None:
        """Wait until the client has disconnected. Store further data from it, up to about `unread_bytes`.

        If the client sends more data, the rest is not read, and the socket is checked at intervals for a disconnect.
        """
        while not (self.ended or self.expired) and len(self.unread) < unread_bytes:
            self.unread += await self.read(HEAD_READ_BYTES)
        while not (self.ended or self.expired or _has_hung_up(self._socket)):  # noqa: ASYNC110 - no event announces it
            await trio.sleep(HANGUP_POLL_S)

    def hurry(self, bounds: Bounds) -> None:
        """Apply shorter limits, also to the current wait if there is one."""
        self._bounds = bounds
        now = trio.current_time()
        if self.read_by < math.inf:
            self.read_by = min(self.read_by, now + bounds.body_s)
        if self.write_by < math.inf:
            self.write_by = min(self.write_by, now + bounds.write_s)

    def expire(self) -> None:
        """End the current wait, because its time limit has passed."""
        self.expired = True
        self.read_by = self.write_by = math.inf
        self.wake()

    def give_up(self) -> None:
        """End the current write. Too much data is unsent, and this client has made no progress for the longest time."""
        self._given_up = True
        self.wake()

    def wake(self) -> None:
        """Make a waiting `read` check for data once more and return, and make a waiting write fail."""
        if self.wake_parked is not None:
            self.wake_parked()
        else:
            trio.lowlevel.notify_closing(self.fd)

    async def linger(self, *, discard_bytes: int) -> None:
        """Shut down sending, then read and drop further data from the client for a moment.

        Closing immediately could reset the connection, and the client would lose a response that it has not read yet.
        """
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return
        self.expired = False
        with trio.move_on_after(self._bounds.linger_s):
            while discard_bytes > 0 and (data := await self.read(BODY_READ_BYTES)):
                discard_bytes -= len(data)

    def abort(self) -> None:
        """Make `close` reset the connection, so that a truncated response cannot be mistaken for a complete one."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)

    def close(self) -> None:
        """Close the socket; no task may be waiting on it."""
        self._socket.close()


def _rest_of(views: list[memoryview], count: int) -> list[memoryview]:
    """Return the rest of `views` after their first `count` bytes."""
    for nth, view in enumerate(views):
        if count < len(view):
            return [view[count:], *views[nth + 1 :]]
        count -= len(view)
    return []


def _has_hung_up(sock: socket.socket) -> bool:
    """Return whether the client has closed its side, even if earlier bytes are still unread."""
    poll = select.poll()
    poll.register(sock, _HANGUP)
    return bool(poll.poll(0))
