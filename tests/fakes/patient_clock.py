"""A clock that stops while the machine prevents a test from running."""

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

import pytest
import trio
from trio.testing import MockClock

STEP_S = 0.01
"""The longest time that counts between two clock reads, in addition to the intended sleep."""


class PatientClock(trio.abc.Clock):
    """Real time, without the time used by other processes.

    When server and client run in one process, a limit of 0.2 s should end a connection that was idle for 0.2 s, but not
    one that had no chance to run on a busy machine. A sleep therefore counts in full, and the time between two sleeps,
    in which the process works or is prevented from working, counts for at most `STEP_S`. The sum is multiplied by
    `pace`, which shortens tests that mostly wait. This applies to the servers, clients and limits of the run. Do not
    use this clock to wait for another process, or where its times are compared with the system's clock.
    """

    def __init__(self, pace: float = 1.0) -> None:
        self._pace = pace
        self._time = 10_000.0  # far from the times of other clocks
        self._looked_at = perf_counter()
        self._asleep_s = 0.0

    def start_clock(self) -> None:
        """Start the clock when the run starts."""
        self._looked_at = perf_counter()

    def current_time(self) -> float:
        """Return the time in seconds for the loop and everything that it runs."""
        looked_at = perf_counter()
        self._time += min(looked_at - self._looked_at, self._asleep_s + STEP_S) * self._pace
        self._looked_at, self._asleep_s = looked_at, 0.0
        return self._time

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how long the loop may sleep; it sleeps right after this call."""
        asleep_s = (deadline - self.current_time()) / self._pace
        self._asleep_s = max(0.0, asleep_s)
        return asleep_s


def run_patiently(
    main: Callable[[], Awaitable[object]], *, clock: trio.abc.Clock | None, pace: float = 1.0, **options: object
) -> object:
    """Like `trio.run`, on a patient clock unless the test sets another one."""
    return trio.run(main, clock=clock or PatientClock(pace), **options)


BRISKLY = pytest.mark.trio(run=partial(run_patiently, pace=5.0))
"""Run a test on a clock that is five times as fast, so that its waits take a fifth of the time."""


def run_virtually(
    main: Callable[[], Awaitable[object]], *, clock: trio.abc.Clock | None = None, **options: object
) -> object:
    """Like `trio.run`, in virtual time: whenever all tasks wait, the clock jumps to the next deadline.

    Waits are therefore exact and cost nothing. The clock also jumps over threads, processes and sockets. To run all
    asynchronous tests of a module this way, write `trio_run = run_virtually` in it.
    """
    return trio.run(main, clock=clock or MockClock(autojump_threshold=0), **options)


VIRTUALLY = pytest.mark.trio(run=run_virtually)
"""Runs one test in virtual time."""
