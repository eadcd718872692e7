"""Clients that request large responses and do not read them: memory stays bounded, and others are served.

Method: a real node process, real sockets with small receive buffers, and the resident memory of the process.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from urllib.parse import urlsplit

import pytest
import trio

from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, json_answer, open_upstream
from tests.processes.place import Place, Served

READERS = 600
DIFFERENT = 200
PLACES_OF_A_KEY = 50
KEYS_OF_AN_ACCOUNT = 5
LARGE_BYTES = 1_500_000
HELD_BYTES_MAX = 100_000_000
LARGE = "/v1/github/profile?handle=octocat"
PATIENCE_S = 120.0
Opened = tuple[Served, list[str]]


def large(asked: str) -> ScriptedAnswer:
    """Return a profile with a long biography."""
    return json_answer({"id": 1, "login": asked.rpartition("/")[2], "bio": "x" * LARGE_BYTES})


def resident_bytes(node: Served) -> int:
    """Return the resident memory of the node's process."""
    with open(f"/proc/{node.popen.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


@contextmanager
def readers(node: Served, asked: list[tuple[str, str]], *, in_turn: bool) -> Iterator[list[socket.socket]]:
    """Open a connection for each target and key, send all requests (sequentially if `in_turn`), and read nothing."""
    parts = urlsplit(node.url)
    assert parts.hostname is not None
    with ExitStack() as stack:
        clients = []
        for target, key in asked:
            client = stack.enter_context(socket.socket())
            client.settimeout(PATIENCE_S)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect((parts.hostname, parts.port))
            client.sendall(b"GET %b HTTP/1.1\r\nHost: a\r\nx-api-key: %b\r\n\r\n" % (target.encode(), key.encode()))
            clients.append(client)
            if in_turn:
                statuses([client])
        yield clients


def statuses(clients: list[socket.socket]) -> list[int]:
    """Return the status of each response, peeked without consuming it."""
    return [int(client.recv(12, socket.MSG_PEEK).split()[1]) for client in clients]


@asynccontextmanager
async def opened(place: Place, accounts: int, keys: int, **tables: Mapping[str, object]) -> AsyncIterator[Opened]:
    """A node whose upstream returns large responses, with several keys per account.

    It sheds no load, because hundreds of unread responses would trigger shedding on a slow machine.
    """
    upstream = Upstream()
    upstream.script = large
    with trio.fail_after(PATIENCE_S):
        async with open_upstream(upstream) as egress:
            place.configure(server={"shed": False}, upstreams={"egress": egress}, **tables)
            made = []
            for _ in range(accounts):
                account = place.json_of("account", "create", "--name", "test", "--credits", str(READERS))["id"]
                made += [place.json_of("key", "create", "--account", account)["key"] for _ in range(keys)]
            with place.serve() as node:
                yield node, made


def held_by(node: Served, asked: list[tuple[str, str]], *, in_turn: bool = False) -> tuple[int, Counter[int]]:
    """Return the memory growth and the statuses while the clients read nothing. Others are served in the meantime."""
    before = resident_bytes(node)
    with readers(node, asked, in_turn=in_turn) as clients:
        seen = Counter(statuses(clients))
        held = resident_bytes(node) - before
        assert node.get("/v1/status").status == 200
        return held, seen


@pytest.mark.parametrize(("accounts", "keys"), [(1, 1), (3, KEYS_OF_AN_ACCOUNT)])
async def test_slow_readers_of_a_cached_response_use_little_memory(accounts: int, keys: int, place: Place) -> None:
    """Earlier, a copy per reader used 905 MB, with one key or with many."""
    async with opened(place, accounts, keys) as (node, made):
        first = await trio.to_thread.run_sync(node.get, LARGE, made[0])
        assert (first.status, len(first.body) > LARGE_BYTES) == (200, True)
        asked = [(LARGE, made[number % len(made)]) for number in range(READERS)]
        held, seen = await trio.to_thread.run_sync(held_by, node, asked)
        assert held < HELD_BYTES_MAX
        served = min(READERS, PLACES_OF_A_KEY * len(made))
        assert seen == Counter({200: served, 429: READERS - served})


async def test_slow_readers_of_different_responses_are_ended_before_memory_fills(place: Place) -> None:
    async with opened(place, 3, KEYS_OF_AN_ACCOUNT, cache={"max_bytes": 0}) as (node, made):
        await trio.to_thread.run_sync(node.get, LARGE, made[0])
        asked = [(f"{LARGE}{number}", made[number % len(made)]) for number in range(DIFFERENT)]
        held, seen = await trio.to_thread.run_sync(partial(held_by, node, asked, in_turn=True))
        assert held < HELD_BYTES_MAX
        assert seen[200] == DIFFERENT
        assert 'sluice_slow_readers_ended_total{reason="node_full"} 0.0' not in node.admin("/metrics").body.decode()
