"""Fair shares: which of those who ask a busy node have had less of it lately than others.

A share belongs to a key that is known to be good. Whoever has none of these is a stranger, and all strangers have one
share between them: a new name for every request is no way to be a newcomer each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

WINDOW_S: Final = 1.0
KEYS_MAX: Final = 10_000
"""Keys that have a share of their own; one more is a stranger."""


class FairShare:
    """The requests of one key that were admitted in this window and in the one before."""

    __slots__ = ("admitted", "before", "is_strange")

    def __init__(self, before: int = 0, *, is_strange: bool = False) -> None:
        self.admitted = 0
        self.before = before
        self.is_strange = is_strange
        """It is that of all strangers."""


class FairShares:
    """Counts over a sliding window; `is_known` says whether a key was found good, without waiting."""

    def __init__(self, is_known: Callable[[bytes], bool]) -> None:
        self._is_known = is_known
        self.clear(0.0)

    def clear(self, at: float) -> None:
        """Forget everybody; a window begins."""
        self._began_at = at
        self._weight = 1.0
        self._shares: dict[bytes, FairShare] = {}
        self._older: dict[bytes, FairShare] = {}
        self._strangers, self._total = FairShare(is_strange=True), FairShare()
        self._has_strangers = self._had_strangers = False

    def __len__(self) -> int:
        """Return the number of keys that send requests, strangers counted as one."""
        now, before = len(self._shares) + self._has_strangers, len(self._older) + self._had_strangers
        return max(now, before)

    def turn(self, at: float) -> None:
        """Let the window slide; a key that was not seen for a whole window is forgotten."""
        if at - self._began_at >= WINDOW_S:
            self._began_at = at
            self._older, self._shares = self._shares, {}
            self._had_strangers, self._has_strangers = self._has_strangers, False
            self._strangers = FairShare(self._strangers.admitted, is_strange=True)
            self._total = FairShare(self._total.admitted)
        self._weight = 1.0 - (at - self._began_at) / WINDOW_S

    def of(self, key: bytes | None) -> FairShare:
        """The share of whoever sends this key; in each window it is looked up anew, since a key may be revoked."""
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
        """Whether it has had less than an equal part of what was admitted lately."""
        return self._recent(share) * len(self) < self._recent(self._total)

    def admit(self, share: FairShare) -> None:
        """Count one request."""
        share.admitted += 1
        self._total.admitted += 1

    def _recent(self, share: FairShare) -> float:
        return share.admitted + share.before * self._weight
