"""An HTTP/2 client that sends exactly the frames that a test wants, and Hypercorn over TLS to run it against."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import trio
import trustme

from gateway.server.asgi import ASGIApp
from tests.gateway.server.raw_client import Served, open_served

AUTHORITY = trustme.CA()
FRAME = 16_384


@dataclass
class Stream:
    """The response to one request, as far as it has arrived."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False
    reset: int | None = None


class H2Client:
    """One connection."""

    def __init__(self, stream: trio.SSLStream, *, reads: bool = True) -> None:
        self.stream = stream
        self.reads = reads
        """Whether the client gives back the flow-control window of the data that it has read."""
        self.streams: dict[int, Stream] = {}
        self.goodbye: int | None = None
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = b"", key: str = "k") -> Stream:
        """Send a request. Without a body (None) its stream stays open."""
        number = self.h2.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        self.h2.send_headers(number, [*pseudo, ("x-api-key", key)], end_stream=body == b"")
        for at in range(0, len(body or b""), FRAME):
            self.h2.send_data(number, body[at : at + FRAME], end_stream=at + FRAME >= len(body))
        self.streams[number] = Stream()
        await self.flush()
        return self.streams[number]

    def number_of(self, stream: Stream) -> int:
        return next(number for number, one in self.streams.items() if one is stream)

    async def flush(self) -> None:
        await self.stream.send_all(self.h2.data_to_send())

    async def pump(self) -> bool:
        """Process the next bytes, and return False at the end of the stream."""
        data = await self.stream.receive_some(65_536)
        if not data:
            return False
        for event in self.h2.receive_data(data):
            self._take(event)
        await self.flush()
        return True

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goodbye = event.error_code
        stream = self.streams.get(getattr(event, "stream_id", None) or 0)
        if stream is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            stream.headers = dict(event.headers)
            stream.status = int(stream.headers[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
            if self.reads:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            stream.ended = True
        elif isinstance(event, h2.events.StreamReset):
            stream.reset = event.error_code

    async def until(self, condition: Callable[[], object]) -> None:
        """Read until the condition holds.

        Raises:
            EOFError: the server closed the connection before.
        """
        while not condition():
            if not await self.pump():
                raise EOFError

    async def answer(self, path: str, **request: object) -> Stream:
        """Send a request and wait for its whole response."""
        stream = await self.ask(path, **request)
        await self.until(lambda: stream.ended)
        return stream


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("localhost").configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def client_context(*protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    context.set_alpn_protocols([*protocols])
    return context


@asynccontextmanager
async def open_tls_served(app: ASGIApp, **more: object) -> AsyncIterator[Served]:
    """Hypercorn over TLS."""
    context = server_context()
    async with open_served(app, engine="hypercorn", tls=lambda: context, **more) as served:
        yield served


async def secured(served: Served, protocol: str) -> trio.SSLStream:
    """Return a connection after its TLS handshake, with a small receive buffer."""
    plain = (await served.connect(buffer_bytes=4_096)).stream
    stream = trio.SSLStream(plain, client_context(protocol), server_hostname="localhost", https_compatible=True)
    await stream.do_handshake()
    return stream


@asynccontextmanager
async def h2_client(served: Served, *, reads: bool = True) -> AsyncIterator[H2Client]:
    """An HTTP/2 client on its own connection."""
    stream = await secured(served, "h2")
    assert stream.selected_alpn_protocol() == "h2"
    client = H2Client(stream, reads=reads)
    client.h2.initiate_connection()
    await client.flush()
    try:
        yield client
    finally:
        await trio.aclose_forcefully(stream)
