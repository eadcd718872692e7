"""Binds listening addresses for one process, or for the workers of one supervisor together."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress

import trio

_BACKLOG = 65_535  # the kernel reduces this to its own maximum


class AddressUnusable(Exception):
    """The node cannot listen on an address. The message names the address and the reason."""


async def bind(host: str, port: int, *, change: str) -> list[trio.SocketListener]:
    """Bind listeners on one address. Port 0 selects a free port.

    Raises:
        AddressUnusable: the address is in use, or this process is not allowed to bind it.
    """
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as exc:
        raise _unusable(exc, host, port, change) from exc


async def reserve(host: str, port: int, *, change: str) -> list[trio.socket.SocketType]:
    """Reserve an address for processes that `share` it. The sockets accept no connections. Port 0 selects a free port.

    Raises:
        AddressUnusable: a process that does not share the address uses it, or this process is not allowed to bind it.
    """
    try:
        return await _bound_together(host, port)
    except OSError as exc:
        raise _unusable(exc, host, port, change) from exc


async def share(host: str, port: int, *, change: str) -> list[trio.SocketListener]:
    """Listen on an address together with other processes of this node. Each connection goes to one of them.

    Raises:
        AddressUnusable: as for `reserve`.
    """
    listeners = []
    for sock in await reserve(host, port, change=change):
        sock.listen(_BACKLOG)
        listeners.append(trio.SocketListener(sock))
    return listeners


def port_of(listeners: list[trio.SocketListener]) -> int:
    """Return the port that listeners are actually bound to."""
    port: int = listeners[0].socket.getsockname()[1]
    return port


def in_url(host: str) -> str:
    """Format a host for a URL."""
    return f"[{host}]" if ":" in host else host


async def _bound_together(host: str, port: int) -> list[trio.socket.SocketType]:
    """Bind a socket for each address of the host. All sockets use the same port."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[trio.socket.SocketType] = []
    try:
        for family, kind, protocol, _, address in found:
            with suppress(_NoSuchFamily):
                sock = _shareable(family, kind, protocol)
                bound.append(sock)
                await sock.bind((address[0], port, *address[2:]))
                port = sock.getsockname()[1]
    except BaseException:
        for sock in bound:
            sock.close()
        raise
    if not bound:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    return bound


class _NoSuchFamily(Exception):
    """The address family, IPv6 or IPv4, is missing on this machine."""


def _shareable(family: int, kind: int, protocol: int) -> trio.socket.SocketType:
    try:
        sock = trio.socket.socket(family, kind, protocol)
    except OSError as exc:
        if exc.errno == errno.EAFNOSUPPORT:
            raise _NoSuchFamily from exc
        raise
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def _unusable(exc: OSError, host: str, port: int, change: str) -> AddressUnusable:
    reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else exc.strerror or str(exc)
    return AddressUnusable(f"cannot listen on {host}:{port}: {reason}; change {change}")
