"""Our transport used by an httpx client, and httpx's transports used in its place."""

import gzip
from collections.abc import AsyncIterator

import httpx
import pytest
import trio

from tests.fakes.upstream_server import Peer, always, open_upstream_server, reply
from upstreams.transport.http import HttpCall, ResponseTooLarge, origin_of, via_httpx
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import Transport, open_transport

ORIGIN = Origin("https", "api.example.com", 443)


async def test_httpx_client_works_over_the_transport():
    packed = gzip.compress(b'{"a": 1}')
    with trio.fail_after(5):
        async with (
            open_upstream_server(always(reply(packed, "Content-Encoding: gzip", "X-One: 1"))) as server,
            httpx.AsyncClient(transport=Transport()) as client,
        ):
            for _ in range(2):
                response = await client.post(f"{server.url}/v1?q=a b", json={"b": 2}, headers={"X-Mine": "1"})
                assert (response.status_code, response.json(), response.headers["x-one"]) == (200, {"a": 1}, "1")
            assert server.connections == 1
    request = server.requests[0]
    assert request.startswith(b"POST /v1?q=a%20b HTTP/1.1\r\n")
    assert request.endswith(b'\r\n\r\n{"b":2}')
    for name in (b"host:", b"content-length:", b"x-mine: 1", b"accept-encoding:"):
        assert request.lower().count(b"\r\n" + name) == 1


async def test_httpx_client_follows_redirects():
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply(b"", "Location: /there", status="302 Found"))
        await peer.request()
        await peer.send(reply(b"there"))

    with trio.fail_after(5):
        async with (
            open_upstream_server(script) as server,
            httpx.AsyncClient(transport=Transport(), follow_redirects=True) as client,
        ):
            assert (await client.get(server.url)).text == "there"


class _Pieces:
    """A request body whose length is unknown until it has been read."""

    def __init__(self, *pieces: bytes) -> None:
        self._left = iter(pieces)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        for piece in self._left:
            return piece
        raise StopAsyncIteration


async def test_streamed_request_is_sent_completely():
    with trio.fail_after(5):
        async with open_upstream_server(always(reply())) as server, httpx.AsyncClient(transport=Transport()) as client:
            await client.put(server.url, content=_Pieces(b"one", b"two"))
    assert b"ransfer-" not in server.requests[0]
    assert server.requests[0].endswith(b"Content-Length: 6\r\n\r\nonetwo")


async def test_head_answer_keeps_its_length():
    with trio.fail_after(5):
        async with (
            open_upstream_server(
                always(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Encoding: br\r\n\r\n")
            ) as server,
            httpx.AsyncClient(transport=Transport()) as client,
        ):
            response = await client.head(server.url)
    assert (response.headers["content-length"], response.content) == ("99", b"")


async def _silent(peer: Peer) -> None:
    await peer.request()
    await trio.sleep_forever()


async def _deaf(peer: Peer) -> None:
    await trio.sleep_forever()


async def test_each_phase_has_its_own_timeout():
    with trio.fail_after(10):
        async with (
            open_upstream_server(_silent) as silent,
            open_upstream_server(_deaf) as deaf,
            httpx.AsyncClient(transport=Transport()) as client,
        ):
            with pytest.raises(httpx.ReadTimeout):
                await client.get(silent.url, timeout=httpx.Timeout(5, read=0.05))
            with pytest.raises(httpx.WriteTimeout):
                await client.post(deaf.url, content=b"x" * 20_000_000, timeout=httpx.Timeout(5, write=0.05))
            with pytest.raises(httpx.ConnectTimeout):
                await client.get(deaf.url.replace("http", "https"), timeout=httpx.Timeout(5, connect=0.05))


async def test_pool_wait_has_a_timeout():
    with trio.fail_after(10):
        async with (
            open_upstream_server(_silent) as server,
            httpx.AsyncClient(transport=Transport(max_connections=1)) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(client.get, server.url)
            while not server.requests:  # noqa: ASYNC110 - what is waited for happens in a socket, which sets no event
                await trio.sleep(0.001)
            with pytest.raises(httpx.PoolTimeout):
                await client.get(server.url, timeout=httpx.Timeout(5, pool=0.05))
            nursery.cancel_scope.cancel()


async def test_read_timeout_applies_to_each_wait():
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(10):
            await trio.sleep(0.02)
            await peer.send(b"x")

    with trio.fail_after(5):
        async with open_upstream_server(script) as server, httpx.AsyncClient(transport=Transport()) as client:
            assert (await client.get(server.url, timeout=0.15)).text == "x" * 10


async def test_timeout_none_never_ends_the_call():
    with trio.fail_after(5):
        async with (
            open_upstream_server(_silent) as server,
            httpx.AsyncClient(transport=Transport(), timeout=None) as client,
        ):
            with trio.move_on_after(0.05) as scope:
                await client.get(server.url)
            assert scope.cancelled_caught


async def test_url_of_another_scheme_is_refused():
    async with httpx.AsyncClient(transport=Transport()) as client:
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.get("ftp://127.0.0.1/")


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("https://API.Example.com", ORIGIN, "/"),
        ("https://api.example.com:443/a?b=c#d", ORIGIN, "/a?b=c"),
        ("http://api.example.com:8080/%61 b?", Origin("http", "api.example.com", 8080), "/%61%20b?"),
        ("http://[::1]/é", Origin("http", "::1", 80), "/%C3%A9"),
        ("http://bücher.example/", Origin("http", "xn--bcher-kva.example", 80), "/"),
    ],
)
def test_url_is_split_into_origin_and_target(url: str, origin: Origin, target: str):
    assert origin_of(url) == (origin, target)


