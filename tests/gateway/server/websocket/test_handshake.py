"""Requests for a WebSocket as bytes, and the one correct response."""

import logging
from contextlib import suppress

import pytest
import trio

from tests.gateway.server.frames import ACCEPT, KEY, TEXT, frame, handshake, next_frame
from tests.gateway.server.socket_apps import PATHS, SocketApp, open_sockets

PLAIN = 200
"""The status of a request that is not for a WebSocket: the app answers it like any other."""
CASES = {
    "valid": (handshake(), 101),
    "valid, with other letter case": (handshake().replace(b"Upgrade: websocket", b"UPGRADE: WebSocket"), 101),
    "Connection twice": (handshake(b"/talk", b"Connection: x"), 101),
    "Upgrade with several protocols": (handshake().replace(b": websocket", b": h2c, websocket"), 101),
    "a zero length": (handshake(b"/talk", b"Content-Length: 0"), 101),
    "an absolute target": (handshake(b"http://a/talk"), 101),
    "an encoded target": (handshake(b"/%74alk"), 101),
    "an extension that is not accepted": (handshake(b"/talk", b"Sec-WebSocket-Extensions: permessage-deflate"), 101),
    "another path": (handshake(b"/other"), PLAIN),
    "POST": (handshake(method=b"POST"), PLAIN),
    "HTTP/1.0": (handshake(version=b"1.0"), PLAIN),
    "no Upgrade": (handshake(drop=b"Upgrade"), PLAIN),
    "no Connection": (handshake(drop=b"Connection"), PLAIN),
    "Connection without upgrade": (handshake(b"/talk", b"Connection: upgrades", drop=b"Connection"), PLAIN),
    "another protocol": (handshake(b"/talk", b"Upgrade: h2c", drop=b"Upgrade"), PLAIN),
    "no Host": (handshake(drop=b"Host"), 400),
    "no version": (handshake(drop=b"Sec-WebSocket-Version"), 426),
    "an old version": (handshake(b"/talk", b"Sec-WebSocket-Version: 8", drop=b"Sec-WebSocket-Version"), 426),
    "two versions": (handshake(b"/talk", b"Sec-WebSocket-Version: 13"), 426),
    "no key": (handshake(drop=b"Sec-WebSocket-Key"), 400),
    "two keys": (handshake(b"/talk", b"Sec-WebSocket-Key: " + KEY), 400),
    "a short key": (handshake(b"/talk", b"Sec-WebSocket-Key: abcd", drop=b"Sec-WebSocket-Key"), 400),
    "a key of 17 bytes": (handshake().replace(KEY, b"dGhlIHNhbXBsZSBub25jZVg="), 400),
    "a key that is not Base64": (handshake().replace(KEY, b"dGhlIHNhbXBsZSBub25j-_=="), 400),
    "a body": (handshake(b"/talk", b"Content-Length: 3") + b"abc", 400),
    "a body in chunks": (handshake(b"/talk", b"Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "a subprotocol with spaces": (handshake(b"/talk", b"Sec-WebSocket-Protocol: a b"), 400),
    "a subprotocol with high bytes": (handshake(b"/talk", b"Sec-WebSocket-Protocol: \xff"), 400),
    "a subprotocol twice": (handshake(b"/talk", b"Sec-WebSocket-Protocol: a, a"), 400),
}
BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


def differs(name: str, engine: str) -> bool:
    """Return whether the engine responds differently: Hypercorn treats an absolute target as a path."""
    return engine == "hypercorn" and name == "an absolute target"


@BOTH
@pytest.mark.parametrize("name", CASES)
async def test_handshake_has_its_expected_response(name: str, engine: str):
    sent, status = CASES[name]
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served, await served.connect() as client:
        answer = await client.ask(sent)
        if differs(name, engine):
            return
        assert answer.status == status
        assert ("websocket" in app.asked, "http" in app.asked) == (status == 101, status == 200)
        assert answer.header(b"sec-websocket-accept") == (ACCEPT if status == 101 else None)
        assert answer.header(b"sec-websocket-extensions") is None
        assert answer.header(b"sec-websocket-version") == (b"13" if status == 426 else None)
        assert answer.header(b"upgrade") == {101: b"websocket", 426: b"websocket"}.get(status)
        if status >= 400 and name != "no Host":
            assert answer.body.startswith(b"edge %d: " % status)
            assert answer.header(b"connection") == (b"upgrade, close" if status == 426 else b"close")
            assert await client.closed()


@BOTH
async def test_server_without_websockets_ignores_the_upgrade(engine: str):
    async with (
        open_sockets(app := SocketApp(), engine=engine, websocket_paths=frozenset()) as served,
        await served.connect() as client,
    ):
        for sent, _ in (CASES["valid"], CASES["no key"], CASES["an old version"]):
            assert (await client.ask(sent)).body == b"plain"
        assert set(app.asked) == {"http"}


@BOTH
async def test_websocket_path_still_answers_plain_requests(engine: str):
    plain = b"GET /talk HTTP/1.1\r\nHost: a\r\n\r\n"
    async with open_sockets(SocketApp(), engine=engine) as served, await served.connect() as client:
        assert [(await client.ask(plain)).body for _ in range(2)] == [b"plain"] * 2
        assert (await client.ask(handshake())).status == 101


async def test_handshake_in_two_pieces_has_the_same_response():
    async with open_sockets(SocketApp()) as served:
        for sent, status in CASES.values():
            for cut in (1, 20, len(sent) // 2):
                async with await served.connect() as client:
                    await client.send(sent[:cut])
                    assert (await client.ask(sent[cut:])).status == status


@BOTH
async def test_app_chooses_a_subprotocol_of_the_client(engine: str):
    offer = handshake(b"/choose", b"Sec-WebSocket-Protocol: one, two", b"sec-websocket-protocol: three")
    async with open_sockets(SocketApp(), engine=engine) as served, await served.connect() as client:
        answer = await client.ask(offer)
        assert answer.header(b"sec-websocket-protocol") == b"three"
        assert answer.header(b"x-app") == b"yes"
        assert (answer.header(b"upgrade") or b"").lower() == b"websocket"


@pytest.mark.parametrize("path", [b"/chosen-badly", b"/split", b"/own", b"/boom-early", b"/silent"])
async def test_app_failure_before_the_accept_returns_500(path: bytes, caplog: pytest.LogCaptureFixture):
    async with open_sockets(SocketApp()) as served, await served.connect() as client:
        answer = await client.ask(handshake(path))
        assert (answer.status, answer.header(b"connection")) == (500, b"close")
        assert [record.name for record in caplog.records] == ["sluice.server"]


H = b"Host: a\r\n"
U = H + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
V = b"Sec-WebSocket-Version: 13\r\n"
K = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
MALFORMED = {
    "no key": b"GET / HTTP/1.1\r\n" + U + V + b"\r\n",
    "no key, and more bytes": b"GET / HTTP/1.1\r\n" + U + V + b"\r\n" + b"\x81\x85abcd" * 50,
    "no version": b"GET / HTTP/1.1\r\n" + U + K + b"\r\n" + b"more",
    "a bad version": b"GET / HTTP/1.1\r\n" + U + K + b"Sec-WebSocket-Version: banana\r\n\r\n" + b"more",
    "Upgrade without Connection": b"GET / HTTP/1.1\r\n" + H + b"Upgrade: websocket\r\n" + V + K + b"\r\n" + b"more",
    "Connection without Upgrade": b"GET / HTTP/1.1\r\n" + H + b"Connection: Upgrade\r\n" + V + K + b"\r\n" + b"more",
    "HTTP/1.0": b"GET / HTTP/1.0\r\n" + U + V + K + b"\r\n" + b"more",
    "no Host": b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + V + K + b"\r\n",
    "high bytes in Connection": b"GET / HTTP/1.1\r\n" + H + b"Connection: \xff, Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "high bytes in an extension": b"GET / HTTP/1.1\r\n" + U + V + K + b"Sec-WebSocket-Extensions: \xff\r\n\r\n",
    "high bytes in a protocol": b"GET / HTTP/1.1\r\n" + U + V + K + b"Sec-WebSocket-Protocol: \xff\r\n\r\n",
    "a valid request and early frames": b"GET / HTTP/1.1\r\n" + U + V + K + b"\r\n" + b"\x81\x85abcd" * 50,
    "with a body": b"GET /echo HTTP/1.1\r\n" + U + V + K + b"Content-Length: 5\r\n\r\nhello",
    "h2c": b"GET / HTTP/1.1\r\n" + H + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
    "h2c with bad settings": b"GET / HTTP/1.1\r\n" + H + b"Upgrade: h2c\r\nHTTP2-Settings: !\xff!\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
    "the preface with Host": b"PRI * HTTP/2.0\r\n" + H + b"\r\nSM\r\n\r\n" + b"\xff" * 100,
    "CONNECT": b"CONNECT a:443 HTTP/1.1\r\n" + H + b"\r\nmore",
    "noise": bytes(range(256)) * 4,
}


@BOTH
@pytest.mark.parametrize("accepts", [True, False], ids=["websockets", "no websockets"])
async def test_malformed_upgrade_ends_no_other_connection(engine: str, accepts: bool, caplog: pytest.LogCaptureFixture):
    """Goal: pgjones/hypercorn#225 stays fixed. Method: each form whole, cut after its head or before its last byte."""
    forms = [*MALFORMED.values(), *(sent for sent, _ in CASES.values())] if accepts else [*MALFORMED.values()]
    paths = PATHS if accepts else frozenset()
    async with (
        open_sockets(SocketApp(), engine=engine, websocket_paths=paths, patience_s=20) as served,
        await served.connect() as bystander,
    ):
        if accepts:
            assert (await bystander.ask(handshake())).status == 101
        for data in forms:
            aimed = data.replace(b" / HTTP", b" /talk HTTP").replace(b"/echo", b"/talk")
            for sent in (aimed, aimed.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", aimed[:-1]):
                async with await served.connect() as client:
                    with suppress(trio.BrokenResourceError):
                        await client.send(sent)
                        with trio.move_on_after(0.01):
                            await client.stream.receive_some(1_000)
                        await client.send(b"and more\r\n\r\n")
                        with trio.move_on_after(0.01):
                            await client.stream.receive_some(1_000)
        if accepts:
            await bystander.send(frame(TEXT, b"still here"))
            assert (await next_frame(bystander)).payload == b"still here"
        else:
            assert (await bystander.ask(b"GET / HTTP/1.1\r\n" + H + b"\r\n")).body == b"plain"
        assert not served.ended.is_set()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
