"""Load shedding: how many requests a node works on at once when more come than it can do, and whose.

Requests in work are the queue of a node, since it begins with each as soon as it arrives. So their number is limited,
and only while the node falls behind: its pressure is above 1 for a while (CoDel's rule, so that a burst is no reason),
and more than `FEW` requests are in work. Then the limit begins at `FEW`, which keeps a loop busy, grows while pressure
is low and requests are refused for want of room, and shrinks down to that while it is high. It follows the pressure and
not the requests' latency: latency has upstreams and disks in it, and what it is without a queue is not known (limits
that guess it from the lowest latency seen drift with their guess). No clock is read and nothing is waited for here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from limits.overload.fair_shares import FairShares

FEW: Final = 64
"""So many requests in work are never too many: at 250 us of CPU each they take 16 ms. With fewer the loop, the writer
and the upstreams would wait for each other, and a flood whose refusals alone keep the node late would starve all."""
ONSET_S: Final = 0.05
"""For so long the node must have been behind before the first request is refused."""
MANY: Final = 4 * FEW
"""With more in work and a pressure above `STEEP` that is not waited for: the queue grows by the pressure meanwhile."""
FADING: Final = 0.5
"""A look at a lucky moment, just as the loop begins with what is ready, does not make up for the one before."""
QUIET_S: Final = 0.5
"""Without a refusal for so long, shedding ends."""
GROWTH: Final = 1.1
EASE: Final = 0.9
BRAKE: Final = 0.7
ROOMY: Final = 0.5
"""Below this pressure the limit grows."""
STEEP: Final = 2.0
"""Above this pressure it shrinks by `BRAKE` instead of `EASE`."""
LIMIT_MAX: Final = 100_000.0


class SheddingStatistics(NamedTuple):
    """A moment's record; `limit` is 0 while nothing is shed."""

    active: bool
    limit: int
    refused: dict[str, int]
    """Requests since the start: of keys that had their part or more, and of strangers."""

    @property
    def refused_total(self) -> int:
        """All of them."""
        return sum(self.refused.values())


class LoadShedder:
    """Decides for one node. `observe` is called every few milliseconds, `admits` for every request while `active`."""

    def __init__(self, is_known: Callable[[bytes], bool]) -> None:
        """`is_known` says whether a key was found good, without waiting."""
        self.active = False
        self._shares = FairShares(is_known)
        self._behind_since: float | None = None
        self._late = 0.0
        self._limit = float(FEW)
        self._room = 0
        self._refused_at = 0.0
        self._refused_seen = 0
        self._refused_total = self._refused_strangers = 0

    @property
    def is_wary(self) -> bool:
        """Whether the next look should come soon."""
        return self.active or self._behind_since is not None

    def observe(self, at: float, pressure: float, busy: int) -> None:
        """Take note of the pressure, 1 being what is aimed at, and of the requests in work at an instant."""
        if self.active:
            self._adapt(at, pressure, busy)
            return
        self._late = max(pressure, self._late * FADING)
        if self._late <= 1.0 or busy <= FEW:
            self._behind_since = None
            return
        if self._behind_since is None:
            self._behind_since = at
        if at - self._behind_since >= ONSET_S or (pressure > STEEP and busy > MANY):
            self._begin(at, busy)

    def admits(self, key: bytes | None) -> bool:
        """Whether to take on a request with this key; counts it if so.

        Beyond the limit there is as much room again, for those alone who have had less than their equal part.
        """
        share = self._shares.of(key)
        if self._room <= 0 and (self._room <= -int(self._limit) or not self._shares.is_below(share)):
            self._refused_total += 1
            self._refused_strangers += share.is_strange
            return False
        self._room -= 1
        self._shares.admit(share)
        return True

    def statistics(self) -> SheddingStatistics:
        """The record of this moment."""
        limit = int(self._limit) if self.active else 0
        known = self._refused_total - self._refused_strangers
        return SheddingStatistics(self.active, limit, {"known": known, "strange": self._refused_strangers})

    def _begin(self, at: float, busy: int) -> None:
        self.active = True
        self._behind_since = None
        self._late = 0.0
        self._limit = float(FEW)
        self._room = FEW - busy
        self._refused_at = at
        self._refused_seen = self._refused_total
        self._shares.clear(at)

    def _adapt(self, at: float, pressure: float, busy: int) -> None:
        self._shares.turn(at)
        refused = self._refused_total - self._refused_seen
        if pressure > 1.0:
            self._limit = max(float(FEW), self._limit * (BRAKE if pressure > STEEP else EASE))
        elif pressure < ROOMY and refused:
            self._limit = min(LIMIT_MAX, self._limit * GROWTH)
        self._room = int(self._limit) - busy
        if refused:
            self._refused_at, self._refused_seen = at, self._refused_total
        elif at - self._refused_at >= QUIET_S and pressure <= 1.0:
            self.active = False
            self._shares.clear(at)
