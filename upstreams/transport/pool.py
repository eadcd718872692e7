"""Places and resting connections, by origin. Nothing here does I/O but close.

Invariants, at every checkpoint: an origin's `busy` counts the places held; its connections, busy and idle, are at most
`max_connections`; someone waits only while all places are held; an origin without connections and waiters is forgotten.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from trio.lowlevel import ParkingLot

from upstreams.transport.connection import UpstreamConnection
from upstreams.transport.origin import Origin

_IDLE_ORIGINS_WORTH = 4
"""All idle connections together are at most so many times `max_connections`, unless they are told their own bound."""


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
        self.idle: deque[UpstreamConnection] = deque()
        self.waiters = ParkingLot()
        self.busy = self.opened = self.reused = 0


class Pool:
    """Hands out places and keeps connections for the next call; the longest idle ones are dropped for newer ones."""

    def __init__(
        self, *, max_connections: int, idle_s: float, now: Callable[[], float], max_idle: int | None = None
    ) -> None:
        assert max_connections > 0
        self._max_connections = max_connections
        self._max_idle = _IDLE_ORIGINS_WORTH * max_connections if max_idle is None else max_idle
        self._idle_s = idle_s
        self._now = now
        self._lanes: dict[Origin, Lane] = {}
        self._idle = 0  # connections in all lanes
        self._none_is_old_until = -math.inf
        self.closed = False

    def enter_nowait(self, origin: Origin) -> Lane | None:
        """Take a place; None while all are held. Who entered must `leave`."""
        lane = self._lanes.get(origin)
        if lane is None:
            lane = self._lanes[origin] = Lane(origin)
        if lane.busy >= self._max_connections:
            return None
        lane.busy += 1
        return lane

    async def enter(self, origin: Origin) -> Lane:
        """Wait for a place where `enter_nowait` found none, first come first served. Who entered must `leave`."""
        lane = self._lanes[origin]
        await lane.waiters.park()  # `leave` hands its place on: who is woken holds it already
        return lane

    def leave(self, lane: Lane) -> None:
        """Give the place to who waited longest, or free it."""
        if lane.busy == self._max_connections and lane.waiters:  # the first is the cheaper question
            lane.waiters.unpark()
        else:
            lane.busy -= 1
            if not lane.idle:
                self._forget_if_empty(lane)

    def take(self, lane: Lane) -> UpstreamConnection | None:
        """The most recently used idle connection that still lives, to who holds a place."""
        oldest_at = self._now() - self._idle_s
        while lane.idle:
            connection = lane.idle.pop()
            self._idle -= 1
            if connection.rested_at >= oldest_at and connection.is_quiet():
                lane.reused += 1
                return connection
            connection.close()
        return None

    def rest(self, lane: Lane, connection: UpstreamConnection) -> None:
        """Keep a connection whose exchange is over for the next one, or close it when it cannot carry another."""
        if self.closed or not connection.reusable:
            connection.close()
            return
        connection.rested_at = now = self._now()
        lane.idle.append(connection)
        self._idle += 1
        if now > self._none_is_old_until or self._idle > self._max_idle:
            self._drop_oldest(now)

    def close(self) -> None:
        """Close what is idle now, and from now on each connection after its exchange."""
        self.closed = True
        while self._idle:
            self._drop_from(self._longest_idle())

    def statistics(self) -> dict[Origin, OriginStatistics]:
        """The figures of every origin that has connections or waiters."""
        return {
            lane.origin: OriginStatistics(len(lane.idle), lane.busy, len(lane.waiters), lane.opened, lane.reused)
            for lane in self._lanes.values()
        }

    def _drop_oldest(self, now: float) -> None:
        """Drop what is too many or too old, and look again when the oldest that is left will be."""
        while self._idle > self._max_idle:
            self._drop_from(self._longest_idle())
        while (lane := self._longest_idle()).idle[0].rested_at < now - self._idle_s:  # ends at the one just added
            self._drop_from(lane)
        self._none_is_old_until = lane.idle[0].rested_at + self._idle_s

    def _longest_idle(self) -> Lane:
        """The lane of the connection that is idle for longest, among those that have any."""
        return min((lane for lane in self._lanes.values() if lane.idle), key=lambda lane: lane.idle[0].rested_at)

    def _drop_from(self, lane: Lane) -> None:
        lane.idle.popleft().close()
        self._idle -= 1
        self._forget_if_empty(lane)

    def _forget_if_empty(self, lane: Lane) -> None:
        if not (lane.busy or lane.idle):
            del self._lanes[lane.origin]
