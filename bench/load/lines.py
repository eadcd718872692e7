"""The keep-alive connections of one open loop: bare sockets behind one epoll, which costs less than a task for each."""

import errno
import os
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from bench.load.request_spec import Unframed, closes, whole_head

RECEIVE_BYTES = 65_536
READY_AT_ONCE = 256
NOTHING = -1


class LineBroke(Exception):
    """A request got no whole answer; the text says why."""


@dataclass(slots=True, eq=False)
class Line:
    """A connection, or the place for one: it is connected when something is asked and it is not."""

    ticket: int = NOTHING
    """The request under way."""
    sock: socket.socket | None = None
    unsent: bytes = b""
    """A request that waits for its connection."""
    received: bytes = b""


class Lines:
    """Sends requests on lines, and puts together what comes back; a line has one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Nothing is connected yet."""
        self._address = address
        self._epoll = select.epoll()
        self._by_fd: dict[int, Line] = {}

    def fileno(self) -> int:
        """Readable while some line can go on."""
        return self._epoll.fileno()

    def send(self, line: Line, ticket: int, request: bytes) -> None:
        """Send a request on a line that has none.

        Raises:
            LineBroke: refused, or closed.
        """
        line.ticket, line.received = ticket, b""
        try:
            if line.sock is None:
                self._connect(line, request)
            else:
                line.sock.send(request)
        except OSError as exc:
            raise self._broken(line, exc) from exc

    def ready(self) -> Iterator[Line]:
        """The lines that can go on."""
        for fd, _ in self._epoll.poll(0, READY_AT_ONCE):
            yield self._by_fd[fd]

    def go_on(self, line: Line) -> bytes | None:
        """Take what has come on a line: the head of its answer, in lower case, once that is whole.

        Raises:
            LineBroke: refused, closed under the request, or the answer cannot be framed.
        """
        try:
            head = self._take(line)
        except (OSError, Unframed) as exc:
            raise self._broken(line, exc) from exc
        if head is not None and closes(head):
            self._close(line)
        return head

    def _take(self, line: Line) -> bytes | None:
        assert line.sock is not None
        if line.unsent:
            self._send_first(line, line.sock)
            return None
        if line.ticket == NOTHING:  # servers close idle connections, or reset them
            self._close(line)
            return None
        try:
            data = line.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionAbortedError
        line.received += data
        return whole_head(line.received)

    def _connect(self, line: Line, request: bytes) -> None:
        sock = line.sock = socket.socket()
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        error = sock.connect_ex(self._address)
        if error not in {0, errno.EINPROGRESS}:
            raise OSError(error, os.strerror(error))
        self._by_fd[sock.fileno()] = line
        self._epoll.register(sock.fileno(), select.EPOLLOUT)
        line.unsent = request

    def _send_first(self, line: Line, sock: socket.socket) -> None:
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        self._epoll.modify(sock.fileno(), select.EPOLLIN)
        sock.send(line.unsent)
        line.unsent = b""

    def _broken(self, line: Line, why: Exception) -> LineBroke:
        self._close(line)
        return LineBroke(type(why).__name__)

    def _close(self, line: Line) -> None:
        assert line.sock is not None
        self._by_fd.pop(line.sock.fileno(), None)
        line.sock.close()  # and the epoll forgets it
        line.sock, line.unsent = None, b""

    def __enter__(self) -> Self:
        """The lines themselves; leaving closes them all."""
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Close every connection."""
        for line in list(self._by_fd.values()):
            self._close(line)
        self._epoll.close()
