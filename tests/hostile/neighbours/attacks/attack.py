"""An attack: what one lane repeats, in how many lanes, and what is prepared before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.hostile.neighbours.hostile import Hostile


@dataclass(frozen=True, slots=True)
class Attack:
    """`lanes` calls are in flight at most; each lane repeats `step` with its number."""

    step: Callable[[Hostile, int], Awaitable[None]]
    lanes: int
    prepare: Callable[[Hostile], Awaitable[Any]] | None = None
    """Runs before anything is measured; its result is the hostile account's `state`."""
