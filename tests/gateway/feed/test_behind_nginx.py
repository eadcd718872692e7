"""The feed behind nginx, configured as in docs/many-nodes.md."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import trio
from trio_websocket import wrap_client_stream

from tests.fakes.feeding import FEED, append_some
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.upstream_server import until
from tests.gateway.feed.feed_client import PATH, Talk, numbers
from tests.gateway.feed.test_polling import assert_nothing_left
from tests.gateway.feed.test_streams import SSE, Stream
from tests.gateway.server.nginx_proxy import open_nginx


@asynccontextmanager
async def proxied(folder: Path) -> AsyncIterator[tuple[OpenNode, trio.SocketStream]]:
    """A node, and a connection to the nginx in front of it."""
    with trio.fail_after(20):
        async with (
            open_test_node(folder) as node,
            open_nginx(folder, urlsplit(node.url).port or 0) as path,
            await trio.open_unix_socket(path) as socket,
        ):
            yield node, socket


async def test_stream_events_pass_immediately(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (node, socket):
        await append_some(node, 1)
        stream = Stream(socket)
        await stream.begin(FEED, {"x-api-key": node.key, **SSE})
        assert await stream.events(1) == ["key_0"]
        await append_some(node, 1, first=1)
        assert await stream.events(1) == ["key_1"]


async def test_websocket_messages_pass_in_both_directions(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (node, stream), trio.open_nursery() as nursery:
        await append_some(node, 1)
        own = [(b"x-api-key", node.key.encode())]
        socket = await wrap_client_stream(nursery, stream, "localhost", f"{PATH}?consumer=one", extra_headers=own)
        talk = Talk(socket, stream)
        first = await talk.next()
        assert numbers(first["items"]) == [0]
        await talk.ack(first["next_cursor"])
        assert (await talk.next())["advanced"] is True
        await append_some(node, 1, first=1)
        assert numbers((await talk.next())["items"]) == [1]
        await socket.aclose()


async def test_disconnected_poll_frees_its_slot_within_a_second(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (node, socket):
        ask = f"GET {FEED}?cursor=now&wait_s=25 HTTP/1.1\r\nhost: a\r\nx-api-key: {node.key}\r\n\r\n"
        await socket.send_all(ask.encode())
        await until(lambda: node.node.feed.hub.parked() == 1)
        await socket.aclose()
        with trio.fail_after(1):
            await until(lambda: node.node.feed.hub.parked() == 0)
        await assert_nothing_left(node)
