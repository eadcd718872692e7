"""The number of nodes in a world, how long each serves, and how each ends."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

LIVES_MAX = 3
LIFE_S = (15.0, 45.0)
COMMITS_FIRST_MIN = 20
"""A node that dies at a commit makes at least this many commits, unless it dies as it starts. They suffice to create
the accounts."""
COMMITS_MAX = 150
STANDS_STILL = 0.08


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a node serves. It may die earlier, at the last of its `commits`."""

    serves_s: float
    end: Literal["dies", "stops", "rests"]
    commits: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes of a world, which run one after the other. The last one becomes idle."""

    lifetimes: tuple[Lifetime, ...]
    stands_still: bool
    """Whether the store may commit nothing for minutes, so that idempotency keys are taken over."""


def draw_plan(rng: Random) -> Plan:
    """Return the plan of one world."""
    stands_still = rng.random() < STANDS_STILL
    lives = [_draw_life(rng, number) for number in range(rng.randint(0, LIVES_MAX - 1))]
    return Plan((*lives, Lifetime(rng.uniform(*LIFE_S), "rests")), stands_still)


def _draw_life(rng: Random, number: int) -> Lifetime:
    serves_s = rng.uniform(*LIFE_S)
    how = rng.choices(("stops", "dies", "at a commit", "as it starts"), (2, 3, 3, 1))[0]
    if how == "stops":
        return Lifetime(serves_s, "stops")
    if how == "at a commit":
        return Lifetime(serves_s, "dies", rng.randint(COMMITS_FIRST_MIN, COMMITS_MAX))
    return Lifetime(serves_s, "dies", rng.randint(1, 4) if how == "as it starts" and number else None)
