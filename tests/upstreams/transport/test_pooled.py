"""The bytes that one exchange sends and receives, over real sockets."""

import gzip

import httpx
import pytest
import trio

from tests.fakes.upstream_server import Peer, always, once, open_upstream_server, reply
from tests.upstreams.transport.connected import connected
from upstreams.transport.http import HttpAnswer, HttpCall, ResponseTooLarge
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import Transport, open_transport


async def _ask(*pieces: bytes, method: str = "GET", times: int = 1, **options: int) -> tuple[HttpAnswer, int]:
    """Let a server answer with `pieces` and keep the connection.

    Return the last answer and the number of connections.
    """
    async with connected(always(*pieces), **options) as (server, transport):
        for _ in range(times):
            answer = await transport.exchange(server.call(method=method))
        return answer, server.connections


async def _ask_closing(*pieces: bytes, method: str = "GET", **options: int) -> HttpAnswer:
    """Let a server answer with `pieces` and close the connection."""
    async with connected(once(*pieces), **options) as (server, transport):
        return await transport.exchange(server.call(method=method))


async def test_call_is_sent_as_written_and_answered():
    async with connected(always(reply(b"{}", "X-One: 1", "Link: a", "link: b", status="201 Created"))) as (
        server,
        transport,
    ):
        answer = await transport.exchange(server.call("/v1/a%20b?q=1", user_agent="sluice/1"))
    assert answer == HttpAnswer(201, {"content-length": "2", "x-one": "1", "link": "a, b"}, b"{}")
    assert server.requests == [
        f"GET /v1/a%20b?q=1 HTTP/1.1\r\nHost: 127.0.0.1:{server.origin.port}\r\nuser-agent: sluice/1\r\n"
        "Accept-Encoding: gzip, deflate, br\r\n\r\n".encode()
    ]


async def test_content_length_is_sent_even_for_an_empty_post():
    async with connected(always(reply())) as (server, transport):
        await transport.exchange(server.call(method="POST", body=b"x" * 300_000))
        await transport.exchange(server.call(method="POST"))
        await transport.exchange(server.call(method="DELETE"))
    post, empty_post, delete = server.requests
    assert b"\r\nContent-Length: 300000\r\n" in post
    assert post.endswith(b"\r\n\r\n" + b"x" * 300_000)
    assert b"\r\nContent-Length: 0\r\n" in empty_post
    assert b"ontent-Length" not in delete


async def test_accept_encoding_of_the_call_is_kept():
    async with connected(always(reply())) as (server, transport):
        await transport.exchange(server.call(Accept_Encoding="identity"))
    assert server.requests[0].count(b"Accept-Encoding") == 1
    assert b"Accept-Encoding: identity\r\n" in server.requests[0]


@pytest.mark.parametrize(
    "pieces",
    [
        (reply(b"hello"),),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: v\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r", b"\nhello\r\n0\r\n", b"\r\n"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", reply(b"hello")),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", b"hello"),
        (b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",),
    ],
)
async def test_framed_answers_keep_the_connection(pieces: tuple[bytes, ...]):
    answer, connections = await _ask(*pieces, times=3)
    assert (answer.status, answer.body, connections) == (200, b"hello", 1)
    assert not {"link", "t"} & set(answer.headers)


@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo"),
        (b"HTTP/1.0 200 OK\r\n\r\n", b"hello"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",),
        (reply(b"hello", "Connection: close"),),
    ],
)
async def test_answer_may_end_with_the_connection(pieces: tuple[bytes, ...]):
    async with connected(once(*pieces)) as (server, transport):
        for expected in (1, 2):
            assert (await transport.exchange(server.call())).body == b"hello"
            assert server.connections == expected
            assert transport.statistics().origins == {}


@pytest.mark.parametrize(
    ("method", "answer_bytes", "status"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", 200),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        ("GET", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", 204),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", 304),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Encoding: gzip\r\n\r\n", 304),
    ],
)
async def test_bodiless_answers_end_with_their_head(method: str, answer_bytes: bytes, status: int):
    answer, connections = await _ask(answer_bytes, method=method, times=3)
    assert (answer.status, answer.body, connections) == (status, b"", 1)


async def test_methods_may_alternate_on_one_connection():
    async def script(peer: Peer) -> None:
        while True:
            head_only = (await peer.request()).startswith(b"HEAD")
            await peer.send(reply(b"12345")[: -5 if head_only else None])

    async with connected(script) as (server, transport):
        bodies = [(await transport.exchange(server.call(method=m))).body for m in ("HEAD", "GET", "HEAD", "GET")]
    assert (bodies, server.connections) == ([b"", b"12345", b"", b"12345"], 1)


@pytest.mark.parametrize("surplus", [b"x", reply(b"nobody asked"), b"HTTP/1.1 2", b"\0" * 100])
@pytest.mark.parametrize(("method", "body"), [("GET", b"hello"), ("HEAD", b"")])
async def test_surplus_bytes_never_reach_the_next_call(method: str, body: bytes, surplus: bytes):
    answer, connections = await _ask(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body + surplus, method=method)
    assert (answer.body, connections) == (body, 1)
    answer, connections = await _ask(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body + surplus, method=method, times=3
    )
    assert (answer.body, connections) == (body, 3)


