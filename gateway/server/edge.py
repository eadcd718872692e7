"""What all connections of one server share."""

from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING

import trio

from gateway.server.asgi import ASGIApp, State
from gateway.server.bounds import Bounds
from gateway.server.errors import EdgeAnswer

if TYPE_CHECKING:
    from gateway.server.connection import Connection


def _date_line() -> bytes:
    return f"date: {formatdate(usegmt=True)}\r\n".encode()


@dataclass(slots=True, eq=False)
class Edge:
    """The app and its limits; changed only by the server that made it and by connections that come and go."""

    app: ASGIApp
    state: State | None
    edge_answer: EdgeAnswer
    bounds: Bounds
    connections: "set[Connection]" = field(default_factory=set)
    room: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)
    """Where accepting waits while too many connections are open."""
    closing: bool = False
    """Set at the start of a graceful stop: no connection is kept after its current answer."""
    date: bytes = field(default_factory=_date_line)

    def close_idle(self) -> None:
        """Begin the graceful stop: answers now close their connections, those between requests close at once."""
        self.closing = True
        for connection in self.connections:
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
            now = trio.current_time()
            for connection in self.connections:
                wire = connection.wire
                if wire.read_by < now or wire.write_by < now:
                    wire.expire()
