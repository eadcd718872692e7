"""Requests as bytes and the one right answer: RFC 9112 where it leaves a choice takes the stricter."""

import pytest
import trio

from gateway.server.bounds import Bounds
from tests.gateway.server.apps import PathApp
from tests.gateway.server.raw_client import open_served

H = b"Host: a.example\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"

REFUSED = {
    "bare LF line ends": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "bare LF after a header": (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
    "bare LF as the empty line": (b"GET / HTTP/1.1\r\nHost: a\r\n\n" + SMUGGLED, 400),
    "bare CR in a value": (b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
    "obsolete line folding": (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400),
    "a blank before the first header": (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    "a blank before the colon": (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    "a header without a colon": (b"GET / HTTP/1.1\r\n" + H + b"X\r\n\r\n", 400),
    "a header without a name": (b"GET / HTTP/1.1\r\n" + H + b": x\r\n\r\n", 400),
    "NUL in a value": (b"GET / HTTP/1.1\r\n" + H + b"X: a\0b\r\n\r\n", 400),
    "NUL in a name": (b"GET / HTTP/1.1\r\n" + H + b"X\0: a\r\n\r\n", 400),
    "a control character in a value": (b"GET / HTTP/1.1\r\n" + H + b"X: a\x01\r\n\r\n", 400),
    "DEL in a value": (b"GET / HTTP/1.1\r\n" + H + b"X: a\x7f\r\n\r\n", 400),
    "a bad character in a name": (b"GET / HTTP/1.1\r\n" + H + b"X(Y): a\r\n\r\n", 400),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET / HTTP/1.1\r\n" + H + H + b"\r\n", 400),
    "two Hosts on HTTP/1.0": (b"GET / HTTP/1.0\r\n" + H + H + b"\r\n", 400),
    "a malformed Host": (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    "a Host with a path": (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    "two equal lengths": (b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
    "two lengths": (b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "a list of lengths": (b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 1, 1\r\n\r\na", 400),
    "a signed length": (b"POST / HTTP/1.1\r\n" + H + b"Content-Length: +1\r\n\r\na", 400),
    "a negative length": (b"POST / HTTP/1.1\r\n" + H + b"Content-Length: -1\r\n\r\na", 400),
    "a hexadecimal length": (b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 0x1\r\n\r\na", 400),
    "an empty length": (b"POST / HTTP/1.1\r\n" + H + b"Content-Length:\r\n\r\n", 400),
    "a length past 64 bits": (b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 99999999999999999999\r\n\r\n", 400),
    "length and chunks": (
        b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        400,
    ),
    "chunks and length": (
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
        400,
    ),
    "chunks twice": (b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n", 400),
    "chunks twice in one header": (
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "gzip and chunks": (b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks not last": (b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
    "a coding nobody knows": (b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "identity": (b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "a vertical tab before chunked": (
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "chunks on HTTP/1.0": (b"POST / HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "malformed chunks": (b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\nz\r\n" + SMUGGLED, 400),
    "bare LF in chunks": (
        b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n" + SMUGGLED,
        400,
    ),
    "an unknown method": (b"BREW / HTTP/1.1\r\n" + H + b"\r\n", 501),
    "a method in lower case": (b"get / HTTP/1.1\r\n" + H + b"\r\n", 501),
    "CONNECT": (b"CONNECT a.example:443 HTTP/1.1\r\n" + H + b"\r\n" + SMUGGLED, 501),
    "authority form": (b"GET a.example:443 HTTP/1.1\r\n" + H + b"\r\n", 400),
    "asterisk form": (b"GET * HTTP/1.1\r\n" + H + b"\r\n", 400),
    "another scheme": (b"GET ftp://a.example/ HTTP/1.1\r\n" + H + b"\r\n", 400),
    "a fragment": (b"GET /a#b HTTP/1.1\r\n" + H + b"\r\n", 400),
    "a blank in the target": (b"GET /a b HTTP/1.1\r\n" + H + b"\r\n", 400),
    "NUL in the target": (b"GET /\0 HTTP/1.1\r\n" + H + b"\r\n", 400),
    "a high byte in the target": (b"GET /\xff HTTP/1.1\r\n" + H + b"\r\n", 400),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/2.0": (b"GET / HTTP/2.0\r\n" + H + b"\r\n", 505),
    "HTTP/1.2": (b"GET / HTTP/1.2\r\n" + H + b"\r\n", 505),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "no version": (b"GET / HTTX\r\n\r\n", 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "an SSH hello": (b"SSH-2.0-OpenSSH_9.6\r\n", 400),
    "an unknown expectation": (b"POST / HTTP/1.1\r\n" + H + b"Expect: gold\r\nContent-Length: 1\r\n\r\na", 417),
    "a long target": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + H + b"\r\n", 414),
    "an endless target": (b"GET /" + b"a" * 20_000, 414),
    "a large header": (b"GET / HTTP/1.1\r\n" + H + b"X: " + b"a" * 40_000 + b"\r\n\r\n", 431),
    "endless headers": (b"GET / HTTP/1.1\r\n" + b"X: aaaaaaa\r\n" * 4_000, 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + H + b"X: a\r\n" * 101 + b"\r\n", 431),
}


@pytest.mark.parametrize(("data", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_is_no_sound_request_is_refused_once_and_nothing_behind_it_is_read(data: bytes, status: int):
    app = PathApp()
    async with open_served(app) as served:
        answers = await served.ask(data)
        assert [answer.status for answer in answers] == [status]
        assert answers[0].header(b"connection") == b"close"
        assert answers[0].body.startswith(f"edge {status}: ".encode())
        assert "GET /smuggled" not in app.asked


@pytest.mark.parametrize("name", ["two lengths", "length and chunks", "bare LF as the empty line", "no Host"])
async def test_a_refusal_behind_a_good_request_leaves_the_good_one_answered(name: str):
    data, status = REFUSED[name]
    async with open_served(PathApp()) as served:
        answers = await served.ask(b"GET / HTTP/1.1\r\n" + H + b"\r\n" + data)
        assert [answer.status for answer in answers] == [200, status]


TAKEN = {
    "plain": b"GET / HTTP/1.1\r\n" + H,
    "empty lines first": b"\r\n\r\nGET / HTTP/1.1\r\n" + H,
    "absolute form": b"GET http://a.example/ HTTP/1.1\r\n" + H,
    "no value": b"GET / HTTP/1.1\r\n" + H + b"X:\r\n",
    "a tab and high bytes in a value": b"GET / HTTP/1.1\r\n" + H + b"X: a\tb\xff\r\n",
    "an empty Host": b"GET / HTTP/1.1\r\nHost:\r\n",
    "an IPv6 Host": b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n",
    "headers in capitals": b"GET / HTTP/1.1\r\nHOST: a\r\nCONNECTION: Keep-Alive\r\n",
    "no length": b"POST / HTTP/1.1\r\n" + H,
    "length zero": b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n",
    "an upgrade to a websocket": b"GET / HTTP/1.1\r\n" + H + b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    "an upgrade to h2c": b"GET / HTTP/1.1\r\n"
    + H
    + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: !\r\n",
    "Upgrade alone": b"GET / HTTP/1.1\r\n" + H + b"Upgrade: websocket\r\n",
    "an expectation without a body": b"GET / HTTP/1.1\r\n" + H + b"Expect: 100-continue\r\n",
}


@pytest.mark.parametrize("head", TAKEN.values(), ids=TAKEN.keys())
async def test_sound_requests_are_answered_and_the_connection_kept(head: bytes):
    async with open_served(PathApp()) as served, await served.connect() as client:
        for _ in range(2):
            answer = await client.ask(head + b"\r\n")
            assert (answer.status, answer.body) == (200, b"ok")
            assert answer.header(b"connection") is None


async def test_an_upgrade_request_with_a_body_is_a_plain_request():
    async with open_served(PathApp()) as served, await served.connect() as client:
        upgrade = H + b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc"
        assert (await client.ask(b"POST /echo HTTP/1.1\r\n" + upgrade)).body == b"abc"
        assert (await client.ask(b"GET / HTTP/1.1\r\n" + H + b"\r\n")).status == 200


async def test_options_may_ask_about_the_whole_server():
    async with open_served(app := PathApp()) as served, await served.connect() as client:
        await client.ask(b"OPTIONS * HTTP/1.1\r\n" + H + b"\r\n")
        assert app.asked == ["OPTIONS *"]


async def test_a_client_that_leaves_at_any_byte_of_its_request_harms_nobody():
    request = b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
    async with open_served(PathApp()) as served:
        for end in range(len(request)):
            async with await served.connect() as client:
                await client.send(request[:end])
                if end % 2:
                    await client.stream.send_eof()
                    with trio.move_on_after(0.5) as patience:
                        await client.answers_until_close()
                    assert not patience.cancelled_caught
        async with await served.connect() as client:
            assert (await client.ask(request)).body == b"abc"


async def test_a_request_may_arrive_byte_by_byte():
    request = b"POST /echo HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
    async with open_served(PathApp()) as served, await served.connect() as client:
        for at in range(len(request)):
            await client.send(request[at : at + 1])
            await trio.lowlevel.checkpoint()
        assert (await client.answer()).body == b"abc"


async def test_too_many_connections_wait_their_turn():
    async with open_served(PathApp(), bounds=Bounds(connections=2)) as served:
        clients = [await served.connect() for _ in range(3)]
        ask = b"GET / HTTP/1.1\r\n" + H + b"\r\n"
        for client in clients[:2]:
            assert (await client.ask(ask)).status == 200
        with trio.move_on_after(0.1) as waiting:
            await clients[2].ask(ask)
        assert waiting.cancelled_caught
        await clients[0].stream.aclose()
        assert (await clients[2].answer()).status == 200
        for client in clients:
            await client.stream.aclose()
