"""A WebSocket client of the feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection, wrap_client_stream

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode

PATH = "/v1/events/ws"
MESSAGE_BYTES_MAX = 4_000_000
BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


class Talk:
    """One open WebSocket."""

    def __init__(self, socket: WebSocketConnection, stream: trio.SocketStream) -> None:
        self.socket = socket
        self.stream = stream

    async def next(self) -> Any:
        """Return the next message."""
        return orjson.loads(await self.socket.get_message())

    async def events(self, count: int) -> list[Any]:
        """Return this many events from as many pages as needed. Any other message is a failure."""
        items: list[Any] = []
        while len(items) < count:
            message = await self.next()
            assert message["type"] == "events", message
            items += message["items"]
        return items

    async def say(self, message: object) -> None:
        """Send bytes and text unchanged, anything else as JSON."""
        await self.socket.send_message(message if isinstance(message, str | bytes) else orjson.dumps(message).decode())

    async def ack(self, cursor: str) -> None:
        """Acknowledge without reading the response."""
        await self.say({"type": "ack", "cursor": cursor})

    async def end(self) -> tuple[list[Any], int]:
        """Return all remaining messages and the code of the close that ends them."""
        said: list[Any] = []
        with suppress(ConnectionClosed):
            while True:
                said.append(await self.next())
        assert self.socket.closed is not None
        return said, self.socket.closed.code


@asynccontextmanager
async def talking(node: OpenNode, query: str = "", *, key: str | None = "", port: int = 0) -> AsyncIterator[Talk]:
    """Open a WebSocket to the node, or to another server of its API on `port`, and close it when the block ends.

    The test owns the TCP stream, because the client leaves it open when the server closes or rejects the WebSocket.
    """
    sent = [] if key is None else [(b"x-api-key", (key or node.key).encode())]
    stream = await trio.open_tcp_stream("127.0.0.1", port or urlsplit(node.url).port or 0)
    async with stream, trio.open_nursery() as nursery:
        target = query if query.startswith("/") else f"{PATH}?{query}"
        socket = await wrap_client_stream(
            nursery, stream, "localhost", target, extra_headers=sent, max_message_size=MESSAGE_BYTES_MAX
        )
        yield Talk(socket, stream)
        await socket.aclose()


async def refused(node: OpenNode, query: str = "", *, key: str | None = "") -> Answered:
    """Return the response to a rejected handshake."""
    with pytest.RaisesGroup(ConnectionRejected) as found:
        async with talking(node, query, key=key):
            pass
    [refusal] = found.value.exceptions
    headers = {name.decode(): value.decode() for name, value in refusal.headers}
    return Answered(refusal.status_code, headers, refusal.body)


def numbers(items: Sequence[Any]) -> list[int]:
    """Return the numbers of events, in their order."""
    return [int(item["subject"]["id"].partition("_")[2]) for item in items]
