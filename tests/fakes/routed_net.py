"""A network on which public addresses lead to this machine. Connections are recorded and routed by the test."""

import errno
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import trio

Address = tuple[str, int]


class RoutedNet(trio.abc.SocketFactory):
    """Creates sockets that connect to `routes[address]`; other addresses are unreachable. Use it with `routed`."""

    def __init__(self, routes: Mapping[str, Address]) -> None:
        self.routes = routes
        self.connected: list[str] = []
        """Every address of a connection attempt."""

    def socket(self, family: Any = None, type: Any = None, proto: Any = None) -> trio.socket.SocketType:  # noqa: A002
        """Return a socket like `trio.socket.socket`."""
        real = trio.socket.from_stdlib_socket(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        return _RoutedSocket(self, real)

    @contextmanager
    def routed(self) -> Iterator["RoutedNet"]:
        """Route all connections through this network while the block runs."""
        before = trio.socket.set_custom_socket_factory(self)
        try:
            yield self
        finally:
            trio.socket.set_custom_socket_factory(before)


class _RoutedSocket(trio.socket.SocketType):
    def __init__(self, net: RoutedNet, real: trio.socket.SocketType) -> None:
        self._net = net
        self._real = real

    @property
    def type(self) -> socket.SocketKind:
        return self._real.type

    async def connect(self, address: Any) -> None:
        self._net.connected.append(address[0])
        if address[0] not in self._net.routes:
            await trio.lowlevel.checkpoint()
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
        await self._real.connect(self._net.routes[address[0]])

    def getpeername(self) -> Any:
        return self._real.getpeername()

    def setsockopt(self, *arguments: Any) -> None:
        self._real.setsockopt(*arguments)

    def getsockopt(self, *arguments: Any) -> Any:
        return self._real.getsockopt(*arguments)

    def detach(self) -> int:
        return self._real.detach()

    def close(self) -> None:
        self._real.close()
