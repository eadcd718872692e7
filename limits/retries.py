"""Limits the retries of a source, and spreads the pauses before them.

The budget follows Finagle (a share of the calls in the last seconds, plus a small reserve so that quiet sources can
retry) and Envoy (defaults of 20 % and 3). Counting in slices instead of one token per call keeps the cost O(1) and the
size fixed.
"""

from random import Random

_SLICES = 10
_EXPONENT_MAX = 32


class RetryBudget:
    """Limits one source's retries.

    In any `window_s` seconds, it allows `reserve` retries, plus `percent` % of the number of calls in that time.

    A call is a first attempt; a retry does not count as another call. The window moves in tenths of its length.
    `refused_total` is the number of retries that were refused because they exceeded the budget.
    """

    def __init__(self, *, percent: int = 20, reserve: int = 3, window_s: float = 10.0) -> None:
        self._percent = percent
        self._reserve = reserve
        self._slice_s = window_s / _SLICES
        self._slice = 0
        self._calls = [0] * _SLICES
        self._retries = [0] * _SLICES
        self.refused_total = 0

    def count_call(self, now: float) -> None:
        """Count a first attempt."""
        if int(now / self._slice_s) != self._slice:
            self._move_to(now)
        self._calls[self._slice % _SLICES] += 1

    def take_nowait(self, now: float) -> bool:
        """Take one retry from the budget. Return False if the budget is used up."""
        self._move_to(now)
        if sum(self._retries) >= self._reserve + sum(self._calls) * self._percent // 100:
            self.refused_total += 1
            return False
        self._retries[self._slice % _SLICES] += 1
        return True

    def _move_to(self, now: float) -> None:
        """Clear the slices that were last used a whole window ago."""
        current = int(now / self._slice_s)
        if current == self._slice:
            return
        for passed in range(max(self._slice, current - _SLICES) + 1, current + 1):
            self._calls[passed % _SLICES] = 0
            self._retries[passed % _SLICES] = 0
        self._slice = max(self._slice, current)


def full_jitter(attempt: int, rng: Random, *, base_s: float = 0.1, cap_s: float = 2.0) -> float:
    """Return the seconds to pause before retry `attempt` (from 0).

    They are uniformly distributed between 0 and `base_s`, doubled for each earlier retry, up to `cap_s`.
    """
    return rng.uniform(0.0, min(cap_s, base_s * 2.0 ** min(attempt, _EXPONENT_MAX)))
