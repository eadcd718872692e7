"""One attack on the server's connection loop, and what must hold of it."""

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
"""No connection may stay longer than this behind its client's last byte."""


@dataclass(frozen=True, slots=True)
class Attack:
    """Bytes in packets, `pause_s` apart; then the client half-closes or not, and reads its answers or not."""

    data: bytes
    cuts: tuple[int, ...]
    pause_s: float
    ends: bool
    reads: bool


@dataclass
class FuzzedApp:
    """Keeps what it was asked, with the body as far as it read it; the path says how it answers."""

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
    """The server's own answers."""
    return [], sentence.encode()


def check_attack(attack: Attack) -> FuzzedApp:
    """Run it and hold the server to its promises, also when it knows the header blocks; gives what the app saw."""
    known = KnownHeaders()
    app = _check_once(attack, known)
    again = _check_once(attack, known)
    _check_same(*sorted((app.asked, again.asked), key=len), wanted=read_requests(attack.data))
    return app


def _check_same(short: list[Asked], long: list[Asked], *, wanted: list[Asked]) -> None:
    """Both times the app was asked the same, but for the end of the connection behind a body that the app left unread:
    whether its bytes are there when it is answered, and the connection can be kept, is up to chance.
    """
    assert long[: len(short)] == short
    if len(short) < len(long):
        assert short
        assert short[-1].body is None
        assert wanted[len(short) - 1].body, "the connection ends, and no body is left unread"


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
    """The server logs a fault that ends a connection but should not, and it goes no further."""
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
    """Send as the attack says."""
    try:
        for packet in packets:
            await client.send_all(packet)
            await trio.sleep(attack.pause_s)
        if attack.ends:
            await client.send_eof()
    except trio.BrokenResourceError:
        pass  # the server has closed


async def receive_all(client: trio.SocketStream, got: list[bytes]) -> None:
    """Keep all that comes."""
    try:
        while data := await client.receive_some(65_536):
            got.append(data)
    except trio.BrokenResourceError:
        pass  # the server left bytes unread


def _check_asked(asked: list[Asked], wanted: list[Asked]) -> None:
    """The second reader reads all that the app was asked, in the same order, and nothing in between."""
    assert len(asked) <= len(wanted), "the app was asked more than there is"
    for at, (ours, theirs) in enumerate(zip(asked, wanted, strict=False)):
        target = theirs.target.removeprefix(b"http://a")
        assert (ours.method, ours.target, ours.version) == (theirs.method, target, theirs.version)
        assert _plain(ours) == _plain(theirs)
        assert ours.body is None or ours.body == theirs.body
        if at < len(asked) - 1:
            assert theirs.body is not None, "a request was read behind a body that has no end"
            assert theirs.keeps, "a request was read behind one that closes"


def _plain(asked: Asked) -> list[tuple[bytes, bytes]]:
    """Its headers; h11 writes the coding in lower case."""
    return [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in asked.headers]


def _check_answers(app: FuzzedApp, got: bytes) -> None:
    """Each request has one answer, in order; a refusal comes last and closes; nothing comes behind a close."""
    at = refused = 0
    while got:
        method = app.asked[at].method if at < len(app.asked) else b"GET"
        told, got = read_answer(got, method)
        assert told is not None, "what was sent is no answer"
        assert told.body is not None, "an answer is cut"
        refused = _check_answer(told, at)
        at += 1
        assert not (got and told.closes), "bytes follow the last answer"
    assert at - refused == app.answered
    assert at in (len(app.asked), len(app.asked) + refused)


def _check_answer(told: Told, at: int) -> int:
    """Whether it is a refusal."""
    if told.status == 200:
        assert dict(told.headers)[b"x-at"] == b"%d" % at
        return 0
    assert told.status in {400, 408, 414, 417, 431, 501, 505}
    assert told.closes
    return 1
