"""One attack on a WebSocket of the native server, and the invariants that it must not break."""

import socket
from dataclasses import dataclass, field

import trio
from trio.testing import MockClock

from gateway.server.asgi import Receive, Scope, Send
from gateway.server.bounds import Bounds
from gateway.server.connection import Connection
from gateway.server.edge import Edge
from gateway.server.http1.request_head import Peer
from gateway.server.wire import Wire
from tests.fuzz.edge import Attack, no_errors_logged, receive_all, refusal, send_packets
from tests.fuzz.frames import PIECE_BYTES
from tests.fuzz.frames_reference import CLOSE, LOST, PING, read_client, read_server
from tests.fuzz.mutations import pieces
from tests.gateway.server.frames import PONG, TEXT, handshake
from tests.gateway.server.socket_apps import say

BOUNDS = Bounds(message_bytes=PIECE_BYTES)
HANG_S = 3 * BOUNDS.ping_s + BOUNDS.write_s + BOUNDS.linger_s + 10
"""The maximum time that a WebSocket may stay open after its client's last byte."""


@dataclass
class Echo:
    """Sends messages back, and records them and the close code."""

    heard: list[str | bytes] = field(default_factory=list)
    end: int | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "websocket"
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            said = message["text"] if message["bytes"] is None else message["bytes"]
            assert said is not None
            self.heard.append(said)
            await send(say(said))
        assert message["type"] == "websocket.disconnect"
        self.end = message["code"]


def check_socket(attack: Attack) -> Echo:
    """Run the attack, and compare the server's messages with the output of a second reader. Return the app."""
    app = Echo()
    with no_errors_logged():
        got = trio.run(_run, attack, app, clock=MockClock(autojump_threshold=0))
    told = read_client(attack.data, BOUNDS.message_bytes)
    assert app.heard == told.heard[: len(app.heard)], "the app received a message that the client did not send"
    packets = pieces(attack.data, list(attack.cuts))
    if attack.reads and attack.pause_s * len(packets) < BOUNDS.ping_s:
        assert app.heard == told.heard
        assert app.end in told.ends
        _check_answers(app, told.pings, got.partition(b"\r\n\r\n")[2])
    return app


def _check_answers(app: Echo, pings: list[bytes], got: bytes) -> None:
    """Check that every message came back, every ping was answered, and a close code was sent if there was one."""
    frames = read_server(got)
    assert [data.decode() if kind == TEXT else data for kind, data in frames if kind < CLOSE] == app.heard
    assert [data for kind, data in frames if kind == PONG] == pings
    closes = [int.from_bytes(data[:2]) if data else 1005 for kind, data in frames if kind == CLOSE]
    assert closes == ([] if app.end == LOST else [app.end])
    assert all(not data for kind, data in frames if kind == PING)


async def _run(attack: Attack, app: Echo) -> bytes:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    client = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
    edge = Edge(app, None, refusal, BOUNDS, frozenset({"/talk"}))
    connection = Connection(Wire(ours, BOUNDS, edge.unsent), edge, Peer(None, None, None))
    edge.connections.add(connection)
    first, *others = pieces(attack.data, list(attack.cuts)) or [b""]
    packets = [handshake() + first, *others]
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
