"""A request counts against its key's concurrency limit until its client has received the whole response."""

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
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
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


def large(asked: str) -> ScriptedAnswer:
    """Return a profile, or a list of stories, of 3 MB."""
    if asked.startswith("hn.algolia.com"):
        hit = {"objectID": "1", "title": "x" * LARGE_BYTES, "created_at_i": 1, "author": "pg", "_tags": ["story"]}
        return json_answer({"hits": [hit], "page": 0, "nbPages": 1, "nbHits": 1, "hitsPerPage": 100})
    return json_answer({"id": 1, "login": "octocat", "bio": "x" * LARGE_BYTES})


@asynccontextmanager
async def opened(folder: Path, engine: str) -> AsyncIterator[OpenNode]:
    """A node with large responses that allows one concurrent request per key."""
    server = {"engine": engine, "port": 0, "drain_s": 5}
    async with open_test_node(folder, server=server, limits={"concurrent_requests": 1}) as node:
        node.upstream.script = large
        yield node


async def ask(node: OpenNode, target: str, *, method: str = "GET", more: str = "") -> Client:
    """Send a request on a connection with a small receive buffer, whose client does not read yet."""
    parts = urlsplit(node.url)
    sock = trio.socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await sock.connect((parts.hostname, parts.port))
    client = Client(trio.SocketStream(sock))
    await client.send(f"{method} {target} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {node.key}\r\n{more}\r\n".encode())
    return client


def running(node: OpenNode) -> int:
    """Return the number of requests that count as running."""
    return node.node.admission.gate.statistics().leases


CASES = [(target, more, is_hit) for target, more in ((LARGE, ""), (SEARCH, ""), (SEARCH, STREAM)) for is_hit in (0, 1)]


@BOTH
async def test_unread_response_keeps_its_slot(engine: str, tmp_path: Path) -> None:
    async with opened(tmp_path, engine) as node:
        for number, (target, more, is_hit) in enumerate(CASES):
            node.account = await node.new_account()
            node.key, _ = await node.new_key(node.account)
            place = target.replace("octocat", f"user{number}").replace("trio", f"trio{number}")
            if is_hit:
                assert (await node.get(place)).status == 200
            async with await ask(node, place, more=more) as reader:
                await until(lambda: node.node.unsent.readers)
                assert_refused(await node.get(FREE), "CONCURRENCY_LIMIT", 429)
                # A partly refunded call is settled before its response reports the refund. Other calls are settled
                # after their response has been read. A stream sends its rows earlier, and while they wait to be read,
                # the rest of the call continues.
                held = 1 if target == LARGE and not is_hit else 0
                with trio.fail_after(CLOSES_S):
                    while await node.money() != (99_999, held):  # noqa: ASYNC110 - the store sets no event
                        await trio.sleep(0.01)
                assert len((await reader.answer()).body) > LARGE_BYTES
                assert (await node.get(FREE)).status == 200
                assert await node.money() == (99_999, 0)
            assert running(node) == 0, (target, more, is_hit)


@BOTH
async def test_disconnect_or_head_request_holds_no_slot(engine: str, tmp_path: Path) -> None:
    async with opened(tmp_path, engine) as node:
        reader = await ask(node, LARGE)
        await until(lambda: node.node.unsent.readers)
        assert running(node) == 1
        await trio.aclose_forcefully(reader.stream)
        await until(lambda: running(node) == 0)
        assert (await node.get(FREE)).status == 200
        other = LARGE.replace("octocat", "hubot")
        async with await ask(node, other, method="HEAD") as reader:
            head = await reader.answer(head=True)
            length = len((await node.get(other)).body) + len("false") - len("true")
            assert int(head.header(b"content-length") or 0) == length, "the HEAD response was not a cache miss"
            assert running(node) == 0
        await node.assert_sound()


@BRISKLY
@BOTH
async def test_stop_does_not_wait_for_an_unread_response(engine: str, tmp_path: Path) -> None:
    async with opened(tmp_path, engine) as node:
        reader = await ask(node, LARGE)
        await until(lambda: node.node.unsent.readers)
    assert running(node) == 0
    await trio.aclose_forcefully(reader.stream)


@BOTH
async def test_complete_response_has_freed_its_slot(engine: str, tmp_path: Path) -> None:
    """Method: one slot, and requests on several connections in turn, each sent after the previous response."""
    async with opened(tmp_path, engine) as node:
        clients = []
        for _ in range(4):
            clients.append(await ask(node, FREE))
            assert (await clients[-1].answer()).status == 200
        request = f"GET {{}} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {node.key}\r\n\r\n"
        for number in range(100):
            client = clients[number % len(clients)]
            target = LARGE if number % 25 == 0 else (FREE, "/v1/nowhere/at-all")[number % 2]
            assert (await client.ask(request.format(target).encode())).status in {200, 404}
        for client in clients:
            await trio.aclose_forcefully(client.stream)
