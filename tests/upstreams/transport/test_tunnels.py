"""Calls through an outbound proxy: CONNECT and SOCKS5, with and without a password, and the failures of each."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio
import trustme

from tests.fakes.outbound_proxy import OutboundProxy, Serve, open_outbound_proxy
from tests.fakes.upstream_server import UpstreamServer, echo_target, open_upstream_server
from upstreams.fetching.answers import blame_of
from upstreams.guard.pinned import PinnedExchange
from upstreams.model.errors import TargetRefused
from upstreams.transport import tunnels
from upstreams.transport.http import HttpCall
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import Transport, open_transport
from upstreams.transport.proxy import Proxy, read_proxy

SCHEMES = pytest.mark.parametrize("scheme", ["http", "socks5h"])
SECRET = "pass:w@rd"
NAME = "upstream.example.com"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def proxied(
    scheme: str, authority: trustme.CA, *, user: str = "", password: str = ""
) -> AsyncIterator[tuple[UpstreamServer, OutboundProxy, Transport]]:
    """Run a TLS server named `NAME`, a proxy that can resolve this name, and a transport through the proxy."""
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(NAME).configure_cert(server_tls)
    client_tls = ssl.create_default_context()
    authority.configure_trust(client_tls)
    with trio.fail_after(10):
        async with (
            open_upstream_server(echo_target, server_tls) as server,
            open_outbound_proxy(scheme, user=user, password=password) as proxy,
            open_transport(proxy=proxy.proxy, ssl_context=client_tls) as transport,
        ):
            server.origin = server.origin._replace(host=NAME)
            proxy.names[NAME] = "127.0.0.1"
            yield server, proxy, transport


async def failure_through(proxy: Proxy, origin: Origin = Origin("http", NAME, 80)) -> httpx.TransportError:  # noqa: B008
    with trio.fail_after(10):
        async with open_transport(proxy=proxy) as transport:
            with pytest.raises(httpx.TransportError) as caught:
                await transport.exchange(HttpCall("GET", origin, "/"), trio.current_time() + 8)
            assert transport.statistics().origins == {}
    return caught.value


@SCHEMES
@pytest.mark.parametrize("user", ["", "ada"])
async def test_calls_share_one_tunnel_with_tls_to_the_host(scheme: str, user: str, authority: trustme.CA) -> None:
    async with proxied(scheme, authority, user=user, password=SECRET) as (server, proxy, transport):
        for number in range(3):
            assert (await transport.exchange(server.call(f"/{number}"))).body == f"/{number}".encode()
        assert proxy.asked == [(NAME, server.origin.port)]
        assert f"\r\nHost: {NAME}:{server.origin.port}\r\n".encode() in server.requests[0]
        assert set(transport.statistics().origins) == {server.origin}


@SCHEMES
async def test_host_without_tls_is_also_reached_by_tunnel(scheme: str) -> None:
    with trio.fail_after(5):
        async with (
            open_upstream_server(echo_target) as server,
            open_outbound_proxy(scheme) as proxy,
            open_transport(proxy=proxy.proxy) as transport,
        ):
            assert (await transport.exchange(server.call("/x"))).body == b"/x"
            assert proxy.asked == [("127.0.0.1", server.origin.port)]


@SCHEMES
async def test_guard_checks_addresses_and_the_proxy_gets_a_checked_one(scheme: str, authority: trustme.CA) -> None:
    """The name is resolved on this node. Only the address goes to the proxy; TLS still checks the name."""

    async def resolve(_host: str, _port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        return ["127.0.0.1"]

    async with proxied(scheme, authority) as (server, proxy, transport):
        guarded = PinnedExchange(transport.exchange, resolve, allow_insecure=True)
        assert (await guarded(server.call("/x"), trio.current_time() + 5)).body == b"/x"
        assert proxy.asked == [("127.0.0.1", server.origin.port)]
        strict = PinnedExchange(transport.exchange, resolve)
        with pytest.raises(TargetRefused, match="address that is not public"):
            await strict(server.call("/x"), trio.current_time() + 5)
        assert len(proxy.asked) == 1


@SCHEMES
async def test_ipv6_host_is_written_as_the_protocol_requires(scheme: str) -> None:
    async with open_outbound_proxy(scheme) as proxy:
        await failure_through(proxy.proxy, Origin("https", "name.test", 9, "::1"))
        assert proxy.asked == [("::1", 9)]


@SCHEMES
@pytest.mark.parametrize(("user", "password"), [("", ""), ("ada", "wrong")])
async def test_refused_credentials_are_a_failure_of_the_proxy(
    scheme: str, user: str, password: str, authority: trustme.CA
) -> None:
    async with proxied(scheme, authority, user="ada", password=SECRET) as (server, proxy, _):
        failure = await failure_through(proxy.proxy._replace(user=user.encode(), password=password.encode()))
        assert isinstance(failure, httpx.ProxyError)
        assert "refused the connection" in str(failure)
        assert proxy.asked == server.requests == []


@SCHEMES
async def test_host_that_the_proxy_cannot_reach_is_a_connect_error(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free_port = listener.getsockname()[1]
    async with open_outbound_proxy(scheme) as proxy:
        failure = await failure_through(proxy.proxy, Origin("http", "127.0.0.1", free_port))
    assert isinstance(failure, httpx.ConnectError)
    assert blame_of(failure, had_s=20.0, is_first=True) == "source"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_absent_proxy_is_blamed_on_the_node(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free_port = listener.getsockname()[1]
    failure = await failure_through(Proxy("http", host, free_port))
    assert isinstance(failure, httpx.ProxyError)
    assert blame_of(failure, had_s=20.0, is_first=True) == "node"
    assert str(failure) == "the outbound proxy cannot be reached: Connection refused"


async def test_proxy_that_accepts_no_connection_is_blamed_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: a full backlog makes the kernel drop connection attempts."""
    monkeypatch.setattr(tunnels, "REACH_S", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        failure = await failure_through(Proxy("http", "127.0.0.1", listener.getsockname()[1]))
        for one in waiting:
            one.close()
    assert isinstance(failure, httpx.ProxyError)
    assert "in time" in str(failure)


def sending(*pieces: bytes) -> Serve:
    """Return the behavior of a proxy that sends these pieces, whatever it is asked, and closes the connection."""

    async def serve(_proxy: OutboundProxy, client: trio.SocketStream) -> None:
        for piece in pieces:
            await client.receive_some(4096)
            await client.send_all(piece)

    return serve


ODD = {
    "closes": ("http", [], "closed the connection"),
    "not http": ("http", [b"SSH-2.0-OpenSSH_9\r\n\r\n"], "does not speak HTTP"),
    "forbids": ("http", [b"HTTP/1.1 403 Forbidden\r\n\r\n"], "refused the connection: status 403"),
    "wants a sign-in": ("http", [b"HTTP/1.1 407 Who\r\n\r\n"], "does not accept the credentials"),
    "long head": ("http", [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 40_000], "too long"),
    "speaks first": ("http", [b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"], "after its response head"),
    "socks closes": ("socks5h", [], "closed the connection"),
    "socks closes midway": ("socks5h", [b"\x05"], "closed the connection"),
    "not socks": ("socks5h", [b"HTTP/1.1 400"], "does not speak SOCKS5"),
    "other sign-in": ("socks5h", [b"\x05\xff"], "requires another kind of sign-in"),
    "unoffered sign-in": ("socks5h", [b"\x05\x02"], "not offered"),
    "not socks later": ("socks5h", [b"\x05\x00", b"\x04\x00\x00\x01"], "does not speak SOCKS5"),
    "forbidden by rules": ("socks5h", [b"\x05\x00", b"\x05\x02\x00\x01"], "not allowed by its rules"),
    "unknown reply": ("socks5h", [b"\x05\x00", b"\x05\x63\x00\x01"], "reply 99"),
    "unknown address": ("socks5h", [b"\x05\x00", b"\x05\x00\x00\x09"], "unknown kind of address"),
}


@pytest.mark.parametrize(("scheme", "pieces", "problem"), ODD.values(), ids=ODD.keys())
async def test_odd_proxy_is_a_failure_of_the_proxy(scheme: str, pieces: list[bytes], problem: str) -> None:
    async with open_outbound_proxy(scheme, sending(*pieces)) as proxy:
        failure = await failure_through(proxy.proxy)
    assert isinstance(failure, httpx.ProxyError)
    assert problem in str(failure)


@SCHEMES
async def test_silent_proxy_ends_at_the_deadline(scheme: str) -> None:
    async def serve(_proxy: OutboundProxy, _client: trio.SocketStream) -> None:
        await trio.sleep_forever()

    with trio.fail_after(5):
        async with open_outbound_proxy(scheme, serve) as proxy, open_transport(proxy=proxy.proxy) as transport:
            with pytest.raises(httpx.ConnectTimeout):
                await transport.exchange(HttpCall("GET", Origin("http", NAME, 80), "/"), trio.current_time() + 0.1)


READ = {
    "http://proxy.example:3128": Proxy("http", "proxy.example", 3128),
    "http://proxy.example:3128/": Proxy("http", "proxy.example", 3128),
    "socks5h://ada:a%3Ab%40c@10.0.0.1:1080": Proxy("socks5h", "10.0.0.1", 1080, b"ada", b"a:b@c"),
    "http://ada@[::1]:80": Proxy("http", "::1", 80, b"ada"),
}


@pytest.mark.parametrize(("url", "proxy"), READ.items())
def test_proxy_url_is_read(url: str, proxy: Proxy) -> None:
    assert read_proxy(url) == proxy


UNREADABLE = {
    "https://h:1": "must be a URL such as",
    "socks5://h:1": "socks5h://",
    "http://h": "with a port",
    "http://h:0": "port from 1 to 65535",
    "http://h:65536": "port from 1 to 65535",
    "http://h:1/path": "must be a URL such as",
    "http://a@b@h:1": "percent-encoded",
    "http://:s3cret@h:1": "a user name before the password",
    "http://a%3Ab:s3cret@h:1": "without a colon",
    f"socks5h://a:{'s3cret' * 50}@h:1": "at most 255 bytes",
    "http://h:1\r\nx": "must be a URL such as",
}


@pytest.mark.parametrize(("url", "problem"), UNREADABLE.items())
def test_faulty_proxy_url_is_refused_without_showing_it(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        read_proxy(url)
    assert "s3cret" not in str(caught.value)


def test_credentials_are_not_in_the_text_of_a_proxy() -> None:
    assert "ada" not in f"{Proxy('http', 'h', 1, b'ada', b'ada')!r} {Proxy('http', 'h', 1, b'ada', b'ada')}"
