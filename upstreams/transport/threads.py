"""Work in a thread that leaves nothing behind when it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
    """Return the result of `work`, once the limiter lets it run; raise what it raises.

    Trio's own way leaves a failure in a variable of a frame that its traceback leads to. Such a cycle, and with it all
    bodies and values that its other frames hold, lives until the garbage collector looks through everything.
    """
    results: list[T] = []
    failures: list[Exception] = []
    await trio.to_thread.run_sync(_keep, work, results, failures, limiter=limiter)
    if failures:
        raise failures.pop()
    return results.pop()


def _keep(work: Callable[[], T], results: list[T], failures: list[Exception]) -> None:
    """Append the result of `work`, or its failure, to its list: frames hold these, which are empty in the end."""
    try:
        results.append(work())
    except Exception as exc:  # noqa: BLE001 - it is raised again for the one who wants the result
        failures.append(exc)
