"""Clients that read their responses slowly or never: the memory they hold is counted, limited and freed in time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import trio

from gateway.http.slices import slices
from gateway.server.asgi import EXTENSION, Receive, Scope, Send
from gateway.server.bounds import Bounds
from gateway.server.unsent import Unsent
from tests.fakes.upstream_server import until
from tests.gateway.server.raw_client import Client, Served, open_served

BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])
SHARED = b"s" * 1_000_000
OWN_BYTES = 1_000_000
PIECE = b"p" * 2_000
PIECES = 200
FIELDS = ((b"content-type",), (b"text/plain",))
SMALL_BUFFER = 4_096


async def start(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})


async def send_cut(send: Send, body: bytes) -> None:
    await start(send)
    for one, whole, is_last in slices((body,)):
        await send({"type": "http.response.body", "body": one, "more_body": not is_last, "held": whole})


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond as the path says."""
    if scope["type"] != "http":
        raise NotImplementedError
    if scope["path"] == "/shared":
        await send({"type": "sluice.parts", "status": 200, "fields": FIELDS, "parts": (b"<", SHARED, b">")})
    elif scope["path"] == "/own" and EXTENSION in scope.get("extensions", ()):
        await send({"type": "sluice.parts", "status": 200, "fields": FIELDS, "parts": (b"<", bytes(OWN_BYTES), b">")})
    elif scope["path"] == "/own":
        await send_cut(send, b"<%b>" % bytes(OWN_BYTES))
    elif scope["path"] == "/cut":
        await send_cut(send, SHARED)
    elif scope["path"] == "/pieces":
        await start(send)
        for _ in range(PIECES):
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
        await send({"type": "http.response.body"})
    elif scope["path"] == "/bursts":
        await start(send)
        for _ in range(4):
            await send({"type": "http.response.body", "body": PIECE * 40, "more_body": True})
            await trio.sleep(0.3)
        await send({"type": "http.response.body"})
    else:
        await start(send)
        await send({"type": "http.response.body", "body": PIECE})


@asynccontextmanager
async def opened(
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    engine: str = "native",
) -> AsyncIterator[tuple[Served, Unsent, AsyncExitStack]]:
    """A server, its counts of unsent bytes, and an exit stack for clients."""
    unsent = Unsent(bounds, owner_headers=(b"x-api-key",))
    async with (
        open_served(app, engine=engine, bounds=bounds, unsent=unsent, patience_s=30) as served,
        AsyncExitStack() as clients,
    ):
        yield served, unsent, clients


async def ask(served: Served, clients: AsyncExitStack, path: str, key: str = "k") -> Client:
    """Return a client that has sent its request."""
    client = await clients.enter_async_context(await served.connect(buffer_bytes=SMALL_BUFFER))
    await client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key}\r\n\r\n".encode())
    return client


async def ask_and_wait(served: Served, unsent: Unsent, clients: AsyncExitStack, path: str, key: str = "k") -> Client:
    """Return a client whose response is waiting for it to read."""
    count = unsent.readers
    client = await ask(served, clients, path, key)
    await until(lambda: unsent.readers == count + 1)
    return client


async def is_cut(client: Client) -> bool:
    """Return whether the response is cut short."""
    try:
        await client.answer()
    except (EOFError, trio.BrokenResourceError):
        return True
    return False


@pytest.mark.parametrize(("path", "engine"), [("/shared", "native"), ("/cut", "native"), ("/cut", "hypercorn")])
async def test_shared_response_is_counted_once(path: str, engine: str) -> None:
    async with opened(engine=engine) as (served, unsent, clients):
        readers = [await ask_and_wait(served, unsent, clients, path, f"k{number % 3}") for number in range(5)]
        assert len(SHARED) < unsent.held_bytes < len(SHARED) + 5 * 20_000
        for reader in readers:
            assert (await reader.answer()).body.strip(b"<>") == SHARED
        await until(lambda: (unsent.held_bytes, unsent.readers) == (0, 0))
        assert not any(unsent.ended.values())


