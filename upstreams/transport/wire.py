"""The bytes to and from one peer, over a non-blocking socket in plain text or under TLS.

Both kinds call the socket directly and wait only if necessary. OpenSSL uses the socket itself instead of memory
buffers. Bytes that the peer sends after an answer therefore stay in the kernel, where a check of the socket detects
them.
"""

import select
import socket
import ssl
import threading
from typing import Protocol

import httpx
import trio
from trio.lowlevel import wait_readable, wait_writable

from storage.errors import reason_of
from upstreams.transport.origin import Origin
from upstreams.transport.proxy import Proxy
from upstreams.transport.tunnels import open_tunnel

_RECEIVE_BYTES = 65_536


class _ReceiveBuffer(threading.local):
    """The receive buffer of all wires of a thread. Its content is copied immediately.

    `recv` would allocate a buffer for each piece and free most of it. The rest would fragment the heap, which would
    grow by 70 bytes with each cached answer.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_RECEIVE_BYTES))


_BUFFER = _ReceiveBuffer()


class UpstreamWire(Protocol):
    """A connected byte stream. Both directions raise OSError when it breaks."""

    def send_nowait(self, data: bytes) -> int:
        """Send the start of `data`. Return the number of bytes sent, or 0 if the caller must wait."""

    async def wait_to_send(self) -> None:
        """Wait until `send_nowait`, which has just returned 0, can be called again."""

    async def receive_some(self) -> bytes:
        """Wait for bytes; return b"" at the end of the stream. Always a checkpoint."""

    def is_quiet(self) -> bool:
        """Return whether the peer kept the connection open and has sent nothing since the last exchange."""

    def wake(self) -> None:
        """Make the task that waits for this stream raise `trio.ClosedResourceError`."""

    def close(self) -> None:
        """Close immediately, without a TLS shutdown."""


def _received(connected: socket.socket) -> bytes:
    room = _BUFFER.view
    return bytes(room[: connected.recv_into(room)])


class PlainWire:
    """A plain TCP socket."""

    __slots__ = ("_descriptor", "_poll", "_socket", "close")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._descriptor = connected.fileno()
        self._poll = _poll_of(connected)
        self.close = connected.close

    def wake(self) -> None:
        """See `UpstreamWire`."""
        trio.lowlevel.notify_closing(self._descriptor)

    def send_nowait(self, data: bytes) -> int:
        """See `UpstreamWire`."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    async def wait_to_send(self) -> None:
        """See `UpstreamWire`."""
        await wait_writable(self._descriptor)

    async def receive_some(self) -> bytes:
        """See `UpstreamWire`. Waits before the first attempt, because an answer is rarely available yet."""
        while True:
            await wait_readable(self._descriptor)
            try:
                return _received(self._socket)
            except BlockingIOError:
                continue

    def is_quiet(self) -> bool:
        """See `UpstreamWire`."""
        return not self._poll.poll(0)


class TlsWire:
    """A TCP socket under TLS. Both sending and receiving may have to wait for either direction of the socket."""

    __slots__ = ("_descriptor", "_poll", "_socket", "_wait_to_send", "close")

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._socket = connected
        self._wait_to_send = wait_writable
        self._descriptor = connected.fileno()
        self._poll = _poll_of(connected)
        self.close = connected.close

    def wake(self) -> None:
        """See `UpstreamWire`."""
        trio.lowlevel.notify_closing(self._descriptor)

    async def shake_hands(self) -> None:
        """Perform the handshake, which checks the peer's certificate and name."""
        while True:
            try:
                self._socket.do_handshake()
            except ssl.SSLError as exc:
                await self._wait_for(exc)
            else:
                return

    def send_nowait(self, data: bytes) -> int:
        """See `UpstreamWire`."""
        try:
            return self._socket.send(data)
        except ssl.SSLWantWriteError:
            self._wait_to_send = wait_writable
        except ssl.SSLWantReadError:
            self._wait_to_send = wait_readable
        return 0

    async def wait_to_send(self) -> None:
        """See `UpstreamWire`."""
        await self._wait_to_send(self._descriptor)

    async def receive_some(self) -> bytes:
        """See `UpstreamWire`. Tries before waiting, because OpenSSL may have bytes that the kernel no longer has."""
        waited = False
        while True:
            try:
                data = _received(self._socket)
            except ssl.SSLError as exc:
                await self._wait_for(exc)
                waited = True
            else:
                if not waited:
                    await trio.lowlevel.checkpoint()
                return data

    def is_quiet(self) -> bool:
        """See `UpstreamWire`. TLS records without data, such as a late session ticket, are processed and ignored."""
        if not self._poll.poll(0):
            return True
        try:
            self._socket.recv(1)
        except OSError as exc:
            return isinstance(exc, ssl.SSLWantReadError)
        return False

    async def _wait_for(self, exc: ssl.SSLError) -> None:
        if isinstance(exc, ssl.SSLWantReadError):
            await wait_readable(self._descriptor)
        elif isinstance(exc, ssl.SSLWantWriteError):
            await wait_writable(self._descriptor)
        else:
            raise exc


async def open_wire(origin: Origin, tls: ssl.SSLContext | None, proxy: Proxy | None = None) -> UpstreamWire:
    """Connect to `origin`, under TLS if a context is given, and through the proxy if there is one.

    Raises:
        httpx.ConnectError: The name is unknown, the connection is refused, or the peer's certificate is invalid.
        httpx.ProxyError: The proxy failed.
    """
    host = origin.address or origin.host
    try:
        if proxy is None:
            stream = await trio.open_tcp_stream(host, origin.port)
        else:
            stream = await open_tunnel(proxy, host, origin.port)
        connected = socket.socket(fileno=stream.socket.detach())
        connected.settimeout(0)
        return PlainWire(connected) if tls is None else await _start_tls(connected, tls, origin.host)
    except (OSError, ValueError) as exc:  # ValueError: the name is not a valid host name
        raise httpx.ConnectError(f"cannot connect to {origin.authority}: {reason_of(exc)}") from exc


def _poll_of(connected: socket.socket) -> select.poll:
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return poll


async def _start_tls(connected: socket.socket, tls: ssl.SSLContext, host: str) -> TlsWire:
    try:
        wire = TlsWire(tls.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False))
    except BaseException:
        connected.close()
        raise
    try:
        await wire.shake_hands()
    except BaseException:
        wire.close()
        raise
    return wire
