"""Units that a platform accepts in each minute, day or month of the calendar.

Budget(10_000, per="day", resets="America/Los_Angeles", costs={"/search": 100}, sources=("api",))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from upstreams.model.checking import unknown_names
from upstreams.model.refusals import usual_cost

Period = Literal["minute", "day", "month"]
PERIODS: Final = ("minute", "day", "month")
PERIOD_S: Final[Mapping[Period, float]] = {"minute": 60.0, "day": 86_400.0, "month": 30 * 86_400.0}
"""The usual length of a period in seconds."""


class BudgetWindow(NamedTuple):
    """One period of a budget, in Unix seconds. It contains its start, but not its end."""

    starts_at: float
    ends_at: float


@dataclass(frozen=True, slots=True)
class Budget:
    """The units that a platform accepts in each period, from all nodes and `sources` together.

    Unlike `Pace`, which refills evenly, a budget is full at the start of each period. `costs` maps path prefixes,
    without the source's base path, to units; other paths cost 1.
    """

    units: int
    per: Period = field(default="day", kw_only=True)
    resets: str = field(default="UTC", kw_only=True)
    """The time zone at whose midnight a day and a month start."""
    costs: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    sources: tuple[str, ...] = field(default=(), kw_only=True)
    """The sources that share the budget; empty for all sources with a fixed host."""

    def faults(self) -> Iterator[str]:
        """Yield the faults of the declaration."""
        from zoneinfo import ZoneInfo, available_timezones  # noqa: PLC0415 - few commands need it, and it takes 10 ms

        yield from unknown_names("period in `Budget`", (self.per,), PERIODS)
        try:
            ZoneInfo(self.resets)
        except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
            yield f"`resets` must be a time zone such as `America/Los_Angeles`, but it is `{self.resets}`"
        except KeyError:
            yield from unknown_names("time zone in `Budget`", (self.resets,), available_timezones())
        if min((self.units, *self.costs.values())) < 1:
            yield "the units and the costs of a `Budget` must be at least 1"

    def of(self, source: str) -> bool:
        """Return whether calls to a source use the budget."""
        return source in self.sources or not self.sources

    def cost(self, path: str) -> int:
        """Return the cost of calling a path. It is at most the whole budget, so that every call is possible."""
        return min(int(usual_cost(self.costs, path)), self.units)

    def window(self, at: float) -> BudgetWindow:
        """Return the period that contains a time in Unix seconds."""
        if self.per == "minute":
            return BudgetWindow(at // 60 * 60, at // 60 * 60 + 60)
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - as above

        day = datetime.fromtimestamp(at, ZoneInfo(self.resets)).replace(hour=0, minute=0, second=0, microsecond=0)
        if self.per == "day":
            return BudgetWindow(day.timestamp(), (day + timedelta(days=1)).timestamp())
        first = day.replace(day=1)
        return BudgetWindow(first.timestamp(), (first + timedelta(days=31)).replace(day=1).timestamp())
