"""Clients that ask for large answers and do not read them: the node's memory stays, and others are served.

Method: a real node process, real sockets with small receive buffers, and the process's resident memory.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
import trio

from tests.fakes.scripted_upstream import Told, Upstream, open_upstream, told
from tests.fakes.sluice_process import Place, Served

READERS = 600
KEYS_OF_AN_ACCOUNT = 5
LARGE_BYTES = 1_500_000
HELD_BYTES_MAX = 100_000_000
LARGE = "/v1/github/profile?handle=octocat"
PATIENCE_S = 120.0


def large(asked: str) -> Told:
    """A profile with a long biography."""
    return told({"id": 1, "login": asked.rpartition("/")[2], "bio": "x" * LARGE_BYTES})


def resident_bytes(node: Served) -> int:
    """The memory that the node's process has."""
    with open(f"/proc/{node.popen.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


@contextmanager
def readers(node: Served, asked: list[tuple[str, str]]) -> Iterator[list[socket.socket]]:
    """A connection for each target and key: all have asked, none reads."""
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
        yield clients


def statuses(clients: list[socket.socket]) -> list[int]:
    """The status of each answer that has begun, without taking a byte of it; waits until it has."""
    return [int(client.recv(12, socket.MSG_PEEK).split()[1]) for client in clients]


@pytest.mark.parametrize("keys", [1, 15])
async def test_slow_readers_of_a_large_cached_answer_hold_next_to_no_memory(keys: int, place: Place) -> None:
    upstream = Upstream()
    upstream.script = large
    with trio.fail_after(PATIENCE_S):
        async with open_upstream(upstream) as egress:
            place.configure(upstreams={"egress": egress})
            accounts = [place.told("account", "create", "--name", "test", "--credits", "1") for _ in range(0, keys, 5)]
            made = [
                place.told("key", "create", "--account", account["id"])["key"]
                for account in accounts
                for _ in range(min(keys, KEYS_OF_AN_ACCOUNT))
            ]
            with place.serve() as node:
                first = await trio.to_thread.run_sync(node.get, LARGE, made[0])
                assert (first.status, len(first.body) > LARGE_BYTES) == (200, True)
                before = resident_bytes(node)
                with readers(node, [(LARGE, made[number % keys]) for number in range(READERS)]) as clients:
                    seen = await trio.to_thread.run_sync(statuses, clients)
                    held = resident_bytes(node) - before
                    print(f"held: {held / 1e6:.0f} MB", {status: seen.count(status) for status in set(seen)})
                    assert held < HELD_BYTES_MAX
                    assert (await trio.to_thread.run_sync(node.get, "/v1/status")).status == 200
