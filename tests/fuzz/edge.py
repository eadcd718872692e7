"""One attack on the server's connection loop, and the invariants that it must not break."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging.handlers import BufferingHandler

import trio
from trio.testing import MockClock

from gateway.server.asgi import HTTPScope, Receive, Scope, Send
from gateway.server.bounds import Bounds
from gateway.server.connection import Connection
from gateway.server.edge import Edge
from gateway.server.http1.known_headers import KnownHeaders
from gateway.server.http1.request_head import Peer
from gateway.server.wire import Wire
from tests.fuzz.mutations import pieces
from tests.fuzz.reference import Asked, Told, read_answer, read_requests

BIG = b"big" * 200_000
BOUNDS = Bounds(request_line_bytes=2_000, header_bytes=4_000, header_count=20)
HANG_S = BOUNDS.idle_s + BOUNDS.header_s + BOUNDS.body_s + 2 * BOUNDS.write_s + 10
"""The maximum time that a connection may stay open after its client's last byte."""


@dataclass(frozen=True, slots=True)
class Attack:
    """Bytes in packets, `pause_s` apart. The client then half-closes or not, and reads its answers or not."""

    data: bytes
    cuts: tuple[int, ...]
    pause_s: float
    ends: bool
    reads: bool


@dataclass
class FuzzedApp:
    """Records its requests, with the part of the body that it has read. The path selects how it answers."""

    asked: list[Asked] = field(default_factory=list)
    answered: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        at = len(self.asked)
        self.asked.append(_asked(scope, None))
        if scope["raw_path"] not in {b"/ignore", b"/early"}:
            body = await _body(receive)
            if body is None:
                return
            self.asked[at] = _asked(scope, body)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-at", b"%d" % at)]})
        for piece in (b"one", b"two") if scope["raw_path"] in {b"/stream", b"/early"} else ():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": BIG if scope["raw_path"] == b"/big" else b"end"})
        self.answered += 1


def _asked(scope: HTTPScope, body: bytes | None) -> Asked:
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    return Asked(scope["method"].encode(), target, scope["http_version"].encode(), scope["headers"], body)


async def _body(receive: Receive) -> bytes | None:
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message["body"]
        if not message["more_body"]:
            return body


def refusal(status: int, sentence: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return the body of the server's own error answers."""
    return [], sentence.encode()


def check_attack(attack: Attack) -> FuzzedApp:
    """Run the attack twice, the second time with cached header blocks, and check both. Return the first app."""
    known = KnownHeaders()
    app = _check_once(attack, known)
    again = _check_once(attack, known)
    _check_same(*sorted((app.asked, again.asked), key=len), wanted=read_requests(attack.data))
    return app


def _check_same(short: list[Asked], long: list[Asked], *, wanted: list[Asked]) -> None:
    """Check that the app received the same requests both times, apart from the end of the connection.

    After a body that the app left unread, it depends on timing whether the rest of the body has arrived when the
    request is answered, and therefore whether the connection can be kept.
    """
    assert long[: len(short)] == short
    if len(short) < len(long):
        assert short
        assert short[-1].body is None
        assert wanted[len(short) - 1].body, "the connection ended although no body was left unread"


def _check_once(attack: Attack, known: KnownHeaders) -> FuzzedApp:
    app = FuzzedApp()
    with no_errors_logged():
        got = trio.run(_run, attack, app, known, clock=MockClock(autojump_threshold=0))
    wanted = read_requests(attack.data)
    _check_asked(app.asked, wanted)
    if attack.reads:
        _check_answers(app, got)
    return app


@contextmanager
def no_errors_logged() -> Iterator[None]:
    """Check that the server logs no error. It logs and contains faults that should not end a connection."""
    handler = BufferingHandler(1_000)
    handler.setLevel(logging.ERROR)
    logger = logging.getLogger("sluice.server")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert [record.getMessage() for record in handler.buffer] == []


async def _run(attack: Attack, app: FuzzedApp, known: KnownHeaders) -> bytes:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    client = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
    edge = Edge(app, None, refusal, BOUNDS, known_headers=known)
    connection = Connection(Wire(ours, BOUNDS, edge.unsent), edge, Peer(None, None, None))
    edge.connections.add(connection)
    packets = pieces(attack.data, list(attack.cuts))
    got: list[bytes] = []
    with trio.fail_after(HANG_S + attack.pause_s * len(packets)):
        async with trio.open_nursery() as watching, client:
            watching.start_soon(edge.watch)
            async with trio.open_nursery() as talking:
                talking.start_soon(connection.run)
                if attack.reads:
                    talking.start_soon(receive_all, client, got)
                talking.start_soon(send_packets, client, packets, attack)
            watching.cancel_scope.cancel()
    assert not edge.connections
    return b"".join(got)


async def send_packets(client: trio.SocketStream, packets: list[bytes], attack: Attack) -> None:
    """Send the packets of an attack."""
    try:
        for packet in packets:
            await client.send_all(packet)
            await trio.sleep(attack.pause_s)
        if attack.ends:
            await client.send_eof()
    except trio.BrokenResourceError:
        pass  # the server has closed the connection


async def receive_all(client: trio.SocketStream, got: list[bytes]) -> None:
    """Record all received data."""
    try:
        while data := await client.receive_some(65_536):
            got.append(data)
    except trio.BrokenResourceError:
        pass  # the server has left bytes unread


def _check_asked(asked: list[Asked], wanted: list[Asked]) -> None:
    """Check that the second reader reads the same requests as the app, in the same order, and none in between."""
    assert len(asked) <= len(wanted), "the app received more requests than were sent"
    for at, (ours, theirs) in enumerate(zip(asked, wanted, strict=False)):
        target = theirs.target.removeprefix(b"http://a")
        assert (ours.method, ours.target, ours.version) == (theirs.method, target, theirs.version)
        assert _plain(ours) == _plain(theirs)
        assert ours.body is None or ours.body == theirs.body
        if at < len(asked) - 1:
            assert theirs.body is not None, "a request was read after a body without an end"
            assert theirs.keeps, "a request was read after one that closes"


def _plain(asked: Asked) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request. h11 writes the transfer coding in lower case."""
    return [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in asked.headers]


def _check_answers(app: FuzzedApp, got: bytes) -> None:
    """Check that each request has one answer, in order. A refusal comes last and closes; nothing follows a close."""
    at = refused = 0
    while got:
        method = app.asked[at].method if at < len(app.asked) else b"GET"
        told, got = read_answer(got, method)
        assert told is not None, "the sent bytes are not an answer"
        assert told.body is not None, "an answer is truncated"
        refused = _check_answer(told, at)
        at += 1
        assert not (got and told.closes), "bytes follow the last answer"
    assert at - refused == app.answered
    assert at in (len(app.asked), len(app.asked) + refused)


def _check_answer(told: Told, at: int) -> int:
    """Return 1 if the answer is a refusal, otherwise 0."""
    if told.status == 200:
        assert dict(told.headers)[b"x-at"] == b"%d" % at
        return 0
    assert told.status in {400, 408, 414, 417, 431, 501, 505}
    assert told.closes
    return 1
