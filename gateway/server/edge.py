"""The state that all connections of a server share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from heapq import nsmallest
from operator import attrgetter
from typing import Protocol

import trio

from gateway.server.asgi import ASGIApp, Receive, Scope, Send, State
from gateway.server.bounds import Bounds
from gateway.server.errors import EdgeAnswer
from gateway.server.hangups import Hangups
from gateway.server.http1.known_headers import KnownHeaders
from gateway.server.http1.request_head import repeated_request
from gateway.server.http1.response_head import Shapes
from gateway.server.refused_clients import RefusedClients
from gateway.server.unsent import Unsent
from gateway.server.wire import Wire


class Client(Protocol):
    """A connection, as far as its server needs to know it."""

    @property
    def wire(self) -> Wire:
        """Return the connection's socket."""

    @property
    def idle(self) -> bool:
        """Return whether the connection waits between two requests."""

    def close_if_idle(self) -> None:
        """Close the connection unless a request is in progress or has just arrived."""


class Shedding(Protocol):
    """Refuses some requests before the app is called, while more arrive than the app can serve."""

    active: bool
    """Whether `refuses` must be called. This is read for every request, so reading it must be cheap."""

    def refuses(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether to refuse this request. Call this only once per request."""
        ...

    def answer(self, date: bytes) -> bytes:
        """Return the complete response to a plain GET whose connection stays open. `date` is the Date header line."""
        ...

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a refused request that is not a plain GET, as an ASGI app."""
        ...


def _date_line() -> bytes:
    return f"date: {formatdate(usegmt=True)}".encode()


def _clock() -> Callable[[], float]:
    return trio.lowlevel.current_clock().current_time


@dataclass(slots=True, eq=False)
class Edge:
    """The app, its limits and its open connections.

    Only the server, and connections that open or close, change them.
    """

    app: ASGIApp
    state: State | None
    edge_answer: EdgeAnswer
    bounds: Bounds
    websocket_paths: frozenset[str] = frozenset()
    """The paths on which the app accepts WebSockets. On other paths an upgrade is ignored, as RFC 9110, 7.8 allows."""
    shedding: Shedding | None = None
    known_headers: KnownHeaders = field(default_factory=KnownHeaders)
    """Header blocks of earlier requests."""
    shapes: Shapes = field(default_factory=dict)
    """Templates for the heads of responses, made from earlier responses."""
    hangups: Hangups = field(default_factory=Hangups)
    refused: RefusedClients = field(default_factory=RefusedClients)
    unsent: Unsent = field(default_factory=Unsent)
    connections: set[Client] = field(default_factory=set)
    room: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)
    """The accept loops wait here while too many connections are open. Each closed connection wakes one loop."""
    shutdown: trio.Event = field(default_factory=trio.Event)
    """Set when a graceful stop begins. After that, every connection closes with its current response."""
    closing: bool = False
    """Whether idle connections close too.

    Set shortly after `shutdown`, when no more connections wait to be accepted.
    """
    full: bool = False
    """Whether open connections close after their response, because new connections wait to be accepted."""
    date: bytes = field(default_factory=_date_line)
    now: Callable[[], float] = field(default_factory=_clock)
    """The method of Trio's clock, without Trio's wrappers, because it is called for every request."""

    @property
    def stopping(self) -> bool:
        """Return whether a graceful stop has begun.

        This reads the event itself, because a separate flag would be set after the app has reacted to the event.
        """
        return self.shutdown.is_set()

    def close_idle(self) -> None:
        """Close all idle connections, and apply shorter limits to the others."""
        self.closing = True
        self.bounds = self.bounds.at_a_stop()
        for connection in self.connections:
            connection.close_if_idle()
            connection.wire.hurry(self.bounds)

    async def refuse(self) -> None:
        """Until cancelled, handle further requests from clients that were refused because of overload."""
        if self.shedding is not None:
            await self.refused.run(partial(self._judge, self.shedding), idle_s=self.bounds.idle_s, now=self.now)

    def _judge(self, shedding: Shedding, data: bytes) -> bytes | bool:
        """Return the response that refuses a request, or a bool that says whether to serve it.

        See `Judge`.
        """
        if not shedding.active or self.stopping or self.full:
            return False
        request = repeated_request(data, self.known_headers)
        if request is None or b"%" in request[0]:
            return False
        path, headers = request[0].partition(b"?")[0].decode("ascii"), request[1]
        return shedding.answer(self.date) if shedding.refuses(path, headers) else True

    async def wait_room(self) -> None:
        """Wait until a new connection may be accepted.

        If too many connections are open, idle ones are closed, beginning with the longest idle, and active ones close
        after their response. Meanwhile, new connections wait in the kernel's backlog. There they use neither a
        descriptor nor CPU and keep their order of arrival, and a client's own timeout limits its wait. A load balancer
        can see the shortage in the connect time.

        A 503 would be worse. It needs a descriptor, a write and a close for each client, just when all three are
        scarce, and the client would reconnect immediately.
        """
        while len(self.connections) >= self.bounds.connections:
            self.full = True
            self._make_room()
            await self.room.park()
        self.full = False

    def _make_room(self) -> None:
        """Close the longest idle connections. Each call closes several, because finding them requires a scan of all."""
        idle = (connection for connection in self.connections if connection.idle)
        several = 1 + self.bounds.connections // 100
        for connection in nsmallest(several, idle, key=attrgetter("wire.read_by")):
            connection.close_if_idle()

    async def watch(self) -> None:
        """Until cancelled, keep the Date line up to date and end waits that have expired.

        One task checks all connections, at intervals of a quarter of the shortest limit, but at most one second. No
        wait therefore needs a cancel scope.
        """
        tick_s = min(1.0, self.bounds.shortest_s / 4)
        while True:
            await trio.sleep(tick_s)
            self.date = _date_line()
            now = self.now()
            for connection in self.connections:
                wire = connection.wire
                if wire.read_by < now or wire.write_by < now:
                    wire.expire()
