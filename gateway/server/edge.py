"""The state that all connections of one server share."""

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
    """A connection as its server looks at it."""

    @property
    def wire(self) -> Wire:
        """Its socket."""

    @property
    def idle(self) -> bool:
        """Whether it waits between two requests."""

    def close_if_idle(self) -> None:
        """Close it unless a request is under way or has just arrived."""


class Shedding(Protocol):
    """Refuses requests before the app is called, while there are more than it can serve."""

    active: bool
    """Whether to ask; it is read for every request."""

    def refuses(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether this request is refused; to be asked once for each."""
        ...

    def answer(self, date: bytes) -> bytes:
        """The whole answer to a plain GET whose connection goes on; `date` is the line of its header."""
        ...

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer any other request, as an app does."""
        ...


def _date_line() -> bytes:
    return f"date: {formatdate(usegmt=True)}".encode()


def _clock() -> Callable[[], float]:
    return trio.lowlevel.current_clock().current_time


@dataclass(slots=True, eq=False)
class Edge:
    """The app and its limits; changed only by the server that made it and by connections that come and go."""

    app: ASGIApp
    state: State | None
    edge_answer: EdgeAnswer
    bounds: Bounds
    websocket_paths: frozenset[str] = frozenset()
    """Where the app takes WebSockets; anywhere else an upgrade is ignored, as RFC 9110, 7.8 allows."""
    shedding: Shedding | None = None
    known_headers: KnownHeaders = field(default_factory=KnownHeaders)
    """Header blocks of requests that came before."""
    shapes: Shapes = field(default_factory=dict)
    """Templates of the heads of answers that came before."""
    hangups: Hangups = field(default_factory=Hangups)
    refused: RefusedClients = field(default_factory=RefusedClients)
    unsent: Unsent = field(default_factory=Unsent)
    connections: set[Client] = field(default_factory=set)
    room: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)
    """Where accepting waits while too many connections are open; one that closes wakes one waiter."""
    shutdown: trio.Event = field(default_factory=trio.Event)
    """Set for a graceful stop: from now on answers close their connections."""
    closing: bool = False
    """Set a moment later, when nobody waits to be taken: those between two requests close too."""
    full: bool = False
    """Set while connections wait to be taken: those that are open close behind their answers."""
    date: bytes = field(default_factory=_date_line)
    now: Callable[[], float] = field(default_factory=_clock)
    """Trio's clock without the calls around it: it is read for every request."""

    @property
    def stopping(self) -> bool:
        """Whether a graceful stop has begun. Not a flag of ours: who hears of the stop may answer before we do."""
        return self.shutdown.is_set()

    def close_idle(self) -> None:
        """Close the connections between requests; the clients of the others have less time from now on."""
        self.closing = True
        self.bounds = self.bounds.at_a_stop()
        for connection in self.connections:
            connection.close_if_idle()
            connection.wire.hurry(self.bounds)

    async def refuse(self) -> None:
        """Until cancelled: refuse the requests of those who were refused before, while the node sheds."""
        if self.shedding is not None:
            await self.refused.run(partial(self._judge, self.shedding), idle_s=self.bounds.idle_s, now=self.now)

    def _judge(self, shedding: Shedding, data: bytes) -> bytes | bool:
        """The refusal of a request that was read for nobody yet, or whether it is to be served; see `Judge`."""
        if not shedding.active or self.stopping or self.full:
            return False
        request = repeated_request(data, self.known_headers)
        if request is None or b"%" in request[0]:
            return False
        path, headers = request[0].partition(b"?")[0].decode("ascii"), request[1]
        return shedding.answer(self.date) if shedding.refuses(path, headers) else True

    async def wait_room(self) -> None:
        """Wait until a connection that asks to be taken may be taken.

        The answer to too many connections is no 503 but patience: those between two requests close, the longest idle
        ones first, answers close theirs, and until one has left the new ones wait in the kernel's backlog. There they
        cost neither a descriptor nor CPU, they are served in the order they came, and a client's own timeout bounds
        its wait. A 503 would need a descriptor, a write and a close for each client that comes back at once to ask
        again, just when there is least of all three. Who balances load sees the shortage in the time to connect.
        """
        while len(self.connections) >= self.bounds.connections:
            self.full = True
            self._make_room()
            await self.room.park()
        self.full = False

    def _make_room(self) -> None:
        """Close the longest idle connections, several at a time: looking for them costs a look at all."""
        idle = (connection for connection in self.connections if connection.idle)
        several = 1 + self.bounds.connections // 100
        for connection in nsmallest(several, idle, key=attrgetter("wire.read_by")):
            connection.close_if_idle()

    async def watch(self) -> None:
        """Until cancelled: keep the Date line fresh and end the waits whose time is up.

        One task for all connections, coarse by a second or a quarter of the shortest bound, instead of a cancel scope
        for every wait.
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
