"""Fair shares: decides which keys have recently had fewer requests admitted by a busy node than the others.

Each valid key has its own share. All other requests come from strangers, who have a single share in common. Otherwise a
client that sends a new key with each request would always look new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

WINDOW_S: Final = 1.0
KEYS_MAX: Final = 10_000
"""The maximum number of keys with their own share. Further keys are strangers."""


class FairShare:
    """The admitted requests of one key in this window and in the previous one."""

    __slots__ = ("admitted", "before", "is_strange")

    def __init__(self, before: int = 0, *, is_strange: bool = False) -> None:
        self.admitted = 0
        self.before = before
        self.is_strange = is_strange
        """Whether this is the common share of all strangers."""


class FairShares:
    """Request counts over a sliding window. `is_known` returns, without waiting, whether a key is known to be valid."""

    def __init__(self, is_known: Callable[[bytes], bool]) -> None:
        self._is_known = is_known
        self.clear(0.0)

    def clear(self, at: float) -> None:
        """Reset all shares and begin a new window."""
        self._began_at = at
        self._weight = 1.0
        self._shares: dict[bytes, FairShare] = {}
        self._older: dict[bytes, FairShare] = {}
        self._strangers, self._total = FairShare(is_strange=True), FairShare()
        self._has_strangers = self._had_strangers = False

    def __len__(self) -> int:
        """Return the number of keys that send requests; all strangers count as one."""
        now, before = len(self._shares) + self._has_strangers, len(self._older) + self._had_strangers
        return max(now, before)

    def turn(self, at: float) -> None:
        """Move the window forward. A key that was not seen for a whole window is dropped."""
        if at - self._began_at >= WINDOW_S:
            self._began_at = at
            self._older, self._shares = self._shares, {}
            self._had_strangers, self._has_strangers = self._has_strangers, False
            self._strangers = FairShare(self._strangers.admitted, is_strange=True)
            self._total = FairShare(self._total.admitted)
        self._weight = 1.0 - (at - self._began_at) / WINDOW_S

    def of(self, key: bytes | None) -> FairShare:
        """Return the share of this key.

        The key is looked up again in each window, because it may have been revoked.
        """
        if key is not None:
            share = self._shares.get(key)
            if share is not None:
                return share
            if len(self._shares) < KEYS_MAX and self._is_known(key):
                older = self._older.get(key)
                share = self._shares[key] = FairShare(0 if older is None else older.admitted)
                return share
        self._has_strangers = True
        return self._strangers

    def is_below(self, share: FairShare) -> bool:
        """Return whether the share is less than an equal part of the recently admitted requests."""
        return self._recent(share) * len(self) < self._recent(self._total)

    def admit(self, share: FairShare) -> None:
        """Count one request."""
        share.admitted += 1
        self._total.admitted += 1

    def _recent(self, share: FairShare) -> float:
        return share.admitted + share.before * self._weight
