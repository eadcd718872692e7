"""Exchanges under TLS, and through an egress."""

import socket
import ssl
from contextlib import suppress
from itertools import count
from pathlib import Path

import httpx
import pytest
import trio
import trustme

from tests.fakes.upstream_server import Peer, always, echo_target, once, open_upstream_server, reply
from tests.servers.waiting import until
from tests.upstreams.transport.connected import connected
from upstreams.transport.http import HttpCall
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import open_transport


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def _server_tls(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_calls_share_a_connection(authority: trustme.CA, client_tls: ssl.SSLContext, version: ssl.TLSVersion):
    server_tls = _server_tls(authority)
    server_tls.minimum_version = server_tls.maximum_version = version
    async with connected(echo_target, server_tls, ssl_context=client_tls) as (server, transport):
        for number in range(10):
            assert (await transport.exchange(server.call(f"/{number}"))).body == f"/{number}".encode()
        assert server.connections == 1


async def test_system_authority_is_trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Method: OpenSSL's own environment variable names a file to use instead of the system's."""
    trusted = tmp_path / "authority.pem"
    with trio.fail_after(5):
        async with open_upstream_server(echo_target, _server_tls(authority)) as server:
            async with open_transport() as transport:
                with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                    await transport.exchange(server.call())
            authority.cert_pem.write_to_path(trusted)
            monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
            async with open_transport() as transport:
                assert (await transport.exchange(server.call("/in"))).body == b"/in"


async def test_long_bodies_pass_both_ways_under_tls(authority: trustme.CA, client_tls: ssl.SSLContext):
    body = bytes(range(256)) * 20_000
    async with connected(always(reply(body)), _server_tls(authority), ssl_context=client_tls, within_s=10) as (
        server,
        transport,
    ):
        for _ in range(2):
            assert (await transport.exchange(server.call(method="POST", body=body))).body == body
        assert server.requests[1].endswith(body)
        assert server.connections == 1


async def test_closed_tls_connection_is_replaced(authority: trustme.CA, client_tls: ssl.SSLContext):
    async with connected(once(reply(b"ok")), _server_tls(authority), ssl_context=client_tls) as (server, transport):
        for _ in range(5):
            assert (await transport.exchange(server.call(method="GET"))).body == b"ok"
        assert server.connections == 5


async def test_surplus_bytes_under_tls_are_not_the_next_answer(authority: trustme.CA, client_tls: ssl.SSLContext):
    """The surplus bytes are in a TLS record of their own, in the same TCP segment or in a later one."""
    async with connected(always(reply(b"real"), reply(b"surplus")), _server_tls(authority), ssl_context=client_tls) as (
        server,
        transport,
    ):
        for _ in range(5):
            assert (await transport.exchange(server.call())).body == b"real"
            await trio.sleep(0.01)
        assert server.connections == 5


async def test_late_tls_records_keep_the_connection(authority: trustme.CA, client_tls: ssl.SSLContext):
    """Some records, such as session tickets, arrive after the answer.

    Here, it is a request for the client's certificate.
    """
    server_tls = _server_tls(authority)
    server_tls.verify_mode = ssl.CERT_OPTIONAL
    client = ssl.create_default_context()
    authority.configure_trust(client)
    client.post_handshake_auth = server_tls.post_handshake_auth = True

    said: list[int] = []

    def serve(listener: socket.socket) -> None:
        connected, _ = listener.accept()
        with server_tls.wrap_socket(connected, server_side=True) as tls:
            for number in range(3):
                tls.recv(65_536)
                tls.sendall(reply(b"ok"))
                tls.verify_client_post_handshake()
                tls.do_handshake()
                said.append(number)
            with suppress(ConnectionError):  # how the client closes differs between versions of Python
                tls.recv(1)

    with trio.fail_after(5), socket.create_server(("127.0.0.1", 0)) as listener:
        origin = Origin("https", "127.0.0.1", listener.getsockname()[1])
        async with trio.open_nursery() as nursery, open_transport(ssl_context=client) as transport:
            nursery.start_soon(trio.to_thread.run_sync, serve, listener)
            for number in range(3):
                assert (await transport.exchange(HttpCall("GET", origin, "/"))).body == b"ok"
                await until(lambda number=number: number in said)  # type: ignore[misc]
            assert transport.statistics().origins[origin].opened == 1


async def test_peer_with_another_name_is_refused(authority: trustme.CA, client_tls: ssl.SSLContext):
    async with connected(echo_target, _server_tls(authority, "other.example"), ssl_context=client_tls) as (
        server,
        transport,
    ):
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await transport.exchange(server.call())
        assert server.requests == []
        assert transport.statistics().origins == {}


async def test_untrusted_peer_is_refused_by_default(authority: trustme.CA):
    async with connected(echo_target, _server_tls(authority)) as (server, transport):
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await transport.exchange(server.call())


async def test_server_name_is_sent_to_the_peer(authority: trustme.CA, client_tls: ssl.SSLContext):
    names: list[str | None] = []
    server_tls = _server_tls(authority, "localhost")
    server_tls.sni_callback = lambda _socket, name, _context: names.append(name)
    async with connected(echo_target, server_tls, ssl_context=client_tls) as (server, transport):
        call = server.call()._replace(origin=server.origin._replace(host="localhost"))
        await transport.exchange(call)
    assert names == ["localhost"]


async def test_peer_without_tls_is_a_connect_error(client_tls: ssl.SSLContext):
    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await trio.sleep(0.05)

    async with connected(script, ssl_context=client_tls) as (server, transport):
        with pytest.raises(httpx.ConnectError):
            await transport.exchange(server.call()._replace(origin=server.origin._replace(scheme="https")))


async def test_tls_call_can_be_cancelled_at_any_step(authority: trustme.CA, client_tls: ssl.SSLContext):
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"do", b"ne")

    async with connected(script, _server_tls(authority), ssl_context=client_tls, max_connections=1, within_s=20) as (
        server,
        transport,
    ):
        for turn in count():
            with trio.move_on_after(0.0002 * turn) as scope:
                assert (await transport.exchange(server.call())).body == b"done"
            figures = transport.statistics().origins.get(server.origin)
            assert figures is None or figures.busy == 0
            if not scope.cancelled_caught:
                break
        assert turn > 2


@pytest.mark.parametrize("prefix", ["", "/", "/out/way", "/out/way/"])
@pytest.mark.parametrize(
    ("origin", "path"),
    [
        (Origin("https", "api.example.com", 443), "/api.example.com/v1?q=%20"),
        (Origin("http", "api.example.com", 80), "/api.example.com/v1?q=%20"),
        (Origin("https", "api.example.com", 8443), "/api.example.com:8443/v1?q=%20"),
        (Origin("http", "::1", 8080), "/[::1]:8080/v1?q=%20"),
    ],
)
async def test_egress_receives_calls_with_the_host_in_the_path(prefix: str, origin: Origin, path: str):
    async with connected(echo_target) as (server, _), open_transport(egress=f"{server.url}{prefix}") as transport:
        answer = await transport.exchange(server.call("/v1?q=%20")._replace(origin=origin))
        assert answer.body.decode() == prefix.rstrip("/") + path
        assert f"\r\nHost: 127.0.0.1:{server.origin.port}\r\n".encode() in server.requests[0]


async def test_egress_can_use_tls_and_shares_connections(authority: trustme.CA, client_tls: ssl.SSLContext):
    async with (
        connected(echo_target, _server_tls(authority)) as (server, _),
        open_transport(egress=server.url, ssl_context=client_tls) as transport,
    ):
        for host in ("a.example", "b.example"):
            answer = await transport.exchange(server.call()._replace(origin=Origin("http", host, 80)))
            assert answer.body == f"/{host}/".encode()
        assert server.connections == 1


async def test_egress_must_be_a_url():
    with pytest.raises(httpx.UnsupportedProtocol):
        async with open_transport(egress="egress.example"):
            pass
