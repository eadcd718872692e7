"""Counts what a supplier's calls cost, and stops calls that would exceed its daily budget (decisions 25)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from upstreams.model.errors import PARTNER, PartnerUnavailable

DAY_S: Final = 86_400
BUDGET_WAIT_MAX_S: Final = 3_600.0
"""The longest Retry-After of a used budget, in seconds. The operator may raise the budget before midnight."""


class CostPlace(NamedTuple):
    """The calls that are counted together: those of one endpoint on one UTC day, counted from 1970-01-01."""

    day: int
    platform: str
    resource: str


@dataclass(frozen=True, slots=True)
class UnitCost:
    """The number of calls, how many of them failed, and their cost in the supplier's units."""

    calls: int = 0
    failed: int = 0
    units: int = 0

    def plus(self, other: UnitCost) -> UnitCost:
        """Return the sum of both."""
        return UnitCost(self.calls + other.calls, self.failed + other.failed, self.units + other.units)

    def minus(self, other: UnitCost) -> UnitCost:
        """Return the difference, where `other` is a part of this."""
        return UnitCost(self.calls - other.calls, self.failed - other.failed, self.units - other.units)


class SupplierCosts:
    """The costs of one supplier on this node.

    `unstored` are the counts that the node must store. Other nodes' costs are known from the last `apply_stored`, so
    that several nodes together may exceed the budget by the cost of the calls between two updates.
    """

    def __init__(self, now: Callable[[], float], daily_budget: int = 0) -> None:
        """`now` returns Unix seconds. A budget of 0 units means no limit."""
        self._now = now
        self.daily_budget = daily_budget
        self._pending: dict[CostPlace, UnitCost] = {}
        self._stored = (0, 0)  # a day, and the units that all nodes have stored for it
        self._reserved = 0
        self.total: dict[str, UnitCost] = {}
        """The costs of each platform since the node started."""

    @property
    def today(self) -> int:
        """The current UTC day, counted from 1970-01-01."""
        return int(self._now() // DAY_S)

    @property
    def used_today(self) -> int:
        """The units that all nodes have used today, as far as this node knows."""
        day, (stored_day, stored) = self.today, self._stored
        own = sum(cost.units for place, cost in self._pending.items() if place.day == day)
        return own + (stored if stored_day == day else 0)

    @property
    def left_today(self) -> int | None:
        """The units that may still be used today. None without a budget."""
        return max(0, self.daily_budget - self.used_today) if self.daily_budget else None

    def reserve(self, units: int) -> None:
        """Reserve the expected cost of a call until `count`.

        Raises:
            PartnerUnavailable: The call would exceed the daily budget.
        """
        if self.daily_budget and self.used_today + self._reserved + units > self.daily_budget:
            wait_s = DAY_S - self._now() % DAY_S
            raise PartnerUnavailable(PARTNER, "budget_used", min(wait_s, BUDGET_WAIT_MAX_S))
        self._reserved += units

    def count(self, platform: str, resource: str, cost: UnitCost, *, reserved: int) -> None:
        """Add the actual cost of a call, and release the units that were reserved for it."""
        self._reserved -= reserved
        if cost.calls:
            place = CostPlace(self.today, platform, resource)
            self._pending[place] = self._pending.get(place, UnitCost()).plus(cost)
            self.total[platform] = self.total.get(platform, UnitCost()).plus(cost)

    def unstored(self) -> list[tuple[CostPlace, UnitCost]]:
        """Return the counts that are not stored yet. `apply_stored` removes them."""
        return list(self._pending.items())

    def apply_stored(self, written: Sequence[tuple[CostPlace, UnitCost]], day: int, units: int) -> None:
        """Remove counts that are stored now. `units` is the sum that all nodes have stored for a day."""
        for place, cost in written:
            left = self._pending.pop(place)
            if left != cost:  # more calls ended meanwhile
                self._pending[place] = left.minus(cost)
        self._stored = (day, units)