@pytest.mark.parametrize(
    "cut",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
async def test_truncated_answer_is_an_error(cut: bytes):
    with pytest.raises(httpx.RemoteProtocolError):
        await _ask_closing(cut)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01 hello",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
    ],
)
async def test_malformed_answer_is_an_error_and_closes_the_connection(garbage: bytes):
    async with connected(always(garbage)) as (server, transport):
        with pytest.raises(httpx.RemoteProtocolError):
            await transport.exchange(server.call())
        assert transport.statistics().origins == {}


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "endless", "error"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", httpx.RemoteProtocolError),
        (b"", b"x" * 1000, httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: value\r\n", httpx.RemoteProtocolError),
        (CHUNKED + b"1\r\nx\r\n0\r\nT: ", b"x" * 1000, httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"0123456789\r\n", ResponseTooLarge),
        (CHUNKED, b"a\r\n0123456789\r\n", ResponseTooLarge),
    ],
    ids=["interim answers", "status line", "headers", "trailers", "body", "chunks"],
)
async def test_endless_answer_is_cut_off(start: bytes, endless: bytes, error: type[Exception]):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(start)
        while True:
            await peer.send(endless * 100)

    async with connected(script, header_bytes_max=5000, body_bytes_max=1_000_000) as (server, transport):
        with pytest.raises(error):
            await transport.exchange(server.call())
        assert transport.statistics().origins == {}


async def test_body_limit_is_exact():
    answer, _ = await _ask(reply(b"x" * 1000), body_bytes_max=1000)
    assert len(answer.body) == 1000
    for too_long in (reply(b"x" * 1001), b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001):
        with pytest.raises(ResponseTooLarge):
            await _ask_closing(too_long, body_bytes_max=1000)


async def test_announced_length_beyond_the_limit_is_refused_early():
    with pytest.raises(ResponseTooLarge):
        await _ask(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", body_bytes_max=1000)


async def test_slow_body_is_cut_off_by_the_callers_time_limit():
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await peer.send(b"x")
            await trio.sleep(0.005)

    async with connected(script) as (server, transport):
        with trio.move_on_after(0.1) as scope:
            await transport.exchange(server.call())
        assert scope.cancelled_caught
        assert transport.statistics().origins == {}


async def test_compression_bomb_is_refused_and_its_connection_kept():
    bomb = gzip.compress(b"\0" * 5_000_000)
    async with connected(always(reply(bomb, "Content-Encoding: gzip")), body_bytes_max=100_000) as (server, transport):
        for _ in range(2):
            with pytest.raises(ResponseTooLarge):
                await transport.exchange(server.call())
        assert server.connections == 1


async def test_redirects_are_returned_to_the_caller():
    answer, _ = await _ask(reply(b"", "Location: /elsewhere", status="302 Found"))
    assert (answer.status, answer.headers["location"]) == (302, "/elsewhere")


async def test_refused_connection_is_a_connect_error():
    async with open_upstream_server(always(reply())) as server:
        pass
    with trio.fail_after(5):
        async with open_transport() as transport:
            with pytest.raises(httpx.ConnectError):
                await transport.exchange(server.call())
            assert transport.statistics().origins == {}


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example", "127.0.0.1.", "[broken"])
async def test_invalid_name_is_a_connect_error(host: str):
    with trio.fail_after(5):
        async with open_transport() as transport:
            with pytest.raises(httpx.ConnectError):
                await transport.exchange(HttpCall("GET", Origin("http", host, 9), "/"))


async def test_reset_is_a_read_error():
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhel")
        await trio.sleep(0.02)
        await peer.reset()

    async with connected(script) as (server, transport):
        with pytest.raises(httpx.ReadError):
            await transport.exchange(server.call())


async def test_peer_that_closes_while_receiving_is_a_write_error():
    async def script(peer: Peer) -> None:
        await trio.sleep(0.05)
        await peer.reset()

    async with connected(script) as (server, transport):
        with pytest.raises(httpx.WriteError):
            await transport.exchange(server.call(method="POST", body=b"x" * 20_000_000))


async def test_connecting_has_its_own_time_limit():
    """The listener accepts connections but never completes a handshake. The time limit for connecting includes TLS."""

    async def script(peer: Peer) -> None:
        await trio.sleep_forever()

    async with connected(script, connect_s=0.05) as (server, transport):
        call = server.call()
        with pytest.raises(httpx.ConnectTimeout):
            await transport.exchange(type(call)(call.method, call.origin._replace(scheme="https"), call.target))
        assert transport.statistics().origins == {}
        with trio.move_on_after(0.02) as scope:
            await transport.exchange(server.call())
        assert scope.cancelled_caught


async def test_closed_transport_raises():
    transport = Transport()
    await transport.aclose()
    async with open_upstream_server(always(reply())) as server:
        with pytest.raises(RuntimeError, match="closed"):
            await transport.exchange(server.call())


LONG = b"[" + b"12," * 700_000 + b"1]"


def _coded(body: bytes) -> bytes:
    return reply(gzip.compress(body, 1), "Content-Encoding: gzip")


async def test_long_body_is_decoded_in_a_thread_and_keeps_its_connection():
    answer, connections = await _ask(_coded(LONG), times=3)
    assert (answer.status, answer.body, connections) == (200, LONG, 1)


async def test_damaged_or_oversized_long_body_is_refused():
    noise = gzip.compress(bytes(range(256)) * 2_000 + LONG, 0)
    with pytest.raises(httpx.DecodingError):
        await _ask(reply(noise[:-100], "Content-Encoding: gzip"))
    with pytest.raises(ResponseTooLarge):
        await _ask(_coded(LONG), body_bytes_max=1_000_000)


async def test_long_body_decoding_ends_at_the_deadline():
    async with connected(always(_coded(LONG))) as (server, transport):
        await transport._decoding.acquire_on_behalf_of("another one")
        with pytest.raises(httpx.PoolTimeout):
            await transport.exchange(server.call(), trio.current_time() + 0.3)
