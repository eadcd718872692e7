"""A WebSocket client of the feed, and helpers to write events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection, wrap_client_stream

from events.log.kinds import KeyRevoked, MonitorAlert
from events.log.log import Fact, Subject
from storage.store import Tx
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


def revoked(account: str, number: int) -> Fact:
    """Return an event with this number that all keys of the account see."""
    subject = Subject("key", f"key_{number}")
    return Fact(account, "key.revoked", subject, KeyRevoked(key_id=subject.id, last4="abcd"))


def alert(account: str, number: int, key_id: str) -> Fact:
    """Return an event with this number that only one key sees."""
    subject = Subject("run", f"run_{number}")
    data = MonitorAlert(monitor_id="mon_1", run_id=subject.id, scheduled_for="2026-01-01T00:00:00Z", alerts_fired=1)
    return Fact(account, "monitor.alert_fired", subject, data, key_id=key_id)


async def append(node: OpenNode, *facts: Fact) -> None:
    """Append events in one transaction, as a producer does."""
    await node.node.stores.store.write(lambda tx: node.node.stores.feed.append(tx, facts))


async def append_some(node: OpenNode, count: int, *, first: int = 0) -> None:
    """Append events numbered from `first`."""
    await append(node, *[revoked(node.account, number) for number in range(first, first + count)])


def numbers(items: Sequence[Any]) -> list[int]:
    """Return the numbers of events, in their order."""
    return [int(item["subject"]["id"].partition("_")[2]) for item in items]


async def drop_before(node: OpenNode, first_pos: int) -> None:
    """Delete all events before this position, as retention does."""
    where = (node.account, first_pos)

    def drop(tx: Tx) -> None:
        tx.run("DELETE FROM events WHERE account_id = ? AND pos < ?", where)
        tx.run("UPDATE feeds SET first_pos = ? WHERE account_id = ?", where[::-1])

    await node.node.stores.store.write(drop)
