"""Weather: a sequence of periods, each of one kind, generated from a seed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Weather:
    """The kind of weather at each time; `begins` has the start times of the periods."""

    begins: tuple[float, ...]
    kinds: tuple[str, ...]

    def at(self, now: float) -> str:
        """Return the kind of weather at that time."""
        return self.kinds[bisect_right(self.begins, now) - 1]

    def ends_at(self, now: float) -> float:
        """Return the end of the period at that time."""
        following = bisect_right(self.begins, now)
        return self.begins[following] if following < len(self.begins) else now


def draw_weather(rng: Random, until: float, *, calm: str, kinds: Mapping[str, tuple[float, float]]) -> Weather:
    """Return calm periods and, between them, periods of `kinds` (weight and mean length). Always calm after `until`."""
    begins, drawn = [0.0], [calm]
    now = 5.0 + rng.expovariate(1 / 15)
    while now < until:
        kind = rng.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        begins += [now, now + rng.expovariate(1 / kinds[kind][1])]
        drawn += [kind, calm]
        now = begins[-1] + rng.expovariate(1 / 25)
    begins.append(max(begins[-1], until))
    drawn.append(calm)
    return Weather(tuple(min(begin, until) for begin in begins), tuple(drawn))
