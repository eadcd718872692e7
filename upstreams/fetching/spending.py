"""The units that are left of a platform's budget, counted over all nodes.

A node claims a hundredth of the budget at a time from the shared count, so that few calls wait for the shared state.
Units that a node has claimed and not used when it stops, or when the period ends, are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import trio

from storage.errors import StateUnavailable
from storage.state import State
from upstreams.model.budgets import PERIOD_S, Budget, BudgetWindow

CLAIMS: Final = 100
"""A budget is claimed in this many parts."""
_KEPT_S: Final = 60.0
"""How long the shared count is kept after its period, in seconds, because clocks differ."""


class SharedUnits:
    """The units of a budget that all nodes have claimed, in shared state."""

    def __init__(self, state: State, name: str) -> None:
        """`name` is the same on all nodes."""
        self._state = state
        self._name = name.encode()

    async def claim(self, units: int, window: BudgetWindow) -> int:
        """Claim units of a period. Return how many units were claimed before.

        Raises:
            StateUnavailable: The shared state is unavailable.
        """
        key = b"sluice:{budget:%b}:%d" % (self._name, window.starts_at)
        lasts_ms = int((window.ends_at - window.starts_at + _KEPT_S) * 1000)
        await self._state.call(b"SET", key, b"0", b"NX", b"PX", b"%d" % lasts_ms)
        claimed = await self._state.call(b"INCRBY", key, b"%d" % units)
        assert isinstance(claimed, int), "INCRBY returns the new value"
        return claimed - units


class Spending:
    """A budget on this node, which several sources may share.

    Call `must_claim` first, and `claim` while it returns True. Then `wait_s` returns 0 if the call can be paid for, and
    `take` pays. Without shared state, and while it is unavailable, the node counts only its own calls.
    """

    def __init__(self, budget: Budget, now: Callable[[], float], shared: SharedUnits | None = None) -> None:
        """`now` returns Unix seconds."""
        self.budget = budget
        self._now = now
        self._shared = shared
        self._window = BudgetWindow(0.0, 0.0)
        self._left = 0
        self._claimed = 0
        """Units of the period that this node has claimed."""
        self._unclaimed = 0
        """Units of the period that no node has claimed, as far as this node knows."""
        self._claiming = trio.Lock()

    def must_claim(self, path: str) -> bool:
        """Return whether a call needs units that this node has not claimed, and more can be claimed."""
        self._enter_window()
        return self._left < self.budget.cost(path) and self._unclaimed > 0

    async def claim(self, path: str) -> None:
        """Claim units for a call of this path and for further calls."""
        async with self._claiming:
            if not self.must_claim(path):  # another task has claimed enough
                return
            window, budget = self._window, self.budget
            wanted = max(budget.units // CLAIMS, budget.cost(path) - self._left)
            try:
                before = self._claimed if self._shared is None else await self._shared.claim(wanted, window)
            except StateUnavailable:
                before = self._claimed
            if window is not self._window:  # the period ended meanwhile
                return
            granted = max(0, min(wanted, budget.units - before))
            self._left += granted
            self._claimed += granted
            self._unclaimed = max(0, budget.units - before - granted)

    def wait_s(self, path: str, _now: float) -> float:
        """Return the seconds until a call of this path can be paid for."""
        return 0.0 if self._left >= self.budget.cost(path) else max(self._window.ends_at - self._now(), 0.001)

    def take(self, path: str) -> None:
        """Pay for a call."""
        self._left -= self.budget.cost(path)

    def give_back(self, path: str) -> None:
        """Refund a call that was not sent."""
        self._left += self.budget.cost(path)

    def standing(self, _now: float) -> tuple[int, float, float]:
        """Return the units left as far as this node knows, the units of a period, and its usual length in seconds."""
        self._enter_window()
        return self._left + self._unclaimed, self.budget.units, PERIOD_S[self.budget.per]

    def hold_name(self, path: str) -> Hashable:
        """Return the governor's key for calls with this cost. Cheaper calls may still be possible."""
        return self, self.budget.cost(path)

    def _enter_window(self) -> None:
        now = self._now()
        if not self._window.starts_at <= now < self._window.ends_at:
            self._window = self.budget.window(now)
            self._left = self._claimed = 0
            self._unclaimed = self.budget.units
