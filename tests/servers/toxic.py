"""A TCP proxy that simulates networks and dying servers: it delays, stalls, cuts and resets connections."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass

import trio

from tests.servers.poison import HARMLESS, Direction, Poison
from tests.servers.toxic_link import Counts, Link, close_with_reset

_CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class ToxicStatistics:
    """The proxy's counts so far; `open` is the current number of connections."""

    accepted: int
    unreachable: int
    open: int
    cut: int
    reset: int
    up_bytes: int
    down_bytes: int


class Toxic:
    """The proxy; connect to `host` and `port`. Created by `open_toxic`."""

    def __init__(self, target: tuple[str, int], nursery: trio.Nursery) -> None:
        self.up = Direction()
        """The direction from the clients to the server."""
        self.down = Direction()
        """The direction from the server to the clients."""
        self._target = target
        self._nursery = nursery
        self._place = _bound(0)
        """Keeps the port reserved while nothing listens on it."""
        self.host, self.port = self._place.getsockname()
        self._listener: trio.SocketListener | None = None
        self._links: set[Link] = set()
        self._counts = Counts()

    def statistics(self) -> ToxicStatistics:
        """Return the counters."""
        return ToxicStatistics(
            accepted=self._counts.accepted,
            unreachable=self._counts.unreachable,
            open=len(self._links),
            cut=self._counts.cut,
            reset=self._counts.reset,
            up_bytes=self.up.passed_bytes,
            down_bytes=self.down.passed_bytes,
        )

    def set(self, poison: Poison) -> None:
        """Use one poison for both directions."""
        self.up.set(poison)
        self.down.set(poison)

    def heal(self) -> None:
        """Remove all faults: existing connections continue, and new ones are accepted."""
        self.set(HARMLESS)
        self.admit()

    def refuse(self) -> None:
        """Refuse new connections, like a machine without a listener; open ones continue."""
        if self._listener is not None:
            self._listener.socket.close()
            self._listener = None

    def admit(self) -> None:
        """Accept new connections."""
        if self._listener is None:
            sock = _bound(self.port)
            sock.listen(1024)
            self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
            self._nursery.start_soon(self._accept, self._listener)

    def reset(self) -> None:
        """Reset every open connection, on both sides."""
        for link in list(self._links):
            link.reset()

    def close(self) -> None:
        """Release the port."""
        self.refuse()
        self._place.close()

    async def _accept(self, listener: trio.SocketListener) -> None:
        with suppress(trio.ClosedResourceError):
            while True:
                client = await listener.accept()
                self._counts.accepted += 1
                self._nursery.start_soon(self._serve, client)

    async def _serve(self, client: trio.SocketStream) -> None:
        with closing(client.socket):
            try:
                with trio.fail_after(_CONNECT_S):
                    server = await trio.open_tcp_stream(*self._target)
            except (OSError, trio.TooSlowError):
                self._counts.unreachable += 1
                close_with_reset(client)
                return
            link = Link(client, server, self._counts)
            self._links.add(link)
            try:
                await link.run(self.up, self.down)
            finally:
                self._links.discard(link)


def _bound(port: int) -> socket.socket:
    """Return a socket on a port of 127.0.0.1 that other sockets of this process may share; 0 picks a free one."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock


@asynccontextmanager
async def open_toxic(host: str, port: int) -> AsyncIterator[Toxic]:
    """Run a proxy in front of a server, without faults at first. All of its connections are closed at the end."""
    async with trio.open_nursery() as nursery:
        toxic = Toxic((host, port), nursery)
        toxic.admit()
        try:
            yield toxic
        finally:
            toxic.close()
            nursery.cancel_scope.cancel()
