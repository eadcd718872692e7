"""A server with fixed responses for the load generator's tests: it counts requests on real sockets."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import trio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

Answer = Callable[[int], list[bytes] | None]
"""Returns the pieces to send for the nth request (from 1), or None to close instead."""


@dataclass
class Asked:
    """The server's address and the request heads that it has read, in order."""

    url: str = ""
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0

    @property
    def targets(self) -> list[bytes]:
        return [head.split(b" ")[1] for head in self.heads]


@asynccontextmanager
async def open_scripted(answer: Answer = lambda _: [OK]) -> AsyncIterator[Asked]:
    """Serve `answer` on a free port until the block ends."""
    asked = Asked()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, partial(_serve, asked, answer), 0, host="127.0.0.1"))
        asked.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield asked
        nursery.cancel_scope.cancel()


async def _serve(asked: Asked, answer: Answer, stream: trio.SocketStream) -> None:
    asked.connections += 1
    received = b""
    async with stream:
        with suppress(trio.BrokenResourceError):  # the load generator closes its connections at the end
            async for data in stream:
                received += data
                while b"\r\n\r\n" in received:
                    head, _, received = received.partition(b"\r\n\r\n")
                    asked.heads.append(head)
                    pieces = answer(len(asked.heads))
                    if pieces is None:
                        return
                    for piece in pieces:
                        await stream.send_all(piece)
