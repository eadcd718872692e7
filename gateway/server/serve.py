"""The native server: ASGI 3 over HTTP/1.1 and WebSockets on Trio and llhttp.

Each connection has one task, and requests need no further task. The caller binds the listeners, and the server closes
them.
"""

import socket
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import trio

from gateway.server.accepting import accept_one, accept_until
from gateway.server.asgi import ASGIApp
from gateway.server.bounds import Bounds
from gateway.server.connection import Connection
from gateway.server.edge import Edge, Shedding
from gateway.server.errors import EdgeAnswer
from gateway.server.http1.request_head import Peer
from gateway.server.lifespan import open_lifespan
from gateway.server.unsent import Unsent
from gateway.server.wire import Wire
from storage.supervision import Keep, unsupervised

ACCEPTED_AT_ONCE = 128


async def serve_native(
    app: ASGIApp,
    listeners: Sequence[trio.SocketListener],
    *,
    shutdown: trio.Event,
    drain_s: float,
    edge_answer: EdgeAnswer,
    bounds: Bounds = Bounds(),  # noqa: B008 - the default is immutable
    websocket_paths: frozenset[str] = frozenset(),
    unsent: Unsent | None = None,
    shedding: Shedding | None = None,
    keep: Keep = unsupervised,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` until `shutdown` is set and all connections have closed, which takes at most `drain_s`.

    The app receives WebSockets only on `websocket_paths`, and no requests that `shedding` refuses. `unsent` counts the
    data that clients have not read. `keep` runs the server's own loops.

    Raises:
        LifespanFailed: the app reports that it could not start or stop.
    """
    async with open_lifespan(app) as state:
        unsent = unsent or Unsent(bounds)
        edge = Edge(
            app, state, edge_answer, bounds, websocket_paths, shedding=shedding, shutdown=shutdown, unsent=unsent
        )
        # Both are closed after all connections, even if the connections and the watch are cancelled together.
        with closing(edge.hangups), closing(edge.refused):
            async with trio.open_nursery() as watching:
                watching.start_soon(keep, "server_watch", edge.watch)
                watching.start_soon(keep, "server_hangups", edge.hangups.run)
                watching.start_soon(keep, "server_refusals", edge.refuse)
                async with trio.open_nursery() as connections:
                    accept = partial(_accept, edge=edge, connections=connections)
                    task_status.started()
                    await accept_until(shutdown, listeners, accept, unsent_bytes=bounds.unsent_kernel_bytes, keep=keep)
                    edge.close_idle()
                    # A second watch that checks more often, because the limits are shorter now.
                    watching.start_soon(keep, "server_watch", edge.watch)
                    connections.cancel_scope.deadline = trio.current_time() + drain_s
                watching.cancel_scope.cancel()


async def _accept(listener: trio.SocketListener, *, edge: Edge, connections: trio.Nursery) -> None:
    """Accept connections until cancelled, several in each pass of the event loop.

    Trio accepts only one connection per pass. When the loop is busy, its passes are long, and clients would have to
    wait for seconds.
    """
    with _same(listener) as waiting:
        while True:
            if len(edge.connections) >= edge.bounds.connections:
                await trio.lowlevel.wait_readable(listener.socket)
                await edge.wait_room()
            outer = (await accept_one(listener)).socket
            sock = socket.socket(outer.family, outer.type, outer.proto, fileno=outer.detach())
            _take(sock, edge, connections)
            for _ in range(min(ACCEPTED_AT_ONCE, edge.bounds.connections - len(edge.connections))):
                try:
                    sock, _address_of_client = waiting.accept()
                except OSError:  # no connection is waiting, or accepting failed and `accept_one` logs why
                    break
                _take(sock, edge, connections)


def _same(listener: trio.SocketListener) -> socket.socket:
    """Return a standard library socket with a duplicate of the listener's descriptor."""
    inner = listener.socket
    return socket.fromfd(inner.fileno(), inner.family, inner.type, inner.proto)


def _take(sock: socket.socket, edge: Edge, connections: trio.Nursery) -> None:
    """Start serving a connection, unless its client has already disconnected."""
    try:
        peer = Peer(_address(sock.getpeername()), _address(sock.getsockname()), edge.state)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        sock.close()
        return
    sock.setblocking(False)  # noqa: FBT003 - the stdlib's signature
    connection = Connection(Wire(sock, edge.bounds, edge.unsent), edge, peer)
    edge.connections.add(connection)
    connections.start_soon(connection.run)


def _address(name: object) -> tuple[str, int] | None:
    """Return host and port in ASGI's form; None for Unix sockets."""
    match name:
        case (str(host), int(port), *_):
            return host, port
    return None
