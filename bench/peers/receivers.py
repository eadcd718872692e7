"""Receivers of webhooks on loopback, each on its own address: plain HTTP, TLS, and one that never responds."""

import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio
import trustme

HOSTS = 16
"""The number of addresses of one kind. A node makes 8 concurrent attempts at each."""
HOLE = "127.0.0.200"
RECEIVE_BYTES = 65_536
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n%b\r\nok"
KEPT = _ANSWER % b""
CLOSED = _ANSWER % b"connection: close\r\n"
_ID = b"\r\nwebhook-id: "
_LENGTH = b"\r\nContent-Length: "


@dataclass(slots=True)
class Receivers:
    """The deliveries that have arrived.

    Only the receivers add deliveries. A task that waits creates a new `arrival` first.
    """

    arrived: dict[str, float] = field(default_factory=dict)
    """The time at which the first byte of each delivery arrived, by the delivery's id."""
    arrival: trio.Event = field(default_factory=trio.Event)

    async def wait_for(self, count: int) -> None:
        """Wait until this many different deliveries have arrived."""
        while len(self.arrived) < count:
            self.arrival = trio.Event()
            await self.arrival.wait()

    async def answer(self, stream: trio.abc.Stream, answer: bytes) -> None:
        """Respond to the requests on one connection until the connection ends or is closed."""
        received = b""
        at = 0.0
        try:
            while data := await stream.receive_some(RECEIVE_BYTES):
                at = at if received else time.time()
                received += data
                if not _is_whole(received):
                    continue
                self.arrived.setdefault(_between(received, _ID, b"\r\n").decode(), at)
                self.arrival.set()
                received = b""
                await stream.send_all(answer)
                if answer is CLOSED:
                    break
            await stream.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(stream)


@dataclass(frozen=True, slots=True)
class Urls:
    """The addresses of the receivers."""

    plain: tuple[str, ...]
    """Plain HTTP, with connections kept open."""
    kept: tuple[str, ...]
    """TLS, with connections kept open."""
    closed: tuple[str, ...]
    """TLS, with each connection closed after its response."""
    hole: str
    """Accepts connections and data, and never responds."""


@asynccontextmanager
async def open_receivers(authority: Path) -> AsyncIterator[tuple[Receivers, Urls]]:
    """Run receivers until the block ends, and write the certificate of their authority to `authority`."""
    vouching, receivers = trustme.CA(), Receivers()
    vouching.cert_pem.write_to_path(authority)
    hosts = [f"127.0.0.{number}" for number in range(1, HOSTS + 1)]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    vouching.issue_cert(*hosts).configure_cert(context)

    async def answer_under_tls(raw: trio.SocketStream, answer: bytes) -> None:
        await receivers.answer(trio.SSLStream(raw, context, server_side=True, https_compatible=True), answer)

    plain = partial(receivers.answer, answer=KEPT)
    kept, closed = partial(answer_under_tls, answer=KEPT), partial(answer_under_tls, answer=CLOSED)
    async with trio.open_nursery() as nursery:
        yield (
            receivers,
            Urls(
                plain=tuple([await _listen(nursery, plain, "http", host) for host in hosts]),
                kept=tuple([await _listen(nursery, kept, "https", host) for host in hosts]),
                closed=tuple([await _listen(nursery, closed, "https", host) for host in hosts]),
                hole=await _listen(nursery, _never_respond, "http", HOLE),
            ),
        )
        nursery.cancel_scope.cancel()


Handler = Callable[[trio.SocketStream], Awaitable[None]]


async def _listen(nursery: trio.Nursery, handler: Handler, scheme: str, host: str) -> str:
    """Serve on a free port of `host`, and return the URL."""
    listeners = await trio.open_tcp_listeners(0, host=host)
    nursery.start_soon(trio.serve_listeners, handler, listeners)
    return f"{scheme}://{host}:{listeners[0].socket.getsockname()[1]}/hook"


async def _never_respond(stream: trio.SocketStream) -> None:
    try:
        while await stream.receive_some(RECEIVE_BYTES):
            pass
        await stream.aclose()
    except trio.BrokenResourceError:
        await trio.aclose_forcefully(stream)


def _is_whole(received: bytes) -> bool:
    end = received.find(b"\r\n\r\n")
    return end > 0 and len(received) >= end + 4 + int(_between(received, _LENGTH, b"\r\n"))


def _between(received: bytes, before: bytes, after: bytes) -> bytes:
    start = received.index(before) + len(before)
    return received[start : received.index(after, start)]
