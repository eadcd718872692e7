"""A WebSocket as clients and apps see it, in bytes."""

import json
import logging

import pytest
import trio

from gateway.server.bounds import Bounds
from tests.gateway.server.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Frame,
    closing,
    end_of,
    frame,
    handshake,
    next_frame,
)
from tests.gateway.server.raw_client import Client, Served
from tests.gateway.server.socket_apps import BIG, SocketApp, open_sockets

BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])
LIMIT = Bounds().message_bytes
SOUND = {
    "text": (frame(TEXT, "é€😀".encode()), ["é€😀"]),
    "binary": (frame(BINARY, bytes(range(256))), [bytes(range(256))]),
    "empty": (frame(TEXT) + frame(BINARY), ["", b""]),
    "the maximum size": (frame(BINARY, b"x" * LIMIT), [b"x" * LIMIT]),
    "text of the maximum size": (frame(TEXT, b"x" * LIMIT), ["x" * LIMIT]),
    "pieces": (frame(TEXT, b"a", last=False) + frame(CONTINUATION, last=False) + frame(CONTINUATION, b"c"), ["ac"]),
    "a character in two pieces": (frame(TEXT, b"\xc3", last=False) + frame(CONTINUATION, b"\xa9"), ["é"]),
    "empty pieces": (frame(BINARY, last=False) + frame(CONTINUATION, last=False) * 9 + frame(CONTINUATION), [b""]),
    "a thousand pieces": (
        frame(BINARY, b"0", last=False) + frame(CONTINUATION, b"1", last=False) * 1_000 + frame(CONTINUATION),
        [b"0" + b"1" * 1_000],
    ),
    "control frames between pieces": (
        frame(TEXT, b"a", last=False) + frame(PING, b"p") + frame(PONG) + frame(CONTINUATION, b"b"),
        ["ab"],
    ),
    "many": (frame(TEXT, b"a") * 300, ["a"] * 300),
}  # fmt: skip
WRONG = {
    "no mask": (frame(TEXT, b"a", masked=False), 1002),
    "a ping without a mask": (frame(PING, b"a", masked=False), 1002),
    "a reserved bit": (frame(TEXT, b"a", reserved=4), 1002),
    "a reserved opcode": (frame(3, b"a"), 1002),
    "a reserved control opcode": (frame(11, b"a"), 1002),
    "a ping in pieces": (frame(PING, b"a", last=False), 1002),
    "a long ping": (frame(PING, b"a" * 126), 1002),
    "a continuation without a message": (frame(CONTINUATION, b"a"), 1002),
    "a message within another": (frame(TEXT, b"a", last=False) + frame(TEXT, b"b"), 1002),
    "a 16-bit length for a short message": (b"\x81\xfe\x00\x05\0\0\0\0hello", 1002),
    "a 64-bit length for a short message": (b"\x81\xff\0\0\0\0\0\0\0\x05\0\0\0\0hello", 1002),
    "a length above all limits": (b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 1002),
    "a close of one byte": (frame(CLOSE, b"\x03"), 1002),
    "a close with an undefined code": (closing(999), 1002),
    "a close with a reserved code": (closing(1006), 1002),
    "text that is not UTF-8": (frame(TEXT, b"\xff"), 1007),
    "text cut within a character": (frame(TEXT, b"\xc3"), 1007),
    "text with a surrogate": (frame(TEXT, b"\xed\xa0\x80"), 1007),
    "pieces that are not UTF-8": (frame(TEXT, b"a", last=False) + frame(CONTINUATION, b"\xff"), 1007),
    "a reason that is not UTF-8": (closing(1000, b"\xff"), 1007),
    "one byte over the maximum": (frame(BINARY, b"x" * (LIMIT + 1)), 1009),
    "far over the maximum": (frame(BINARY, b"x" * 900_000), 1009),
    "few characters, but too many bytes": (frame(TEXT, "😀".encode() * (LIMIT // 4 + 1)), 1009),
    "too many bytes in pieces": (frame(TEXT, b"x" * LIMIT, last=False) + frame(CONTINUATION, b"x"), 1009),
    "too many bytes announced": (b"\x82\xff\0\0\0\0\x10\0\0\0\0\0\0\0" + b"x" * (LIMIT + 1), 1009),
    "a close": (closing(1000), 1000),
    "a close with a reason": (closing(3_333, b"so it is"), 3_333),
    "a close without a code": (frame(CLOSE), 1005),
    "a close between pieces": (frame(TEXT, b"a", last=False) + closing(1001), 1001),
    "frames after a close": (closing(1000) + frame(TEXT, b"late") + frame(PING) + closing(1001), 1000),
}  # fmt: skip


async def opened(served: Served, path: bytes = b"/talk", behind: bytes = b"") -> Client:
    """Open a WebSocket, with more bytes sent right after the handshake."""
    client = await served.connect()
    assert (await client.ask(handshake(path) + behind)).status == 101
    return client


@BOTH
@pytest.mark.parametrize("early", [False, True], ids=["", "with the handshake"])
@pytest.mark.parametrize("name", SOUND)
async def test_valid_frames_are_answered(name: str, early: bool, engine: str):
    sent, wanted = SOUND[name]
    app = SocketApp()
    async with (
        open_sockets(app, engine=engine) as served,
        await opened(served, behind=sent if early else b"") as client,
        trio.open_nursery() as nursery,
    ):
        if not early:
            nursery.start_soon(client.send, sent)
        got: list[str | bytes] = []
        while len(got) < len(wanted):
            received = await next_frame(client)
            if received.opcode == PONG:
                assert received.payload == b"p"
            else:
                got.append(received.payload.decode() if received.opcode == TEXT else received.payload)
        assert app.received == wanted
        assert got == wanted


@BOTH
@pytest.mark.parametrize("early", [False, True], ids=["", "with the handshake"])
@pytest.mark.parametrize("name", WRONG)
async def test_invalid_and_close_frames_end_the_websocket_with_their_code(
    name: str, early: bool, engine: str, caplog: pytest.LogCaptureFixture
):
    sent, code = WRONG[name]
    app = SocketApp()
    async with (
        open_sockets(app, engine=engine) as served,
        await opened(served, behind=sent if early else b"") as client,
    ):
        if not early:
            await client.send(sent)
        assert await end_of(client) == code
        await app.left.wait()
        assert app.received == [code]
    assert caplog.records == []


@BOTH
async def test_frames_may_arrive_byte_by_byte(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served, await opened(served) as client:
        for byte in frame(PING, b"?") + frame(TEXT, "é".encode(), last=False) + frame(CONTINUATION, b"x" * 200):
            await client.send(bytes([byte]))
            await trio.lowlevel.checkpoint()
        assert await next_frame(client) == Frame(PONG, b"?")
        assert await next_frame(client) == Frame(TEXT, "é".encode() + b"x" * 200)


@BOTH
async def test_scope_describes_the_request(engine: str):
    sent = handshake(b"/%73cope?a=%20b", b"X: y", b"Sec-WebSocket-Protocol: one")
    async with open_sockets(SocketApp(), engine=engine) as served, await served.connect() as client:
        assert (await client.ask(sent)).status == 101
        assert json.loads((await next_frame(client)).payload) == {
            "type": "websocket",
            "path": "/scope",
            "raw_path": "/%73cope",
            "query": "a=%20b",
            "scheme": "ws",
            "http_version": "1.1",
            "root_path": "",
            "subprotocols": ["one"],
            "extensions": ["websocket.http.response"],
            "x": "y",
        }
        assert await end_of(client) == 1000


@BOTH
async def test_app_may_reject_with_its_own_response(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served, await served.connect() as client:
        answer = await client.ask(handshake(b"/refuse"))
        assert (answer.status, answer.header(b"retry-after"), answer.body) == (429, b"7", b"not now")
        await app.left.wait()
        assert app.received == ["websocket.disconnect"]
    async with open_sockets(app, engine=engine) as served:
        for path, status, body in ((b"/refuse-in-pieces", 401, b"who are you"), (b"/shut", 403, b"edge 403: ")):
            async with await served.connect() as client:
                answer = await client.ask(handshake(path))
                assert answer.status == status
                assert answer.body.startswith(body)


async def test_rejected_connection_serves_the_next_request():
    async with open_sockets(SocketApp()) as served, await served.connect() as client:
        for path, status in ((b"/refuse", 429), (b"/refuse-in-pieces", 401), (b"/shut", 403), (b"/talk", 101)):
            assert (await client.ask(handshake(path))).status == status


@BOTH
async def test_apps_close_reaches_client_and_app(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served, await opened(served, b"/bye") as client:
        assert await next_frame(client) == Frame(CLOSE, (4_000).to_bytes(2) + b"enough")
        await client.send(closing(4_000))
        assert await client.closed()
        await app.left.wait()
        if engine == "native":
            assert app.received == [4_000]


@BOTH
@pytest.mark.parametrize(("path", "code"), [(b"/boom", 1011), (b"/leave", 1000), (b"/again", 4_000)])
async def test_app_that_returns_or_fails_ends_the_websocket(
    path: bytes, code: int, engine: str, caplog: pytest.LogCaptureFixture
):
    async with open_sockets(SocketApp(), engine=engine) as served, await opened(served, path) as client:
        assert await end_of(client) == code
    assert len(caplog.records) == (path != b"/leave")


@BOTH
async def test_app_receives_1006_for_a_vanished_client(engine: str, caplog: pytest.LogCaptureFixture):
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served:
        async with await opened(served) as client:
            await client.send(frame(TEXT, b"half")[:3])
            await app.opened.wait()
        await app.left.wait()
        assert app.received == [1006]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@BOTH
async def test_data_before_the_accept_is_kept(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served, await served.connect() as client:
        await client.send(handshake(b"/late") + frame(TEXT, b"one") + frame(TEXT, b"two")[:3])
        await trio.sleep(0.05)
        await client.send(frame(TEXT, b"two")[3:])
        app.release.set()
        assert (await client.answer()).status == 101
        assert [(await next_frame(client)).payload for _ in range(2)] == [b"one", b"two"]


async def test_every_ping_of_a_flood_gets_a_pong():
    async with open_sockets(SocketApp()) as served, await opened(served) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, frame(PING, b"x" * 100) * 2_000)
            for _ in range(2_000):
                assert await next_frame(client) == Frame(PONG, b"x" * 100)
        await client.send(closing(1000))
        assert await end_of(client) == 1000


@BOTH
async def test_app_that_interrupts_receiving_loses_no_message(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served, await opened(served, b"/poll") as client:
        for byte in (frame(TEXT, b"one") + frame(PING) + frame(BINARY, b"two")) * 5 + closing(1000):
            await client.send(bytes([byte]))
            await trio.sleep(0.001)
        await app.left.wait()
        assert app.received == ["one", b"two"] * 5 + [1000]


@BOTH
async def test_concurrent_messages_and_pongs_are_never_interleaved(engine: str):
    app = SocketApp()
    async with open_sockets(app, engine=engine) as served, await opened(served, b"/both") as client:
        await client.send(frame(PING, b"1"))
        got = [await next_frame(client) for _ in range(5)]
        await client.send(frame(PING, b"2") + frame(TEXT, b"heard"))
        got += [await next_frame(client) for _ in range(6)]
        texts = [received.payload for received in got if received.opcode == TEXT]
        assert sorted(texts) == [text * len(BIG) for text in (b"a", b"b", b"c") for _ in range(3)]
        assert [received.payload for received in got if received.opcode == PONG] == [b"1", b"2"]
        await client.send(closing(1000))
        assert await end_of(client) == 1000
        assert app.received == ["heard", 1000]
