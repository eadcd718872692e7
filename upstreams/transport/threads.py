"""Runs work in a thread without leaving reference cycles if it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
    """Return the result of `work`, or raise its exception, after waiting for the limiter.

    Trio's own function leaves a failure in a local variable of a frame in that failure's traceback. This reference
    cycle, with all bodies and values in its frames, would live until the garbage collector examines all objects.
    """
    results: list[T] = []
    failures: list[Exception] = []
    await trio.to_thread.run_sync(_keep, work, results, failures, limiter=limiter)
    if failures:
        raise failures.pop()
    return results.pop()


def _keep(work: Callable[[], T], results: list[T], failures: list[Exception]) -> None:
    """Append the result of `work`, or its failure, to a list.

    Frames refer only to the lists, which are emptied afterwards.
    """
    try:
        results.append(work())
    except Exception as exc:  # noqa: BLE001 - it is raised again in the task that waits for the result
        failures.append(exc)
