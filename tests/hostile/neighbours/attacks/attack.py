"""An attack: the step that a lane repeats, the number of lanes, and the preparation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.hostile.neighbours.hostile import Hostile


@dataclass(frozen=True, slots=True)
class Attack:
    """At most `lanes` calls are in flight; each lane repeats `step` with its number."""

    step: Callable[[Hostile, int], Awaitable[None]]
    lanes: int
    prepare: Callable[[Hostile], Awaitable[Any]] | None = None
    """Runs before the measurement. Its result becomes the hostile account's `state`."""
