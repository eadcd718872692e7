"""The keep-alive connections of one open loop.

They are plain sockets on one epoll, because a task for each connection would cost more.
"""

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
    """A request received no complete response. The text is the reason."""


@dataclass(slots=True, eq=False)
class Line:
    """A slot for a connection, which connects when a request is sent."""

    ticket: int = NOTHING
    """The request that is in progress."""
    sock: socket.socket | None = None
    unsent: bytes = b""
    """A request that waits for its connection."""
    received: bytes = b""


class Lines:
    """Sends requests on lines and reads their responses. A line has at most one request in progress."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Start without connections."""
        self._address = address
        self._epoll = select.epoll()
        self._by_fd: dict[int, Line] = {}

    def fileno(self) -> int:
        """Return a file descriptor that is readable when a line can continue."""
        return self._epoll.fileno()

    def send(self, line: Line, ticket: int, request: bytes) -> None:
        """Send a request on an idle line.

        Raises:
            LineBroke: The connection was refused or closed.
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
        """Yield the lines that can continue."""
        for fd, _ in self._epoll.poll(0, READY_AT_ONCE):
            yield self._by_fd[fd]

    def go_on(self, line: Line) -> bytes | None:
        """Read from a line. Once the response is complete, return its head in lower case.

        Raises:
            LineBroke: The connection was refused or closed during the request, or the response's end is unknown.
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
        line.sock.close()  # also removes the socket from the epoll
        line.sock, line.unsent = None, b""

    def __enter__(self) -> Self:
        """Return `self`; leaving the block closes all connections."""
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Close every connection."""
        for line in list(self._by_fd.values()):
            self._close(line)
        self._epoll.close()
