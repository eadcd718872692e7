"""One keep-alive connection of the open loop, on a bare socket: Trio's streams would cost more than they give here."""

import os
import socket
from types import TracebackType
from typing import Self

import trio

from bench.ask import Unframed, closes, whole_head

RECEIVE_BYTES = 65_536


class LineBroke(Exception):
    """A request got no whole answer; the text says why."""


class Line:
    """Connects when it is first asked, and again after the server has closed. One task asks at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Nothing is connected yet."""
        self._address = address
        self._socket: socket.socket | None = None

    async def ask(self, request: bytes) -> bytes:
        """Send a request; the head of its answer, in lower case, once the answer is whole.

        Raises:
            LineBroke: refused, closed under the request, or the answer cannot be framed.
        """
        if self._socket is not None and _has_ended(self._socket):
            self.close()
        try:
            head = await self._exchange(self._socket or await self._connect(), request)
        except (OSError, Unframed) as exc:
            self.close()
            raise LineBroke(type(exc).__name__) from exc
        if closes(head):
            self.close()
        return head

    async def _exchange(self, sock: socket.socket, request: bytes) -> bytes:
        sock.send(request)
        received = b""
        while (head := whole_head(received)) is None:
            await trio.lowlevel.wait_readable(sock)
            data = sock.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionAbortedError
            received += data
        return head

    async def _connect(self) -> socket.socket:
        sock = self._socket = socket.socket()
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        error = sock.connect_ex(self._address)
        if error:
            await trio.lowlevel.wait_writable(sock)
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        return sock

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        """The line itself; leaving closes it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Close the connection."""
        self.close()


def _has_ended(sock: socket.socket) -> bool:
    """Whether the server has closed while nothing was asked, as servers do with idle connections."""
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
