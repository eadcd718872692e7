"""How many nodes a world sees, how long each serves, and how each ends."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

LIVES_MAX = 3
LIFE_S = (15.0, 45.0)
COMMITS_FIRST_MIN = 20
"""A first node lives until the accounts are made."""
COMMITS_MAX = 150
LONG = 0.04
LONG_SCALE = 12.0


@dataclass(frozen=True, slots=True)
class Lifetime:
    """For how long a node serves; it may die before, at its last commit of `commits`."""

    serves_s: float
    end: Literal["dies", "stops", "rests"]
    commits: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A world's nodes, one after the other; the last one comes to rest. `scale` stretches time."""

    lifetimes: tuple[Lifetime, ...]
    scale: float = 1.0

    @property
    def is_long(self) -> bool:
        """Time enough for claims to be taken over."""
        return self.scale > 1.0


def draw_plan(rng: Random) -> Plan:
    """The plan of one world."""
    scale = LONG_SCALE if rng.random() < LONG else 1.0
    count = rng.randint(1, LIVES_MAX)
    lives = [_draw_life(rng, number, scale) for number in range(count - 1)]
    return Plan((*lives, Lifetime(rng.uniform(*LIFE_S) * scale, "rests")), scale)


def _draw_life(rng: Random, number: int, scale: float) -> Lifetime:
    serves_s = rng.uniform(*LIFE_S) * scale
    how = rng.choices(("stops", "dies", "at a commit", "as it starts"), (2, 3, 3, 1))[0]
    if how == "stops":
        return Lifetime(serves_s, "stops")
    if how == "at a commit":
        return Lifetime(serves_s, "dies", rng.randint(COMMITS_FIRST_MIN, COMMITS_MAX))
    return Lifetime(serves_s, "dies", rng.randint(1, 4) if how == "as it starts" and number else None)
