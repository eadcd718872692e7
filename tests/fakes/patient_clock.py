"""A clock that stops while the machine prevents a test from running."""

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

import pytest
import trio

STEP_S = 0.01
"""The maximum of time counted between two clock reads, beyond the intended sleep."""


class PatientClock(trio.abc.Clock):
    """Real time, without what others have taken of it.

    Where server and client run in one process, nobody can use a time in which the process does not run: a bound of
    0.2 s is to end what is idle for 0.2 s, and not who had no turn on a busy machine. So a sleep counts in full, and
    what the process does between two sleeps, or is kept from doing, counts `STEP_S` at most.

    All of that counts `pace` times, for tests that would do nothing but wait: servers, clients and bounds of the run
    alike. Not for what waits for another process, nor where instants of the system's clock are compared with it.
    """

    def __init__(self, pace: float = 1.0) -> None:
        self._pace = pace
        self._time = 10_000.0  # far from times of other clocks
        self._looked_at = perf_counter()
        self._asleep_s = 0.0

    def start_clock(self) -> None:
        """Start with the run."""
        self._looked_at = perf_counter()

    def current_time(self) -> float:
        """Return the seconds for the loop and everything that it runs."""
        looked_at = perf_counter()
        self._time += min(looked_at - self._looked_at, self._asleep_s + STEP_S) * self._pace
        self._looked_at, self._asleep_s = looked_at, 0.0
        return self._time

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how long the loop may sleep, which it does next."""
        asleep_s = (deadline - self.current_time()) / self._pace
        self._asleep_s = max(0.0, asleep_s)
        return asleep_s


def run_patiently(
    main: Callable[[], Awaitable[object]], *, clock: trio.abc.Clock | None, pace: float = 1.0, **options: object
) -> object:
    """Like `trio.run`, on a patient clock unless the test sets another one."""
    return trio.run(main, clock=clock or PatientClock(pace), **options)


BRISKLY = pytest.mark.trio(run=partial(run_patiently, pace=5.0))
"""Run a test whose waits take a fifth of the time."""
