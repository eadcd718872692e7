"""Connections through an outbound proxy: CONNECT (RFC 9110, 9.3.6), or SOCKS5 (RFC 1928 and 1929).

The proxy connects to a host and passes bytes in both directions. TLS is negotiated with the host inside the tunnel, so
the proxy sees only its name or address. The libraries for this on Trio read a proxy's reply with a single `recv`, and
their errors contain the proxy's address; ours are shown to callers.
"""

from __future__ import annotations

import os
import re
import socket
from base64 import b64encode
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import httpx
import trio

from upstreams.transport.http import Exchange, HttpAnswer, HttpCall
from upstreams.transport.proxy import Proxy

REACH_S: Final = 4.0
"""The time limit for connecting to the proxy. It is shorter than any timeout that counts against a source."""
REPORT_S: Final = 60.0
"""Minimum seconds between two reports about the proxy of a platform."""
_HEAD_BYTES_MAX: Final = 16_384
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
_UNREACHED_STATUSES: Final = (502, 503, 504)
_VERSION: Final = 5
_WITHOUT_SIGN_IN: Final = 0
_BY_PASSWORD: Final = 2
_NO_METHOD: Final = 255
_SIGN_IN_VERSION: Final = 1
_REPLIES: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "the network is unreachable",
    4: "the host is unreachable",
    5: "connection refused",
    6: "the connection timed out",
    7: "the command is not supported",
    8: "the kind of address is not supported",
}
_UNREACHED_REPLIES: Final = (3, 4, 5, 6)
_V4, _NAME, _V6 = 1, 3, 4
_PORT_BYTES: Final = 2


def reporting_proxy(exchange: Exchange, report: Callable[[str], None]) -> Exchange:
    """Return an exchange that reports the failures of its proxy, at most once in `REPORT_S`."""
    quiet_until = 0.0

    async def reporting(call: HttpCall, deadline_at: float) -> HttpAnswer:
        nonlocal quiet_until
        try:
            return await exchange(call, deadline_at)
        except httpx.ProxyError as exc:
            if trio.current_time() >= quiet_until:
                quiet_until = trio.current_time() + REPORT_S
                report(str(exc))
            raise

    return reporting


async def open_tunnel(proxy: Proxy, host: str, port: int) -> trio.SocketStream:
    """Connect to a host through the proxy. If `host` is a name, the proxy resolves it.

    Raises:
        httpx.ProxyError: The proxy cannot be reached, refuses, or violates the protocol. The message never names it.
        httpx.ConnectError: The proxy reports that it cannot connect to the host.
    """
    stream = await _reach(proxy)
    open_through = _connect if proxy.scheme == "http" else _open_by_socks
    try:
        await open_through(stream, proxy, host, port)
    except trio.BrokenResourceError as exc:
        stream.socket.close()
        raise httpx.ProxyError("the outbound proxy broke the connection") from exc
    except BaseException:
        stream.socket.close()
        raise
    return stream


async def _reach(proxy: Proxy) -> trio.SocketStream:
    with trio.move_on_after(REACH_S):
        try:
            return await trio.open_tcp_stream(proxy.host, proxy.port)
        except OSError as exc:
            raise httpx.ProxyError(f"the outbound proxy cannot be reached: {_reason_of(exc)}") from None
    raise httpx.ProxyError("the outbound proxy did not accept a connection in time")


def _reason_of(exc: OSError) -> str:
    """Return why a connection failed. The text of Trio's exception contains the address."""
    if isinstance(exc, socket.gaierror):
        return "its name has no address"
    inner: BaseException = exc.__cause__ or exc
    if isinstance(inner, BaseExceptionGroup):  # one exception for each address
        inner = inner.exceptions[0]
    return os.strerror(inner.errno) if isinstance(inner, OSError) and inner.errno else "no connection"


