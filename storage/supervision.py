"""Supervises background loops and restarts them after a failure, so that one bug never ends the process.

A loop fails when its work raises an exception. After three failures in a row, each soon after a start, readiness
reports the loop as a `fault`. A loop has recovered when it has run for a while (`_Loop.steady_s`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

import trio

from storage.errors import StateUnavailable, StoreUnavailable, StoreUnusable

PAUSE_S: Final = 0.5
PAUSE_S_MAX: Final = 30.0
AWAY_S: Final = 1.0
"""The pause, in seconds, after the store or the shared state was unavailable."""
STEADY_S: Final = 30.0
STEADY_S_MAX: Final = 1_800.0
FAULT_AFTER: Final = 3
"""After this many failures in a row, a loop is reported as down."""

Work = Callable[[], Awaitable[object]]


class Keep(Protocol):
    """Runs work under supervision; see `Supervision.keep`."""

    async def __call__(self, name: str, work: Work) -> None:
        """Run `work` until it returns. Restart it after each failure."""
        ...


class FailureLog(Protocol):
    """The methods of the operator's log that are used to report failures."""

    def event(self, level: str, event: str, **fields: Any) -> None:
        """Write one line."""
        ...

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        """Write an exception with its traceback."""
        ...


async def unsupervised(name: str, work: Work) -> None:  # noqa: ARG001 - as `Keep`
    """Run `work` until it returns. A `Keep` for commands and tests, in which an exception propagates to the caller."""
    await work()


@dataclass(slots=True, eq=False)
class _Loop:
    """The state of a loop. Only `Supervision` changes it."""

    name: str
    in_a_row: int = 0
    last_error: str = ""
    started_at: float | None = None
    """When the loop's work started, on Trio's clock. None during the pause before a restart."""
    steady_s: float = 0.0
    """The loop counts as recovered after it has run for this long."""

    def is_steady(self) -> bool:
        return self.started_at is not None and trio.current_time() - self.started_at >= self.steady_s

    def count(self, failure: Exception, steady_s: float) -> None:
        """Count a failure.

        The loop has recovered after `steady_s`, or after twice the time that it ran before this failure.

        A loop that sleeps for ten minutes before each pass therefore does not count as recovered just because it
        sleeps.
        """
        assert self.started_at is not None, "only running work fails"
        self.in_a_row = 1 if self.is_steady() else self.in_a_row + 1
        self.last_error = type(failure).__name__
        ran_s = trio.current_time() - self.started_at
        self.steady_s = min(max(steady_s, 2 * ran_s), STEADY_S_MAX)


class Supervision:
    """Supervises the background loops of a process. Every object that starts a loop receives `keep`."""

    pause_s = PAUSE_S
    steady_s = STEADY_S

    def __init__(self, log: FailureLog, rng: Random) -> None:
        """`rng` spreads the restarts of loops that fail at the same time."""
        self._log = log
        self._rng = rng
        self._loops: set[_Loop] = set()
        self._failures: Counter[str] = Counter()

    async def keep(self, name: str, work: Work) -> None:
        """Run `work` until it returns. Cancelling the task ends it, as usual. Several loops may share a name.

        If `work` raises an exception, the failure is logged with its traceback and counted under `name`. `work` starts
        again after a pause of 0.5 s, which doubles with each failure in a row up to 30 s, with jitter.

        `StoreUnavailable` and `StateUnavailable` do not count as failures of the loop, because readiness reports them
        separately. They are logged as a warning, and `work` starts again after a second. An exception group counts as
        one failure.

        Raises:
            StoreUnusable: this process may not use the store any more, so it must end.
        """
        loop = _Loop(name, steady_s=self.steady_s)
        self._loops.add(loop)
        self._failures[name] += 0
        try:
            while await self._run(loop, work):
                pass
        finally:
            self._loops.discard(loop)

    def failures(self) -> Mapping[str, int]:
        """Return the number of failures since the start, by the name of the loop, including loops that never failed."""
        return self._failures

    @property
    def fault(self) -> str | None:
        """A message for the operator about all loops that keep failing; None if there are none."""
        down = [
            f"{loop.name} (failed {loop.in_a_row} times in a row, last with {loop.last_error})"
            for loop in self._loops
            if loop.in_a_row >= FAULT_AFTER and not loop.is_steady()
        ]
        return ", ".join(sorted(down)) or None

    async def _run(self, loop: _Loop, work: Work) -> bool:
        """Run `work` once. Return False if it returned. If it failed, wait until it may restart and return True."""
        loop.started_at = trio.current_time()
        try:
            await work()
        except (Exception, BaseExceptionGroup) as exc:  # noqa: BLE001 - the supervised loop
            failure, passing = _split(exc)
            pause_s = self._record(loop, failure) if failure is not None else 0.0
            if passing is not None:
                raise passing from None
        else:
            return False
        loop.started_at = None
        await trio.sleep(pause_s)
        return True

    def _record(self, loop: _Loop, failure: Exception) -> float:
        """Log a failure and count it; return the pause before the restart, in seconds."""
        if _is_unavailable(failure):
            self._log.event("warning", "loop_waits", loop=loop.name, error=str(failure))
            return AWAY_S * self._rng.uniform(0.5, 1.0)
        loop.count(failure, self.steady_s)
        self._failures[loop.name] += 1
        longest_s: float = min(self.pause_s * 2 ** min(loop.in_a_row - 1, 10), PAUSE_S_MAX)
        pause_s = longest_s * self._rng.uniform(0.5, 1.0)
        fields = {"loop": loop.name, "in_a_row": loop.in_a_row, "restarts_in_s": round(pause_s, 2)}
        self._log.failure("loop_failed", failure, **fields)
        return pause_s


Supervise = Callable[[FailureLog, Random], Supervision]
"""Creates the supervision of a node's background loops."""


def _split(exc: Exception | BaseExceptionGroup[BaseException]) -> tuple[Exception | None, BaseException | None]:
    """Split an exception into the failure, and the part that must be re-raised, such as `Cancelled`."""
    if not isinstance(exc, BaseExceptionGroup):
        return (exc, None) if _is_failure(exc) else (None, exc)
    failures, passing = exc.split(_is_failure)
    assert failures is None or isinstance(failures, ExceptionGroup), "the group contains nothing else"
    return None if failures is None else _only(failures), passing


def _is_failure(exc: BaseException) -> bool:
    """Return whether an exception is a failure of the work. `split` also calls this with groups."""
    return isinstance(exc, Exception) and not isinstance(exc, (StoreUnusable, ExceptionGroup))


def _only(exc: Exception) -> Exception:
    """Return the only exception in a group, or the group if it contains several."""
    while isinstance(exc, ExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc


def _is_unavailable(exc: Exception) -> bool:
    if isinstance(exc, ExceptionGroup):
        return all(map(_is_unavailable, exc.exceptions))
    return isinstance(exc, (StoreUnavailable, StateUnavailable))
