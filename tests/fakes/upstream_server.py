"""A raw TCP server that sends exactly the bytes that a test chooses, to imitate faulty servers."""

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from upstreams.transport.http import HttpCall
from upstreams.transport.origin import Origin


class HungUp(Exception):
    """The client closed its connection between two requests."""


class Peer:
    """The server's end of one connection."""

    def __init__(self, stream: trio.abc.Stream, raw: trio.SocketStream, server: "UpstreamServer", number: int) -> None:
        self.number = number
        self._stream = stream
        self._raw = raw
        self._server = server
        self._buffer = bytearray()

    async def request(self) -> bytes:
        """Return the bytes of the next whole request."""
        while b"\r\n\r\n" not in self._buffer:
            await self._fill()
        head_bytes = self._buffer.index(b"\r\n\r\n") + 4
        length = next(
            (int(line.split(b":")[1]) for line in self._buffer[:head_bytes].split(b"\r\n") if is_length(line)), 0
        )
        while len(self._buffer) < head_bytes + length:
            await self._fill()
        request = bytes(self._buffer[: head_bytes + length])
        del self._buffer[: head_bytes + length]
        self._server.requests.append(request)
        return request

    async def send(self, *pieces: bytes) -> None:
        """Send each piece separately."""
        for piece in pieces:
            await self._stream.send_all(piece)

    async def close(self) -> None:
        """Close the connection normally."""
        await self._raw.aclose()

    async def reset(self) -> None:
        """Close the connection with a TCP reset."""
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self._raw.aclose()

    async def _fill(self) -> None:
        if not (data := await self._stream.receive_some(65_536)):
            raise HungUp
        self._buffer += data


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class UpstreamServer:
    """The requests received so far, and the address to send calls to."""

    origin: Origin
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0

    def call(self, target: str = "/", method: str = "GET", body: bytes = b"", **headers: str) -> HttpCall:
        """Return a call to this server; `user_agent="x"` becomes the header `user-agent: x`."""
        named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return HttpCall(method, self.origin, target, named, body)

    @property
    def url(self) -> str:
        return f"{self.origin.scheme}://{self.origin.host}:{self.origin.port}"


def is_length(line: bytes) -> bool:
    return line.lower().startswith(b"content-length:")


def reply(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    """Return a plain response with its content length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(*pieces: bytes) -> Script:
    """Answer every request with the same pieces and keep the connection open."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(*pieces)

    return script


def once(*pieces: bytes) -> Script:
    """Answer one request, then close."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)

    return script


async def echo_target(peer: Peer) -> None:
    """Answer with the request's own target, so that mixed-up answers are detected."""
    while True:
        request = await peer.request()
        await peer.send(reply(request.split(b" ")[1]))


async def until(condition: Callable[[], object]) -> None:
    """Poll until a condition holds, for conditions that have no event."""
    while not condition():  # noqa: ASYNC110 - the condition depends on a socket, which sets no event
        await trio.sleep(0.001)


@asynccontextmanager
async def open_upstream_server(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[UpstreamServer]:
    """Run `script` for every connection to its own port. Connections still open when the block ends are cut."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    server = UpstreamServer(Origin("http" if tls is None else "https", "127.0.0.1", port))

    async def handle(raw: trio.SocketStream) -> None:
        stream: trio.abc.Stream = raw
        if tls is not None:
            stream = trio.SSLStream(raw, tls, server_side=True, https_compatible=True)
        server.connections += 1
        server.open_connections += 1
        try:
            await script(Peer(stream, raw, server, server.connections))
        except (HungUp, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            server.open_connections -= 1
            await trio.aclose_forcefully(raw)

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, handle, [listener])
        failure: Exception | None = None
        try:
            yield server
        except Exception as exc:  # noqa: BLE001 - raised below, outside the nursery that would wrap it in a group
            failure = exc
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
