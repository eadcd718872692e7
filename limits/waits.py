"""Whole seconds to wait, as `Retry-After` wants them."""

import math


def whole_seconds(now: float, until: float) -> int:
    """The fewest whole seconds after which a clock that shows `now` has reached `until`; 0 when it already has."""
    # `until` and the difference are rounded floats: the ceiling alone is at times one too few or too many.
    seconds = max(0, math.ceil(until - now) - 1)
    while now + seconds < until:
        seconds += 1
    return seconds
