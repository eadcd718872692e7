"""Waits on Trio for an effect that a server or another task causes. The caller sets the deadline."""

from collections.abc import Callable

import trio


async def until(holds: Callable[[], object]) -> float:
    """Wait until `holds()` is true. Return the elapsed seconds."""
    began = trio.current_time()
    while not holds():  # noqa: ASYNC110 - another process changes it, and has no event to set
        await trio.sleep(0.002)
    return trio.current_time() - began
