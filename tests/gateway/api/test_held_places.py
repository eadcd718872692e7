"""A request is one of its key's concurrent ones until its client has taken the whole answer, and no longer."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.patient_clock import BRISKLY
from tests.fakes.scripted_upstream import Told, told
from tests.fakes.upstream_server import until
from tests.gateway.server.raw_client import Client
from tests.spec.refusals import assert_refused

LARGE_BYTES = 3_000_000
CLOSES_S = 20.0
LARGE = "/v1/github/profile?handle=octocat"
SEARCH = "/v1/hackernews/search?query=trio&limit=100"
FREE = "/v1/credits/balance"
STREAM = "accept: text/event-stream\r\n"
BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


def large(asked: str) -> Told:
    """A profile, or a list of stories, of 3 MB."""
    if asked.startswith("hn.algolia.com"):
        hit = {"objectID": "1", "title": "x" * LARGE_BYTES, "created_at_i": 1, "author": "pg", "_tags": ["story"]}
        return told({"hits": [hit], "page": 0, "nbPages": 1, "nbHits": 1, "hitsPerPage": 100})
    return told({"id": 1, "login": "octocat", "bio": "x" * LARGE_BYTES})


@asynccontextmanager
async def opened(folder: Path, engine: str) -> AsyncIterator[OpenNode]:
    """A node that lets a key make one request at a time, with large answers."""
    server = {"engine": engine, "port": 0, "drain_s": 5}
    async with open_test_node(folder, server=server, limits={"concurrent_requests": 1}) as node:
        node.upstream.script = large
        yield node


async def ask(node: OpenNode, target: str, *, method: str = "GET", more: str = "") -> Client:
    """A connection that has asked and keeps little for a client that does not read."""
    parts = urlsplit(node.url)
    sock = trio.socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await sock.connect((parts.hostname, parts.port))
    client = Client(trio.SocketStream(sock))
    await client.send(f"{method} {target} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {node.key}\r\n{more}\r\n".encode())
    return client


def running(node: OpenNode) -> int:
    """The requests that count as running."""
    return node.node.admission.gate.statistics().leases


@BOTH
@pytest.mark.parametrize(("target", "more"), [(LARGE, ""), (SEARCH, ""), (SEARCH, STREAM)])
@pytest.mark.parametrize("is_hit", [False, True])
async def test_unread_response_holds_its_place(
    target: str, more: str, is_hit: bool, engine: str, tmp_path: Path
) -> None:
    async with opened(tmp_path, engine) as node:
        if is_hit:
            assert (await node.get(target)).status == 200
        async with await ask(node, target, more=more) as reader:
            await until(lambda: node.node.unsent.readers)
            assert_refused(await node.get(FREE), "CONCURRENCY_LIMIT", 429)
            # What is refunded in part is closed before its answer tells so; else it is settled once it is taken. Of a
            # stream the rows leave before that, and while they wait to be read the rest goes on.
            held = 1 if target == LARGE and not is_hit else 0
            with trio.fail_after(CLOSES_S):
                while await node.money() != (99_999, held):  # noqa: ASYNC110 - the store has no event for it
                    await trio.sleep(0.01)
            assert len((await reader.answer()).body) > LARGE_BYTES
            assert (await node.get(FREE)).status == 200
            assert await node.money() == (99_999, 0)
        assert running(node) == 0


@BOTH
async def test_disconnect_instead_of_reading_frees_the_place(engine: str, tmp_path: Path) -> None:
    async with opened(tmp_path, engine) as node:
        reader = await ask(node, LARGE)
        await until(lambda: node.node.unsent.readers)
        assert running(node) == 1
        await trio.aclose_forcefully(reader.stream)
        await until(lambda: running(node) == 0)
        assert (await node.get(FREE)).status == 200
        await node.assert_sound()


@BOTH
async def test_head_of_a_large_response_is_sent_at_once(engine: str, tmp_path: Path) -> None:
    async with opened(tmp_path, engine) as node, await ask(node, LARGE, method="HEAD") as reader:
        head = await reader.answer(head=True)
        body = (await node.get(LARGE)).body
        assert int(head.header(b"content-length") or 0) == len(body) + len("false") - len("true"), (
            "its answer was a miss"
        )
        assert running(node) == 0


@BRISKLY
@BOTH
async def test_stop_does_not_wait_for_an_unread_response(engine: str, tmp_path: Path) -> None:
    async with opened(tmp_path, engine) as node:
        reader = await ask(node, LARGE)
        await until(lambda: node.node.unsent.readers)
    assert running(node) == 0
    await trio.aclose_forcefully(reader.stream)


@BOTH
async def test_complete_response_has_freed_its_place(engine: str, tmp_path: Path) -> None:
    """Method: one place, and requests in turn on several connections, each as soon as the answer before is there."""
    async with opened(tmp_path, engine) as node:
        clients = [await ask(node, FREE) for _ in range(1)]
        assert (await clients[0].answer()).status == 200
        for _ in range(3):
            clients.append(await ask(node, FREE))
            assert (await clients[-1].answer()).status == 200
        request = f"GET {{}} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {node.key}\r\n\r\n"
        for number in range(100):
            client = clients[number % len(clients)]
            target = (FREE, LARGE, "/v1/nowhere/at-all")[number % 3]
            assert (await client.ask(request.format(target).encode())).status in {200, 404}
        for client in clients:
            await trio.aclose_forcefully(client.stream)