@BOTH
async def test_key_over_its_limit_disconnects_its_most_stalled_reader(engine: str) -> None:
    bounds = Bounds(unsent_key_bytes=int(2.5 * OWN_BYTES))
    async with opened(bounds, engine) as (served, unsent, clients):
        other = await ask_and_wait(served, unsent, clients, "/own", "other")
        first = await ask_and_wait(served, unsent, clients, "/own")
        second = await ask_and_wait(served, unsent, clients, "/own")
        await first.exactly(OWN_BYTES // 2)
        third = await ask(served, clients, "/own")
        await until(lambda: unsent.ended["key_full"])
        assert await is_cut(second)
        for reader in (other, third):
            assert len((await reader.answer()).body) == OWN_BYTES + 2
        await first.exactly(OWN_BYTES // 2)
        assert unsent.ended == {"too_slow": 0, "key_full": 1, "node_full": 0}


@BOTH
async def test_full_node_disconnects_readers_of_the_largest_key(engine: str) -> None:
    bounds = Bounds(unsent_bytes=int(3.5 * OWN_BYTES))
    async with opened(bounds, engine) as (served, unsent, clients):
        modest = await ask_and_wait(served, unsent, clients, "/own", "modest")
        greedy = [await ask_and_wait(served, unsent, clients, "/own", "greedy") for _ in range(2)]
        late = await ask(served, clients, "/own", "late")
        await until(lambda: unsent.ended["node_full"])
        assert [await is_cut(reader) for reader in (modest, *greedy, late)] == [False, True, False, False]
        assert unsent.ended == {"too_slow": 0, "key_full": 0, "node_full": 1}


@BOTH
async def test_single_response_may_exceed_the_limit_per_key(engine: str) -> None:
    async with opened(Bounds(unsent_key_bytes=1_000), engine) as (served, unsent, clients):
        reader = await ask_and_wait(served, unsent, clients, "/own")
        assert len((await reader.answer()).body) == OWN_BYTES + 2


@BOTH
async def test_response_over_the_nodes_limit_is_aborted_immediately(engine: str) -> None:
    async with opened(Bounds(unsent_bytes=1_000), engine) as (served, unsent, clients):
        assert await is_cut(await ask(served, clients, "/own"))
        assert unsent.ended == {"too_slow": 0, "key_full": 0, "node_full": 1}
        await until(lambda: (unsent.held_bytes, unsent.readers) == (0, 0))


@BOTH
@pytest.mark.parametrize("path", ["/cut", "/pieces"])
async def test_reader_below_the_minimum_rate_is_disconnected(path: str, engine: str) -> None:
    bounds = Bounds(write_s=0.3, answer_bytes_per_s=1_000_000, unsent_kernel_bytes=8_192)
    async with opened(bounds, engine) as (served, unsent, clients):
        reader = await ask(served, clients, path)
        with trio.fail_after(10), suppress(trio.BrokenResourceError):
            while not unsent.ended["too_slow"]:
                await reader.stream.receive_some(500)
                await trio.sleep(0.02)
        assert unsent.ended == {"too_slow": 1, "key_full": 0, "node_full": 0}
        await until(lambda: not unsent.held_bytes)


@BOTH
async def test_reader_above_the_minimum_rate_gets_all_pieces(engine: str) -> None:
    """Goal: bytes that did not wait also count. Method: 400 KB in two seconds, in bursts, at a minimum of 100 KB/s."""
    bounds = Bounds(write_s=0.5, answer_bytes_per_s=100_000, unsent_kernel_bytes=8_192)
    async with opened(bounds, engine) as (served, unsent, clients):
        reader = await ask(served, clients, "/pieces")
        got = 0
        while got < PIECES * len(PIECE):
            got += len(await reader.exactly(20_000))
            await trio.sleep(0.05)
        assert not any(unsent.ended.values())


@BOTH
async def test_intermittent_stream_is_not_slow(engine: str) -> None:
    bounds = Bounds(write_s=0.25, answer_bytes_per_s=1_000_000, unsent_kernel_bytes=8_192)
    async with opened(bounds, engine) as (served, unsent, clients):
        reader = await ask(served, clients, "/bursts")
        assert (await reader.answer()).body == PIECE * 160
        assert not any(unsent.ended.values())


@BOTH
async def test_client_that_requests_without_reading_is_disconnected(engine: str) -> None:
    """Pipelined requests wait for their turn: the server holds one response at a time."""
    async with opened(Bounds(write_s=0.3), engine) as (served, unsent, clients):
        client = await ask(served, clients, "/small")
        most = 0
        with trio.fail_after(15), suppress(trio.BrokenResourceError):
            while not unsent.ended["too_slow"]:
                with trio.move_on_after(0.05):
                    await client.send(b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
                most = max(most, unsent.held_bytes)
        assert unsent.ended["too_slow"] == 1
        assert most < 50_000


@BOTH
async def test_kernel_buffers_little_for_an_unread_response(engine: str) -> None:
    """Method: a response of 400 KB, which would fit into the kernel's buffer, waits for its client."""
    async with opened(engine=engine) as (served, unsent, clients):
        reader = await ask_and_wait(served, unsent, clients, "/pieces")
        await trio.sleep(0.2)
        assert unsent.readers == 1
        assert (await reader.answer()).body == PIECE * PIECES
