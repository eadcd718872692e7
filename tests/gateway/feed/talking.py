"""A WebSocket client of the feed, as programs use it, and the events that it is given."""

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
        """The next message."""
        return orjson.loads(await self.socket.get_message())

    async def events(self, count: int) -> list[Any]:
        """So many events, of as many pages as it takes; nothing else may come."""
        items: list[Any] = []
        while len(items) < count:
            message = await self.next()
            assert message["type"] == "events", message
            items += message["items"]
        return items

    async def say(self, message: object) -> None:
        """Bytes and text as they are, anything else as JSON."""
        await self.socket.send_message(message if isinstance(message, str | bytes) else orjson.dumps(message).decode())

    async def ack(self, cursor: str) -> None:
        """Acknowledge, without looking at the answer."""
        await self.say({"type": "ack", "cursor": cursor})

    async def end(self) -> tuple[list[Any], int]:
        """All that still comes, and the code of the close behind it."""
        said: list[Any] = []
        with suppress(ConnectionClosed):
            while True:
                said.append(await self.next())
        assert self.socket.closed is not None
        return said, self.socket.closed.code


@asynccontextmanager
async def talking(node: OpenNode, query: str = "", *, key: str | None = "", port: int = 0) -> AsyncIterator[Talk]:
    """A WebSocket of the node, or of another server of its API on `port`; it is closed when the block ends.

    The client stands on a stream of our own: it leaves its stream open when the server closes or refuses.
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
    """The answer to a handshake that is refused."""
    with pytest.RaisesGroup(ConnectionRejected) as found:
        async with talking(node, query, key=key):
            pass
    [refusal] = found.value.exceptions
    headers = {name.decode(): value.decode() for name, value in refusal.headers}
    return Answered(refusal.status_code, headers, refusal.body)


def revoked(account: str, number: int) -> Fact:
    """An event of this number that all keys of the account see."""
    subject = Subject("key", f"key_{number}")
    return Fact(account, "key.revoked", subject, KeyRevoked(key_id=subject.id, last4="abcd"))


def alert(account: str, number: int, key_id: str) -> Fact:
    """An event of this number that one key sees."""
    subject = Subject("run", f"run_{number}")
    data = MonitorAlert(monitor_id="mon_1", run_id=subject.id, scheduled_for="2026-01-01T00:00:00Z", alerts_fired=1)
    return Fact(account, "monitor.alert_fired", subject, data, key_id=key_id)


async def append(node: OpenNode, *facts: Fact) -> None:
    """As whatever produces events does, in one transaction."""
    await node.node.stores.store.write(lambda tx: node.node.stores.feed.append(tx, facts))


async def append_some(node: OpenNode, count: int, *, first: int = 0) -> None:
    """Events that are numbered from `first`."""
    await append(node, *[revoked(node.account, number) for number in range(first, first + count)])


def numbers(items: Sequence[Any]) -> list[int]:
    """The numbers of events, in their order."""
    return [int(item["subject"]["id"].partition("_")[2]) for item in items]


async def drop_before(node: OpenNode, first_pos: int) -> None:
    """As retention does, in one step."""
    where = (node.account, first_pos)

    def drop(tx: Tx) -> None:
        tx.run("DELETE FROM events WHERE account_id = ? AND pos < ?", where)
        tx.run("UPDATE feeds SET first_pos = ? WHERE account_id = ?", where[::-1])

    await node.node.stores.store.write(drop)