async def _connect(stream: trio.SocketStream, proxy: Proxy, host: str, port: int) -> None:
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    signature = b""
    if proxy.user:
        signature = b"Proxy-Authorization: Basic " + b64encode(proxy.user + b":" + proxy.password) + b"\r\n"
    await stream.send_all(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n".encode() + signature + b"\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        if len(head) > _HEAD_BYTES_MAX:
            raise _violation("its response head is too long")
        head += await _some(stream, _HEAD_BYTES_MAX)
    found = _STATUS.match(head)
    if found is None:
        raise _violation("it does not speak HTTP/1.1")
    status = int(found[1])
    if status in _UNREACHED_STATUSES:
        raise httpx.ConnectError(f"the outbound proxy cannot connect to {authority}: status {status}")
    if not 200 <= status < 300:
        why = "it does not accept the credentials" if status == 407 else f"status {status}"
        raise httpx.ProxyError(f"the outbound proxy refused the connection: {why}")
    if head.index(b"\r\n\r\n") + 4 < len(head):  # the host never speaks first, so these bytes are not from it
        raise _violation("it sent bytes after its response head")


async def _open_by_socks(stream: trio.SocketStream, proxy: Proxy, host: str, port: int) -> None:
    methods = bytes([_WITHOUT_SIGN_IN, _BY_PASSWORD]) if proxy.user else bytes([_WITHOUT_SIGN_IN])
    await stream.send_all(bytes([_VERSION, len(methods)]) + methods)
    version, method = await _exactly(stream, 2)
    if version != _VERSION:
        raise _violation("it does not speak SOCKS5")
    if method == _NO_METHOD:
        raise httpx.ProxyError("the outbound proxy refused the connection: it requires another kind of sign-in")
    if method not in methods:
        raise _violation("it chose a kind of sign-in that was not offered")
    if method == _BY_PASSWORD:
        await stream.send_all(bytes([_SIGN_IN_VERSION]) + _counted(proxy.user) + _counted(proxy.password))
        _, refused = await _exactly(stream, 2)
        if refused:
            raise httpx.ProxyError("the outbound proxy refused the connection: it does not accept the credentials")
    await stream.send_all(bytes([_VERSION, 1, 0]) + _destination(host) + port.to_bytes(_PORT_BYTES))
    version, reply, _, kind = await _exactly(stream, 4)
    if version != _VERSION:
        raise _violation("it does not speak SOCKS5")
    if reply:
        why = _REPLIES.get(reply, f"reply {reply}")
        if reply in _UNREACHED_REPLIES:
            raise httpx.ConnectError(f"the outbound proxy cannot connect to {host}: {why}")
        raise httpx.ProxyError(f"the outbound proxy refused the connection: {why}")
    await _skip_address(stream, kind)


async def _skip_address(stream: trio.SocketStream, kind: int) -> None:
    """Read the address from which the proxy connects. Nothing needs it."""
    if kind == _NAME:
        (length,) = await _exactly(stream, 1)
    elif kind in (_V4, _V6):
        length = 4 if kind == _V4 else 16
    else:
        raise _violation("its reply contains an unknown kind of address")
    await _exactly(stream, length + _PORT_BYTES)


def _destination(host: str) -> bytes:
    """Return a host as SOCKS5 writes it: an address in binary, or a name for the proxy to resolve."""
    try:
        address: IPv4Address | IPv6Address = ip_address(host)
    except ValueError:
        return bytes([_NAME]) + _counted(host.encode())
    return bytes([_V4 if address.version == 4 else _V6]) + address.packed


def _counted(part: bytes) -> bytes:
    return bytes([len(part)]) + part


async def _exactly(stream: trio.SocketStream, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += await _some(stream, length - len(data))
    return data


async def _some(stream: trio.SocketStream, length: int) -> bytes:
    data = await stream.receive_some(length)
    if not data:
        raise httpx.ProxyError("the outbound proxy closed the connection")
    return bytes(data)


def _violation(problem: str) -> httpx.ProxyError:
    return httpx.ProxyError(f"the outbound proxy violates its protocol: {problem}")
