"""Load shedding: how many requests a node works on under overload, and which requests it refuses first.

A node starts each request as soon as it arrives, so the requests in progress are its queue. Their number is limited,
but only while the node falls behind: its pressure has been above 1 for a while (CoDel's rule, so that a burst is not
enough), and more than `FEW` requests are in progress. The limit starts at `FEW`, which keeps the event loop busy. It
grows while the pressure is low and requests are refused because of the limit, and shrinks down to `FEW` while the
pressure is high.

The limit follows the pressure instead of the requests' latency. Latency includes upstreams and disks, and the
latency without a queue is unknown: a limit that estimates it from the lowest latency drifts with its estimate. This
module reads no clock and never waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from limits.overload.fair_shares import FairShares

FEW: Final = 64
"""A number of requests in progress that is never too high: at 250 us of CPU each they take 16 ms.

With fewer, the event loop, the writer and the upstreams would wait for each other, and a flood whose refusals alone
keep the node late would starve all clients.
"""
ONSET_S: Final = 0.05
"""How many seconds the node must be behind before it refuses the first request."""
MANY: Final = 4 * FEW
"""Above this number of requests and above a pressure of `STEEP`, shedding does not wait for `ONSET_S`.

Otherwise the queue would grow in proportion to the pressure in the meantime.
"""
FADING: Final = 0.5
"""The weight of the previous observations, so that a single low one does not hide that the node is late."""
QUIET_S: Final = 0.5
"""Shedding ends after this many seconds without a refusal."""
GROWTH: Final = 1.1
EASE: Final = 0.9
BRAKE: Final = 0.7
ROOMY: Final = 0.5
"""The limit grows below this pressure."""
STEEP: Final = 2.0
"""Above this pressure, the limit shrinks by `BRAKE` instead of `EASE`."""
LIMIT_MAX: Final = 100_000.0


class SheddingStatistics(NamedTuple):
    """A snapshot. `limit` is 0 while nothing is shed."""

    active: bool
    limit: int
    refused: dict[str, int]
    """Refused requests since the start, from valid keys (`known`) and from strangers (`strange`)."""

    @property
    def refused_total(self) -> int:
        """All refused requests."""
        return sum(self.refused.values())


class LoadShedder:
    """Sheds load for one node. Call `observe` every few milliseconds, and `admits` for every request while `active`."""

    def __init__(self, is_known: Callable[[bytes], bool]) -> None:
        """`is_known` returns, without waiting, whether a key is known to be valid."""
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
        """Whether `observe` should be called again soon."""
        return self.active or self._behind_since is not None

    def observe(self, at: float, pressure: float, busy: int) -> None:
        """Record the pressure (above 1, the node is late) and the number of requests in progress."""
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
        """Return whether to accept a request with this key, and count it if so.

        Above the limit, the same number again is admitted, but only from keys that have received less than their equal
        part.
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
        """Return a snapshot."""
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
