"""The WebSocket to a browser: long messages are sent in pieces and arrive whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import trio
from trio_websocket import WebSocketRequest, serve_websocket

from upstreams.web.browser.address import BrowserAddress
from upstreams.web.browser.socket import PIECE_BYTES, open_socket

LONG = ('{"body":"' + "ä€😀abc" * 400_000 + '"}').encode()
"""A text of 5 MB, in which some letters of several bytes are split between pieces."""


class CountedStream(trio.abc.Stream):
    """Counts the bytes of each write to another stream."""

    def __init__(self, inner: trio.SocketStream) -> None:
        self._inner = inner
        self.pieces: list[int] = []

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(len(data))
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def take_two(texts: list[Any], taken: trio.Event, request: WebSocketRequest) -> None:
    """A browser that accepts two messages."""
    connection = await request.accept()
    texts += [await connection.get_message(), await connection.get_message()]
    taken.set()


async def open_browser(nursery: trio.Nursery, texts: list[Any], taken: trio.Event) -> int:
    """Return the port of a browser that accepts two messages."""
    serve: Callable[..., Any] = partial(
        serve_websocket, partial(take_two, texts, taken), "127.0.0.1", 0, None, max_message_size=10_000_000
    )
    server = await nursery.start(serve)
    port: int = server.port
    return port


async def test_long_message_is_sent_in_pieces_between_other_tasks() -> None:
    """Goal: no step of the event loop grows with a message. Method: count the pieces, and the steps of another task."""
    texts: list[Any] = []
    turns, taken = 0, trio.Event()

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            port = await open_browser(nursery, texts, taken)
            stream = CountedStream(await trio.open_tcp_stream("127.0.0.1", port))
            socket = await open_socket(nursery, stream, BrowserAddress("127.0.0.1", port, "/", False))
            nursery.start_soon(count)
            stream.pieces.clear()
            before = turns
            async with trio.open_nursery() as senders:
                senders.start_soon(socket.send, LONG)
                senders.start_soon(socket.send, b'{"short":1}')
            assert len(stream.pieces) >= len(LONG) // PIECE_BYTES + 1
            assert max(stream.pieces) <= PIECE_BYTES + 17, "includes the frame's head, and the rest of a letter"
            assert turns - before >= len(LONG) // PIECE_BYTES
            await taken.wait()
            await stream.aclose()
            nursery.cancel_scope.cancel()
    assert sorted(texts, key=len) == ['{"short":1}', LONG.decode()]
