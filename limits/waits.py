"""Whole seconds to wait, as `Retry-After` wants them."""

import math


def whole_seconds(now: float, until: float) -> int:
    """The fewest whole seconds after which a clock that shows `now` has reached `until`; 0 when it already has."""
    seconds = max(0, math.ceil(until - now))
    # The difference is rounded to a float; where that hid a sliver, waiting `seconds` alone would be too short.
    return seconds if now + seconds >= until else seconds + 1
