"""Idle connections that the server closed, and when a call may be resent, over real sockets."""

import httpx
import pytest
import trio

from tests.fakes.upstream_server import Peer, once, reply, until
from tests.upstreams.transport.connected import connected


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "POST", "PATCH"])
async def test_connection_closed_while_idle_is_replaced_for_every_method(method: str):
    async with connected(once(reply())) as (server, transport):
        for number in range(1, 4):
            await transport.exchange(server.call(method=method, body=b"x"))
            await until(lambda: server.open_connections == 0)
            assert len(server.requests) == number


async def _closes_on_the_second_request(peer: Peer) -> None:
    await peer.request()
    await peer.send(reply(b"first"))
    await peer.request()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_idempotent_call_on_a_broken_kept_connection_is_resent(method: str):
    async with connected(_closes_on_the_second_request) as (server, transport):
        await transport.exchange(server.call(method=method, body=b"x"))
        assert (await transport.exchange(server.call("/again", method, b"x"))).body == b"first"
        assert server.requests[1] == server.requests[2]
        assert len(server.requests) == 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "REPORT"])
async def test_call_with_effects_is_never_resent(method: str):
    async with connected(_closes_on_the_second_request) as (server, transport):
        await transport.exchange(server.call())
        with pytest.raises(httpx.RemoteProtocolError):
            await transport.exchange(server.call("/effect", method))
        assert len(server.requests) == 2


async def test_call_is_resent_at_most_once():
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.send(reply())
            await peer.request()

    async with connected(script) as (server, transport):
        await transport.exchange(server.call())
        with pytest.raises(httpx.RemoteProtocolError):
            await transport.exchange(server.call())
        assert len(server.requests) == 3


async def test_call_on_a_fresh_connection_is_not_resent():
    async with connected(once()) as (server, transport):
        with pytest.raises(httpx.RemoteProtocolError):
            await transport.exchange(server.call())
        assert len(server.requests) == 1


async def test_call_is_not_resent_after_the_first_answer_byte():
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply())
        await peer.request()
        await peer.send(b"H")

    async with connected(script) as (server, transport):
        await transport.exchange(server.call())
        with pytest.raises(httpx.RemoteProtocolError):
            await transport.exchange(server.call())
        assert len(server.requests) == 2


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_closing_peer_never_fails_a_get_or_repeats_a_post(method: str, reset: bool):
    """Goal: no GET fails and no POST is processed twice. Method: the server closes connections at varying moments."""
    processed: list[bytes] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply())
        processed.append(server.requests[-1])
        for _ in range(len(processed) % 7):
            await trio.lowlevel.checkpoint()
        await (peer.reset() if reset else peer.close())

    failures = 0
    async with connected(script, within_s=20) as (server, transport):
        for number in range(400):
            for _ in range(number % 5):
                await trio.lowlevel.checkpoint()
            try:
                await transport.exchange(server.call(f"/{number}", method))
            except (httpx.ReadError, httpx.RemoteProtocolError):
                failures += 1
        await until(lambda: server.open_connections == 0)
    if method == "GET":
        assert not failures
    assert len(set(processed)) == len(processed) == 400 - failures


async def test_unexpected_bytes_close_an_idle_connection():
    """Some servers send 408 to a silent client. It must not be parsed as the answer to the next call."""

    read, said = trio.Semaphore(0), trio.Semaphore(0)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(reply(b"real"))
            await read.acquire()
            await peer.send(reply(b"unasked", status="408 Request Timeout"))
            said.release()

    async with connected(script) as (server, transport):
        for number in range(1, 4):
            assert (await transport.exchange(server.call())).body == b"real"
            read.release()
            await said.acquire()
            await trio.sleep(0.03)
            assert server.connections == number
