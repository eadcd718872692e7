"""Small answers that expand: bodies of each kind, their codings, and an upstream that serves them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import brotli

from tests.fakes.upstream_server import Peer, UpstreamServer, open_upstream_server, reply

ROWS = 1_500_000
MB = 1024 * 1024


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, 9, mtime=0)


def _brotli(body: bytes) -> bytes:
    return bytes(brotli.compress(body, quality=5))


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": _gzip,
    "deflate": zlib.compress,
    "br": _brotli,
    "gzip, gzip": lambda body: _gzip(_gzip(body)),
    "gzip, gzip, gzip": lambda body: _gzip(_gzip(_gzip(body))),
    "br, gzip": lambda body: _gzip(_brotli(body)),
    "zstd": lambda body: b"\x28\xb5\x2f\xfd" + body[:100],
}


def bomb(body: bytes, coding: str = "gzip", *headers: str) -> bytes:
    """Return an answer with this body under a content coding."""
    head = ("Content-Type: application/json", *headers)
    if coding != "identity":
        head = (*head, f"Content-Encoding: {coding}")
    return reply(CODINGS[coding](body), *head)


def rows_of(row: bytes, count: int = ROWS, *, before: bytes = b"[", behind: bytes = b"]") -> bytes:
    """Return a list that repeats this row."""
    return before + b",".join([row] * count) + behind


@asynccontextmanager
async def open_bomber(choose: Callable[[str], bytes]) -> AsyncIterator[UpstreamServer]:
    """Serve an upstream that answers each request, by its target, with these bytes."""

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.request()).split(b" ")[1].decode()
            await peer.send(choose(target))

    async with open_upstream_server(script) as server:
        yield server
