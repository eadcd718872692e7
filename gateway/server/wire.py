"""One connection's socket without the layers around it: direct calls, and a wait only where they would block.

A read or write that takes too long is ended from outside: the watch over all connections compares `read_by` and
`write_by` with the clock and calls `expire`, which wakes the waiter. So no wait needs a cancel scope of its own.

A drop now and then must not hold a connection forever: waiting for a body or for an answer's reader uses up a
`Patience`, which grows again only with the bytes that move.
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
_HANGUP: int = getattr(select, "POLLRDHUP", select.POLLHUP)  # only Linux tells of a half-closed peer
_ABORT = struct.pack("ii", 1, 0)


class Patience:
    """How long one side of an exchange may still be waited for; less after slow bytes.

    What one of them does without waiting for the other gives it back: a stream's client that is slow now and then is
    not slow in sum.
    """

    __slots__ = ("_bytes_per_s", "_ended", "_left_s", "_since", "_whole_s")

    def __init__(self, bytes_per_s: int) -> None:
        self._whole_s = self._left_s = math.inf
        self._bytes_per_s = bytes_per_s
        self._since = self._ended = 0.0

    def begin(self, whole_s: float) -> float:
        """A wait of at most `whole_s` begins; when it must end."""
        self._whole_s = whole_s
        self._since = trio.current_time()
        self._left_s = min(self._left_s + self._since - self._ended, whole_s)
        return self._since + self._left_s

    def end(self, moved_bytes: int) -> None:
        """A wait ended with so many bytes."""
        self._ended = trio.current_time()
        self._left_s -= self._ended - self._since
        self.earn(moved_bytes)

    def earn(self, moved_bytes: int) -> None:
        """So many bytes have moved."""
        self._left_s = min(self._whole_s, self._left_s + moved_bytes / self._bytes_per_s)


class Wire:
    """A connected, non-blocking stdlib socket; owned and closed by one connection's task."""

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
        """The API key whose answer is sent; of no interest before a write has to wait."""
        self.unread = b""
        """Bytes that arrived and have not been looked at."""
        self.wake_parked: Callable[[], None] | None = None
        """Wakes the connection's task where it waits for other than its own reading and writing."""
        self.read_by = math.inf
        self.write_by = math.inf
        self.expired = False
        self.ended = False
        """The client will send nothing more."""
        self.broken = False
        """The client takes nothing more."""

    async def read(self, size: int) -> bytes:
        """The next bytes; empty when the client is done, the time is up, or `wake` found nothing to read."""
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
        """Return the bytes that have arrived; none when nothing has, or when the client has ended its side."""
        try:
            data = self._socket.recv(size)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.ended = not data
        return data

    async def write(self, data: bytes, patience: Patience | None = None) -> None:
        """Hand `data` to the kernel, waiting only when it takes no more: no checkpoint when it all fits.

        `patience` is that with the client's reading of what `data` belongs to.

        Raises:
            ClientGone: it cannot be delivered.
        """
        patience = patience or self.patience_of_answer()
        sent = self.write_nowait(data)
        patience.earn(sent)
        if sent < len(data):
            await self.write_rest((data,), sent, patience)

    def patience_of_answer(self) -> Patience:
        """The patience with a client that reads an answer."""
        return Patience(self._bounds.answer_bytes_per_s)

    async def write_rest(
        self, buffers: Sequence[bytes], sent: int, patience: Patience, *, also_held: bytes = b""
    ) -> None:
        """Write what the kernel did not take at once: all behind the first `sent` bytes of `buffers`.

        They are not copied. They are counted while they wait, and with them what is `also_held` until they are gone.

        Raises:
            ClientGone: it cannot be delivered.
        """
        rest = _behind([memoryview(buffer) for buffer in buffers], sent)
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
                rest = _behind(rest, sent)
        except trio.ClosedResourceError:
            if not (self._given_up or self.broken):
                self._unsent.ended["too_slow"] += 1
            self.broken = True
            raise ClientGone("The client did not read its answer in time.") from None
        finally:
            self._unsent.discard(self)
            self.write_by = math.inf

    async def _wait_reader(self, patience: Patience) -> None:
        """Wait until the kernel takes more.

        Raises:
            ClosedResourceError: the client was given up before or meanwhile, or the patience is at its end.
        """
        if self._given_up:
            raise trio.ClosedResourceError
        self.write_by = patience.begin(self._bounds.write_s)
        await trio.lowlevel.wait_writable(self.fd)

    def write_buffers_nowait(self, buffers: Sequence[bytes | memoryview]) -> int:
        """As `write_nowait`, of several buffers behind each other."""
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
        """How many bytes of `data` the kernel has taken.

        Raises:
            ClientGone: it cannot be delivered.
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
        """Wait until the client is gone; keep what it sends meanwhile, up to about `unread_bytes`.

        A client that sends more is no longer read, only asked now and then whether it is still there.
        """
        while not (self.ended or self.expired) and len(self.unread) < unread_bytes:
            self.unread += await self.read(HEAD_READ_BYTES)
        while not (self.ended or self.expired or _has_hung_up(self._socket)):  # noqa: ASYNC110 - nothing announces it
            await trio.sleep(HANGUP_POLL_S)

    def hurry(self, bounds: Bounds) -> None:
        """Go on with shorter bounds, the wait that is under way included if it has one."""
        self._bounds = bounds
        now = trio.current_time()
        if self.read_by < math.inf:
            self.read_by = min(self.read_by, now + bounds.body_s)
        if self.write_by < math.inf:
            self.write_by = min(self.write_by, now + bounds.write_s)

    def expire(self) -> None:
        """End the wait that is under way: its time is up."""
        self.expired = True
        self.read_by = self.write_by = math.inf
        self.wake()

    def give_up(self) -> None:
        """End the write that is under way: too much waits, and its client has taken nothing for longest."""
        self._given_up = True
        self.wake()

    def wake(self) -> None:
        """Make a waiting `read` look once more and return."""
        if self.wake_parked is not None:
            self.wake_parked()
        else:
            trio.lowlevel.notify_closing(self.fd)

    async def linger(self, *, discard_bytes: int) -> None:
        """End the answer, then read and drop what the client still sends for a moment.

        Closing at once would reset the connection, and the client could lose the answer it has not read.
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
        """Make the coming close a reset, so that a cut answer cannot be taken for a whole one."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)

    def close(self) -> None:
        """Close the socket; nobody may be waiting on it."""
        self._socket.close()


def _behind(views: list[memoryview], count: int) -> list[memoryview]:
    """The rest of `views` behind their first `count` bytes."""
    for nth, view in enumerate(views):
        if count < len(view):
            return [view[count:], *views[nth + 1 :]]
        count -= len(view)
    return []


def _has_hung_up(sock: socket.socket) -> bool:
    """Whether the client has closed its side, though bytes before that are still unread."""
    poll = select.poll()
    poll.register(sock, _HANGUP)
    return bool(poll.poll(0))
