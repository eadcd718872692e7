"""A proxy in front of a server that cuts or stalls its connections, also at a chosen message."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Cutter:
    """A proxy that cuts or stalls connections.

    `to_server` and `to_client` see all data, and may drop it or call `cut`.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.refuses = False
        """Whether new connections are closed immediately."""
        self.to_server: Callable[[bytes], bool] = lambda data: True
        """Called with each piece of data that goes to the server. False drops the piece."""
        self.to_client: Callable[[bytes], bool] = lambda data: True
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def cut(self) -> None:
        """End every connection."""
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join(10)
        for one in [self._listener, *self._sockets]:
            one.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                client.close()
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, server]
            self._start(lambda client=client, server=server: self._carry(client, server, "to_server"))
            self._start(lambda client=client, server=server: self._carry(server, client, "to_client"))

    def _carry(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if getattr(self, direction)(data):
                    target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)


@contextmanager
def open_cutter(target_port: int) -> Iterator[Cutter]:
    cutter = Cutter(target_port)
    try:
        yield cutter
    finally:
        cutter.close()
