"""Measures how long a piece of work blocks the interpreter for other threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_TICK_S = 0.0005
_TRIES = 5


def keeps_interpreter(work: Callable[[], object], longest_s: float) -> bool:
    """Return whether `work` blocks all other threads for longer than `longest_s` in every one of several runs.

    Method: measure several times, because a busy machine may take the core from the measuring thread once, but not
    always.
    """
    return all(_longest_hold_s(work) > longest_s for _ in range(_TRIES))


def _longest_hold_s(work: Callable[[], object]) -> float:
    """Return the longest stretch of `work` during which no other thread runs, in CPU time of the process.

    Method: a second thread requests the interpreter continuously.
    """
    done = threading.Event()
    longest = [0.0]

    def tick() -> None:
        last = time.process_time()
        while not done.is_set():
            time.sleep(_TICK_S)
            now = time.process_time()
            longest[0], last = max(longest[0], now - last), now

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        work()
    finally:
        done.set()
        ticking.join()
    return longest[0]