@pytest.mark.parametrize("url", ["", "/path", "ftp://host/", "https://", "api.example.com/v1"])
def test_non_absolute_url_is_refused(url: str):
    with pytest.raises(httpx.UnsupportedProtocol):
        origin_of(url)


@pytest.mark.parametrize(
    ("origin", "authority"),
    [
        (ORIGIN, "api.example.com"),
        (Origin("http", "api.example.com", 443), "api.example.com:443"),
        (Origin("http", "::1", 80), "[::1]"),
        (Origin("http", "::1", 81), "[::1]:81"),
    ],
)
def test_authority_names_only_a_non_default_port(origin: Origin, authority: str):
    assert origin.authority == authority


async def test_call_works_over_an_httpx_mock_transport():
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(
            201, headers=[("X-A", "1"), ("x-a", "2"), ("Content-Encoding", "gzip")], content=gzip.compress(b"body")
        )

    call = HttpCall("POST", ORIGIN, "/v1/a%2Fb?c=%20", (("User-Agent", "sluice/1"),), b"out")
    answer = await via_httpx(httpx.MockTransport(handle))(call)
    assert (answer.status, answer.headers["x-a"], answer.body) == (201, "1, 2", b"body")
    (request,) = seen
    assert (request.method, str(request.url)) == ("POST", "https://api.example.com/v1/a%2Fb?c=%20")
    assert request.content == b"out"
    assert (request.headers["user-agent"], request.headers["host"]) == ("sluice/1", "api.example.com")
    assert request.headers["accept-encoding"] == "gzip, deflate, br"


async def test_accept_encoding_of_the_call_is_kept_over_httpx():
    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=request.headers["accept-encoding"])

    answer = await via_httpx(httpx.MockTransport(handle))(
        HttpCall("GET", ORIGIN, "/", (("Accept-Encoding", "identity"),))
    )
    assert answer.body == b"identity"


class _Endless(httpx.AsyncByteStream):
    """An endless body that records whether it was closed."""

    closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return b"x" * 100

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


async def test_body_limit_applies_over_httpx():
    for headers, body in (
        ({}, _Endless()),
        ({"Content-Encoding": "gzip"}, _Endless()),
        ({"Content-Encoding": "gzip"}, httpx.ByteStream(gzip.compress(b"x" * 1001))),
    ):
        stand_in = httpx.MockTransport(lambda _, h=headers, b=body: httpx.Response(200, headers=h, stream=b))
        with pytest.raises(ResponseTooLarge):
            await via_httpx(stand_in, body_bytes_max=1000)(HttpCall("GET", ORIGIN, "/"))
        assert getattr(body, "closed", True)


async def test_httpx_transport_gives_the_same_answer():
    wire = reply(gzip.compress(b"hello"), "Content-Encoding: gzip", "X-A: 1", "X-A: 2", status="404 Not Found")
    with trio.fail_after(5):
        async with (
            open_upstream_server(always(wire)) as server,
            open_transport() as ours,
            httpx.AsyncHTTPTransport() as theirs,
        ):
            call = server.call("/x", "POST", b"body")
            direct = await ours.exchange(call)
            over_httpx = await via_httpx(ours)(call)
            of_httpx = await via_httpx(theirs)(call)
    assert direct == of_httpx
    assert (over_httpx.status, over_httpx.body) == (direct.status, direct.body)
    assert len({request.split(b"\r\n\r\n")[1] for request in server.requests}) == 1
