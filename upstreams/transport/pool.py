"""Places and resting connections, by origin. Nothing here does I/O but close.

Invariants, at every checkpoint: an origin's `busy` counts the places held; its connections, busy and idle, are at most
`max_connections`; someone waits only while all places are held; an origin without connections and waiters is forgotten.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass

import trio
from trio.lowlevel import ParkingLot

from upstreams.transport.connection import Connection
from upstreams.transport.http import Origin

_IDLE_ORIGINS_WORTH = 4
"""All idle connections together are at most so many times `max_connections`."""


@dataclass(frozen=True, slots=True)
class OriginStatistics:
    """The connections of one origin, and the totals since it was last without any."""

    idle: int
    busy: int
    waiting: int
    opened: int
    reused: int


class Lane:
    """One origin's places and idle connections; the most recently used one is at the right. Changed by `Pool` only."""

    __slots__ = ("busy", "idle", "opened", "origin", "reused", "waiters")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.idle: deque[Connection] = deque()
        self.waiters = ParkingLot()
        self.busy = self.opened = self.reused = 0


class Pool:
    """Hands out places and keeps connections for the next call; the longest idle ones are dropped for newer ones."""

    def __init__(self, *, max_connections: int, idle_s: float) -> None:
        assert max_connections > 0
        self._max_connections = max_connections
        self._idle_s = idle_s
        self._lanes: dict[Origin, Lane] = {}
        self._resting: OrderedDict[Connection, Lane] = OrderedDict()  # all idle connections, the longest idle one first
        self.closed = False

    def has_room(self, origin: Origin) -> bool:
        """Whether `enter` would take a place without waiting."""
        lane = self._lanes.get(origin)
        return lane is None or lane.busy < self._max_connections

    async def enter(self, origin: Origin) -> Lane:
        """Take a place, first come first served. Who entered must `leave`. Not a checkpoint while places are free."""
        lane = self._lanes.get(origin)
        if lane is None:
            lane = self._lanes[origin] = Lane(origin)
        if lane.busy < self._max_connections:
            lane.busy += 1
        else:
            await lane.waiters.park()  # `leave` hands its place on: who is woken holds it already
        return lane

    def leave(self, lane: Lane) -> None:
        """Give the place to who waited longest, or free it."""
        if lane.waiters:
            lane.waiters.unpark()
        else:
            lane.busy -= 1
            self._forget_if_empty(lane)

    def take(self, lane: Lane) -> Connection | None:
        """The most recently used idle connection that still lives, to who holds a place."""
        oldest_at = trio.current_time() - self._idle_s
        while lane.idle:
            connection = lane.idle.pop()
            del self._resting[connection]
            if connection.rested_at >= oldest_at and connection.is_quiet():
                lane.reused += 1
                return connection
            connection.close()
        return None

    def rest(self, lane: Lane, connection: Connection) -> None:
        """Keep a connection whose exchange is over for the next one, or close it when it cannot carry another."""
        if self.closed or not connection.reusable:
            connection.close()
            return
        connection.rested_at = trio.current_time()
        lane.idle.append(connection)
        self._resting[connection] = lane
        self._drop_oldest(connection.rested_at - self._idle_s)

    def close(self) -> None:
        """Close what is idle now, and from now on each connection after its exchange."""
        self.closed = True
        while self._resting:
            self._drop_first()

    def statistics(self) -> dict[Origin, OriginStatistics]:
        """The figures of every origin that has connections or waiters."""
        return {
            lane.origin: OriginStatistics(len(lane.idle), lane.busy, len(lane.waiters), lane.opened, lane.reused)
            for lane in self._lanes.values()
        }

    def _drop_oldest(self, oldest_at: float) -> None:
        while len(self._resting) > _IDLE_ORIGINS_WORTH * self._max_connections:
            self._drop_first()
        while next(iter(self._resting)).rested_at < oldest_at:  # ends at the latest at the one that was just added
            self._drop_first()

    def _drop_first(self) -> None:
        connection, lane = self._resting.popitem(last=False)
        dropped = lane.idle.popleft()
        assert dropped is connection
        connection.close()
        self._forget_if_empty(lane)

    def _forget_if_empty(self, lane: Lane) -> None:
        if not (lane.busy or lane.idle):
            del self._lanes[lane.origin]
