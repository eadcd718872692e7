"""The transport to targets that users name connects to the checked address, and reads answers only up to a limit."""

import ssl
from contextlib import nullcontext

import httpx
import pytest
import trustme

from tests.fakes.upstream_server import Peer, always, once, reply
from tests.upstreams.transport.connected import connected
from upstreams.transport.http import HttpAnswer, HttpCall
from upstreams.transport.origin import Origin

CAP = 1_000
POST_AGAIN = frozenset({"POST"})


async def test_transport_connects_to_the_address_and_sends_the_host_name() -> None:
    """Method: the host name does not resolve, so only the address can be used."""
    authority = trustme.CA()
    client_tls, server_tls = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(client_tls)
    authority.issue_cert("hooks.invalid").configure_cert(server_tls)
    names: list[str | None] = []
    server_tls.sni_callback = lambda _socket, name, _context: names.append(name)
    async with connected(always(reply(b"ok")), server_tls, ssl_context=client_tls) as (server, transport):
        origin = Origin("https", "hooks.invalid", server.origin.port, "127.0.0.1")
        for _ in range(2):
            assert (await transport.exchange(HttpCall("GET", origin, "/"))).body == b"ok"
        assert (names, server.connections) == (["hooks.invalid"], 1)
        assert f"\r\nHost: hooks.invalid:{origin.port}\r\n".encode() in server.requests[0]
        with pytest.raises(httpx.ConnectError):
            await transport.exchange(HttpCall("GET", origin._replace(address=""), "/"))


async def test_connections_to_different_addresses_are_separate() -> None:
    async with connected(always(reply(b"ok"))) as (server, transport):
        first = server.origin._replace(host="a.invalid", address="127.0.0.1")
        for origin in (first, first._replace(address="127.0.0.2"), first):
            with nullcontext() if origin is first else pytest.raises(httpx.ConnectError):
                await transport.exchange(HttpCall("GET", origin, "/"))
        assert server.connections == 1


async def start_of(*pieces: bytes, method: str = "POST") -> tuple[HttpAnswer, int]:
    """Return the part of an answer that was read, and the number of connections after two calls."""
    async with connected(always(*pieces), starts_only=True, body_bytes_max=CAP, header_bytes_max=2_000) as (
        server,
        transport,
    ):
        await transport.exchange(server.call(method=method))
        return await transport.exchange(server.call(method=method)), server.connections


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "body", "connections"),
    [
        ((reply(b"short"),), b"short", 1),
        ((reply(b""),), b"", 1),
        ((reply(b"x" * CAP),), b"x" * CAP, 1),
        ((reply(b"x" * (CAP + 1)),), b"x" * CAP, 2),
        ((reply(b"x" * 900_000),), b"x" * CAP, 2),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 600, b"y" * 600), None, 2),
        ((CHUNKED + b"5\r\nshort\r\n0\r\n\r\n",), b"short", 1),
        ((CHUNKED, b"3e8\r\n" + b"x" * CAP + b"\r\n0\r\n\r\n"), b"x" * CAP, 1),
        ((CHUNKED, b"ffffff\r\n", b"x" * 2_000), b"x" * CAP, 2),
        ((reply(b"\x1f\x8bno gzip", "Content-Encoding: gzip"),), b"\x1f\x8bno gzip", 1),
        ((reply(b"?", "Content-Encoding: enigma"),), b"?", 1),
    ],
)
async def test_truncated_body_closes_the_connection(
    pieces: tuple[bytes, ...], body: bytes | None, connections: int
) -> None:
    answer, opened = await start_of(*pieces)
    assert (answer.status, len(answer.body) <= CAP, opened) == (200, True, connections)
    assert answer.body == (b"x" * 600 + b"y" * 400 if body is None else body)


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 99_000, b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000]
)
async def test_oversized_head_is_refused(head: bytes) -> None:
    """Method: the head exceeds the limit by more than one read, because each read is followed by one check."""
    with pytest.raises(httpx.RemoteProtocolError, match="longer"):
        await start_of(head, b"\r\n\r\n")


async def test_repeatable_post_is_resent_on_a_broken_kept_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.send(reply(b"first"))
            await peer.request()
            await peer.reset()
        await peer.send(reply(b"again"))

    async with connected(script, repeats=POST_AGAIN) as (server, transport):
        bodies = [(await transport.exchange(server.call(method="POST"))).body for _ in range(2)]
        assert (bodies, server.connections) == ([b"first", b"again"], 2)


async def test_post_on_a_fresh_connection_is_not_resent() -> None:
    async with connected(once(), repeats=POST_AGAIN) as (server, transport):
        with pytest.raises(httpx.RemoteProtocolError):
            await transport.exchange(server.call(method="POST"))
        assert server.connections == 1
