"""Slots and idle connections by origin. The only I/O in this module is closing connections.

Invariants at every checkpoint: `busy` of an origin is the number of its slots in use; the origin has at most
`max_connections` connections, busy and idle; tasks wait only while all slots are in use; origins without connections
and waiters are removed.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from trio.lowlevel import ParkingLot

from upstreams.transport.connection import UpstreamConnection
from upstreams.transport.origin import Origin

_IDLE_ORIGINS_WORTH = 4
"""The default limit of idle connections in the whole pool, as a multiple of `max_connections`."""


@dataclass(frozen=True, slots=True)
class OriginStatistics:
    """The connections of one origin, and totals since the origin was last added."""

    idle: int
    busy: int
    waiting: int
    opened: int
    reused: int


class Lane:
    """The slots and idle connections of one origin, with the most recently used one on the right.

    Only `Pool` modifies it.
    """

    __slots__ = ("busy", "idle", "opened", "origin", "reused", "waiters")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.idle: deque[UpstreamConnection] = deque()
        self.waiters = ParkingLot()
        self.busy = self.opened = self.reused = 0


class Pool:
    """Assigns slots and keeps connections for the next call.

    If too many connections are idle, those that have been idle longest are closed.
    """

    def __init__(
        self, *, max_connections: int, idle_s: float, now: Callable[[], float], max_idle: int | None = None
    ) -> None:
        assert max_connections > 0
        self._max_connections = max_connections
        self._max_idle = _IDLE_ORIGINS_WORTH * max_connections if max_idle is None else max_idle
        self._idle_s = idle_s
        self._now = now
        self._lanes: dict[Origin, Lane] = {}
        self._idle = 0  # the number of idle connections in all lanes
        self._next_expiry_at = -math.inf
        self.closed = False

    def enter_nowait(self, origin: Origin) -> Lane | None:
        """Take a slot and return its lane, or None if all slots are in use. The caller must call `leave`."""
        lane = self._lanes.get(origin)
        if lane is None:
            lane = self._lanes[origin] = Lane(origin)
        if lane.busy >= self._max_connections:
            return None
        lane.busy += 1
        return lane

    async def enter(self, origin: Origin) -> Lane:
        """Wait for a slot, in order of arrival, after `enter_nowait` returned None. The caller must call `leave`."""
        lane = self._lanes[origin]
        await lane.waiters.park()  # `leave` passes its slot on, so the woken task has the slot already
        return lane

    def leave(self, lane: Lane) -> None:
        """Pass the slot to the longest waiting task, or free it."""
        if lane.busy == self._max_connections and lane.waiters:  # this condition is checked first because it is cheaper
            lane.waiters.unpark()
        else:
            lane.busy -= 1
            if not lane.idle:
                self._forget_if_empty(lane)

    def take(self, lane: Lane) -> UpstreamConnection | None:
        """Return the most recently used idle connection that is still open. The caller must have a slot."""
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
        """Keep a connection for the next exchange, or close it if it cannot be reused."""
        if self.closed or not connection.reusable:
            connection.close()
            return
        connection.rested_at = now = self._now()
        lane.idle.append(connection)
        self._idle += 1
        if now > self._next_expiry_at or self._idle > self._max_idle:
            self._drop_oldest(now)

    def close(self) -> None:
        """Close all idle connections. From now on, connections are closed after each exchange."""
        self.closed = True
        while self._idle:
            self._drop_from(self._longest_idle())

    def statistics(self) -> dict[Origin, OriginStatistics]:
        """Return the statistics of every origin with connections or waiters."""
        return {
            lane.origin: OriginStatistics(len(lane.idle), lane.busy, len(lane.waiters), lane.opened, lane.reused)
            for lane in self._lanes.values()
        }

    def _drop_oldest(self, now: float) -> None:
        """Drop excess and expired connections, and set the time at which the oldest remaining one expires."""
        while self._idle > self._max_idle:
            self._drop_from(self._longest_idle())
        # The loop ends, because the connection that was just added has not expired.
        while (lane := self._longest_idle()).idle[0].rested_at < now - self._idle_s:
            self._drop_from(lane)
        self._next_expiry_at = lane.idle[0].rested_at + self._idle_s

    def _longest_idle(self) -> Lane:
        """Return the lane with the longest idle connection."""
        return min((lane for lane in self._lanes.values() if lane.idle), key=lambda lane: lane.idle[0].rested_at)

    def _drop_from(self, lane: Lane) -> None:
        lane.idle.popleft().close()
        self._idle -= 1
        self._forget_if_empty(lane)

    def _forget_if_empty(self, lane: Lane) -> None:
        if not (lane.busy or lane.idle):
            del self._lanes[lane.origin]
