"""Bounded waits for an effect of another process."""

import time
from collections.abc import Callable

TICK_S = 0.01


def wait_until(holds: Callable[[], object], *, within_s: float = 60.0) -> None:
    """Return as soon as `holds()` is true; fail if it does not become true in time."""
    give_up_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_at, f"not within {within_s} s"
        time.sleep(TICK_S)
