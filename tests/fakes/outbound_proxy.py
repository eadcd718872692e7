"""Outbound proxies on loopback: they follow CONNECT or SOCKS5 and relay bytes to real sockets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

import trio

from upstreams.transport.proxy import Proxy

Serve = Callable[["OutboundProxy", trio.SocketStream], Awaitable[None]]
REFUSED_IN_SOCKS = 5


class HungUp(Exception):
    """The client closed its connection."""


@dataclass
class OutboundProxy:
    """A running proxy, and the hosts and ports that it was asked to connect to."""

    url: str
    port: int
    user: str = ""
    password: str = ""
    names: dict[str, str] = field(default_factory=dict)
    """The addresses of host names that only this proxy can resolve."""
    asked: list[tuple[str, int]] = field(default_factory=list)

    @property
    def proxy(self) -> Proxy:
        scheme = self.url.partition(":")[0]
        return Proxy(scheme, "127.0.0.1", self.port, self.user.encode(), self.password.encode())

    async def relay(self, client: trio.SocketStream, host: str, port: int, *, yes: bytes, no: bytes) -> None:
        """Connect to the host and relay in both directions. Send `yes` first, or `no` if the host is unreachable."""
        self.asked.append((host, port))
        try:
            there = await trio.open_tcp_stream(self.names.get(host, host), port)
        except OSError:
            await client.send_all(no)
            return
        async with there, trio.open_nursery() as nursery:
            await client.send_all(yes)
            nursery.start_soon(_pump, client, there, nursery.cancel_scope)
            nursery.start_soon(_pump, there, client, nursery.cancel_scope)


async def _pump(source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope) -> None:
    try:
        async for data in source:
            await sink.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel()


async def serve_connect(proxy: OutboundProxy, client: trio.SocketStream) -> None:
    """Serve one CONNECT, with Basic authentication if the proxy has a user."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += await _read(client, 1)
    method, authority, _ = head.decode().split("\r\n")[0].split(" ")
    assert method == "CONNECT"
    wanted = b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
    if proxy.user and f"\r\nProxy-Authorization: Basic {wanted}\r\n" not in head.decode():
        await client.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        return
    host, _, port = authority.rpartition(":")
    yes, no = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 fake\r\n\r\n", b"HTTP/1.1 502 Bad Gateway\r\n\r\n"
    await proxy.relay(client, host.strip("[]"), int(port), yes=yes, no=no)


async def serve_socks(proxy: OutboundProxy, client: trio.SocketStream) -> None:
    """Serve one SOCKS5 connection, with a user name and a password if the proxy has a user."""
    version, count = await _read(client, 2)
    methods = await _read(client, count)
    method = 2 if proxy.user else 0
    assert version == 5
    await client.send_all(bytes([5, method if method in methods else 255]))
    if method not in methods:
        return
    if proxy.user:
        _, length = await _read(client, 2)
        user = await _read(client, length)
        password = await _read(client, (await _read(client, 1))[0])
        is_right = (user.decode(), password.decode()) == (proxy.user, proxy.password)
        await client.send_all(bytes([1, 0 if is_right else 1]))
        if not is_right:
            return
    *_, kind = await _read(client, 4)
    if kind == 3:
        host = (await _read(client, (await _read(client, 1))[0])).decode()
    else:
        host = str(IPv4Address(await _read(client, 4)) if kind == 1 else IPv6Address(await _read(client, 16)))
    port = int.from_bytes(await _read(client, 2))
    bound = b"\x00\x03\x05bound\x00\x00"
    await proxy.relay(client, host, port, yes=b"\x05\x00" + bound, no=bytes([5, REFUSED_IN_SOCKS]) + bound)


async def _read(client: trio.SocketStream, length: int) -> bytes:
    data = b""
    while len(data) < length:
        if not (piece := await client.receive_some(length - len(data))):
            raise HungUp
        data += piece
    return data


SERVES: dict[str, Serve] = {"http": serve_connect, "socks5h": serve_socks}


@asynccontextmanager
async def open_outbound_proxy(
    scheme: str, serve: Serve | None = None, *, user: str = "", password: str = ""
) -> AsyncIterator[OutboundProxy]:
    """Run a proxy of this scheme until the block ends. `serve` replaces its usual behavior."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    signature = f"{user}:{password}@" if user else ""
    proxy = OutboundProxy(f"{scheme}://{signature}127.0.0.1:{port}", port, user, password)

    async def handle(client: trio.SocketStream) -> None:
        try:
            await (serve or SERVES[scheme])(proxy, client)
        except (HungUp, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(client)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
