"""The node's pressure on background work: requests come first, and a full disk stops everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Pressure:
    """Functions that the clock and the workers call before they start work. They must be fast and must not raise."""

    refusal: Callable[[], str | None] = lambda: None
    """Returns why no work may start, for example because the disk is full. None if work may start."""
    is_yielding: Callable[[], bool] = lambda: False
    """Returns whether background work must yield to requests."""
    answered: Callable[[], int] = lambda: 0
    """Returns the number of requests answered so far."""


NO_PRESSURE: Final = Pressure()
"""The pressure on a node without requests."""
