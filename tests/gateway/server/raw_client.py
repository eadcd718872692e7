"""A client that sends exactly the given bytes and has its own response parser, and a server to run it against."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import trio

from gateway.server.asgi import ASGIApp
from gateway.server.bounds import Bounds
from gateway.server.errors import EdgeAnswer
from gateway.server.hypercorn import serve_hypercorn
from gateway.server.serve import serve_native
from gateway.server.unsent import Unsent

ENGINES = {"native": serve_native, "hypercorn": serve_hypercorn}
PATIENCE_S = 8


def edge_answer(status: int, sentence: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    return [(b"content-type", b"text/plain")], f"edge {status}: {sentence}".encode()


@dataclass
class Served:
    port: int
    shutdown: trio.Event
    ended: trio.Event = field(default_factory=trio.Event)

    async def connect(self, *, buffer_bytes: int | None = None) -> "Client":
        """Return a connection. `buffer_bytes` is about how much the kernel buffers for a client that does not read."""
        if buffer_bytes is None:
            return Client(await trio.open_tcp_stream("127.0.0.1", self.port))
        sock = trio.socket.socket()
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, buffer_bytes)
        await sock.connect(("127.0.0.1", self.port))
        return Client(trio.SocketStream(sock))

    async def ask(self, data: bytes) -> list["Answer"]:
        """Return every response to `data` on one connection until the server closes it."""
        async with await self.connect() as client:
            await client.send(data)
            return await client.answers_until_close()


@asynccontextmanager
async def open_served(
    app: ASGIApp,
    *,
    engine: str = "native",
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    drain_s: float = 2,
    patience_s: float = PATIENCE_S,
    answer_of_edge: EdgeAnswer = edge_answer,
    websocket_paths: frozenset[str] = frozenset(),
    unsent: Unsent | None = None,
    **more: object,
) -> AsyncIterator[Served]:
    """Serve `app` on a free port. On exit, stop it and wait for its end."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    served = Served(listeners[0].socket.getsockname()[1], trio.Event())
    serve = partial(
        ENGINES[engine],
        app,
        listeners,
        shutdown=served.shutdown,
        drain_s=drain_s,
        edge_answer=answer_of_edge,
        bounds=bounds,
        websocket_paths=websocket_paths,
        unsent=unsent,
        **more,
    )
    with trio.fail_after(patience_s):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run, serve, served)
            yield served
            served.shutdown.set()


async def _run(serve: Callable, served: Served) -> None:
    try:
        await serve()
    finally:
        served.ended.set()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    version: str = "HTTP/1.1"

    def header(self, name: bytes) -> bytes | None:
        found = [value for key, value in self.headers if key.lower() == name]
        assert len(found) < 2, f"{name!r} is repeated"
        return found[0] if found else None


class Client:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.buffer = b""

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await trio.aclose_forcefully(self.stream)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def ask(self, data: bytes, *, head: bool = False) -> Answer:
        await self.send(data)
        return await self.answer(head=head)

    async def more(self) -> bool:
        """Wait for bytes, and return False at the end of the stream."""
        data = await self.stream.receive_some(65_536)
        self.buffer += data
        return bool(data)

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            if not await self.more():
                raise EOFError(self.buffer)
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    async def exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            if not await self.more():
                raise EOFError(self.buffer)
        found, self.buffer = self.buffer[:count], self.buffer[count:]
        return found

    async def answer(self, *, head: bool = False) -> Answer:
        """Return the next response. `head` means that it is the response to a HEAD request."""
        first, *lines = (await self._until(b"\r\n\r\n")).split(b"\r\n")
        version, status = first.split(b" ")[:2]
        headers = tuple((name, value) for name, _, value in (line.partition(b": ") for line in lines))
        answer = Answer(int(status), headers, b"", version.decode())
        if head or answer.status in {100, 101, 204, 304}:
            return answer
        return Answer(answer.status, headers, await self._body(answer), answer.version)

    async def _body(self, answer: Answer) -> bytes:
        if answer.header(b"transfer-encoding") == b"chunked":
            pieces = []
            while size := int(await self._until(b"\r\n"), 16):
                pieces.append(await self.exactly(size))
                assert await self.exactly(2) == b"\r\n"
            assert await self.exactly(2) == b"\r\n"
            return b"".join(pieces)
        length = answer.header(b"content-length")
        if length is not None:
            return await self.exactly(int(length))
        while await self.more():
            pass
        body, self.buffer = self.buffer, b""
        return body

    async def answers_until_close(self) -> list[Answer]:
        answers = []
        while self.buffer or await self.more():
            answers.append(await self.answer())
        return answers

    async def closed(self) -> bool:
        """Return whether the server closes without another byte."""
        try:
            return not self.buffer and await self.stream.receive_some(1) == b""
        except trio.BrokenResourceError:
            return True


async def responses(client: Client) -> list[Answer]:
    """Return every response until the server closes. One without a head or cut short has the status 0."""
    seen: list[Answer] = []
    with suppress(trio.BrokenResourceError):
        while client.buffer or await client.more():
            try:
                seen.append(await client.answer())
            except (EOFError, ValueError, IndexError):
                seen.append(Answer(0, (), b""))
                break
    return seen


async def statuses(client: Client) -> tuple[int, ...]:
    """Return the status of every response until the server closes."""
    return tuple(answer.status for answer in await responses(client))
