"""The circuit breaker of one upstream source.

closed --(`failures` failures in `window_s`)--> open --(`open_s` later)--> half open --(the probe succeeds)--> closed
                                                  ^-----(the probe fails: twice as long, up to `open_max_s`)----'

Whether it is open or half open follows from the clock alone. Every opening and closing starts a new generation; a
permit remembers its own, and what it reports after another has begun changes nothing.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from limits.errors import CircuitOpen
from limits.timers import whole_seconds

State = Literal["closed", "half_open", "open"]
Outcome = Literal["success", "failure", "abandoned"]


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """The thresholds of a breaker, and how long it stays open.

    `open_max_s` ends the doubling (an `open_s` above it is not cut).
    """

    failures: int = 5
    window_s: float = 60.0
    open_s: float = 30.0
    open_max_s: float = 300.0


@dataclass(frozen=True, slots=True)
class BreakerStatistics:
    """A moment's record of one breaker; `failures` counts those of the running window, `*_total` since the start."""

    state: State
    isolated: bool
    failures: int
    retry_after_s: int
    generation: int
    opened_total: int
    refused_total: int


class Permit:
    """Leave to make one call. The first report counts, later ones change nothing; left as a context manager without a
    report, it is abandoned, so a cancelled probe frees its place.
    """

    __slots__ = ("_breaker", "_generation")

    def __init__(self, breaker: "Breaker", generation: int) -> None:
        self._breaker: Breaker | None = breaker
        self._generation = generation

    def succeed(self) -> None:
        """The source answered (a "no such thing" is an answer)."""
        breaker, self._breaker = self._breaker, None
        if breaker is not None and breaker._open_until is not None:  # closed, as nearly always, it changes nothing
            breaker._record("success", self._generation)

    def fail(self) -> None:
        """The source failed."""
        self._report("failure")

    def abandon(self) -> None:
        """The call ended without telling anything about the source."""
        self._report("abandoned")

    def __enter__(self) -> "Permit":
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.abandon()

    def _report(self, outcome: Outcome) -> None:
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker._record(outcome, self._generation)


class Breaker:
    """Hands out permits for one source. `now` is a monotonic clock in seconds.

    `on_open` may be set by one listener: it is called with the seconds when a failure here opens the circuit.
    """

    def __init__(self, rules: BreakerRules, now: Callable[[], float]) -> None:
        self._rules = rules
        self.on_open: Callable[[float], None] = lambda _for_s: None
        self._now = now
        self._generation = 0
        self._failed_at: deque[float] = deque()
        self._open_until: float | None = None  # None: closed; infinite: isolated
        self._open_for_s = 0.0
        self._probe_is_out = False
        self._opened_total = 0
        self._refused_total = 0

    def change(self, rules: BreakerRules) -> None:
        """Take other rules; a circuit that is open stays so for as long as it was opened for."""
        self._rules = rules

    @property
    def state(self) -> State:
        """Return how the breaker treats the next call."""
        if self._open_until is None:
            return "closed"
        return "open" if self._now() < self._open_until else "half_open"

    @property
    def retry_after_s(self) -> int:
        """Whole seconds after which a call is worth trying; 0 while one would be let through."""
        if self._open_until is None:
            return 0
        if math.isinf(self._open_until):
            return math.ceil(self._rules.open_s)
        return max(whole_seconds(self._now(), self._open_until), int(self._probe_is_out))

    def take_nowait(self) -> Permit:
        """Leave to make one call; half open, to exactly one at a time.

        Raises:
            CircuitOpen: the circuit is open, or half open with its probe under way.
        """
        if self._open_until is not None:
            if self._probe_is_out or self._now() < self._open_until:
                self._refused_total += 1
                raise CircuitOpen(self.retry_after_s)
            self._probe_is_out = True
        return Permit(self, self._generation)

    def apply_hint(self, for_s: float) -> None:
        """Another node's circuit is open for so long: be open until then too, and try then. Closes nothing."""
        if self._open_until is None:
            self._open(for_s)

    def isolate(self) -> None:
        """Keep everything out until `reset`."""
        self._open(math.inf)

    def reset(self) -> None:
        """Close the circuit and forget every failure."""
        self._generation += 1
        self._failed_at.clear()
        self._open_until = None
        self._open_for_s = 0.0
        self._probe_is_out = False

    def statistics(self) -> BreakerStatistics:
        """The record of this moment."""
        self._forget_old_failures()
        return BreakerStatistics(
            state=self.state,
            isolated=self._open_until == math.inf,
            failures=len(self._failed_at),
            retry_after_s=self.retry_after_s,
            generation=self._generation,
            opened_total=self._opened_total,
            refused_total=self._refused_total,
        )

    def _record(self, outcome: Outcome, generation: int) -> None:
        if generation != self._generation:
            return
        if self._open_until is not None:
            self._end_probe(outcome)
        elif outcome == "failure":
            self._count_failure()

    def _end_probe(self, outcome: Outcome) -> None:
        if outcome == "success":
            self.reset()
        elif outcome == "failure":
            longest_s = max(self._rules.open_max_s, self._rules.open_s)
            self._open(min(2 * self._open_for_s, longest_s))
            self.on_open(self._open_for_s)
        else:
            self._probe_is_out = False

    def _count_failure(self) -> None:
        self._failed_at.append(self._now())
        self._forget_old_failures()
        if len(self._failed_at) >= self._rules.failures:
            self._open(self._rules.open_s)
            self.on_open(self._open_for_s)

    def _forget_old_failures(self) -> None:
        """A failure exactly `window_s` old has left."""
        now = self._now()
        while self._failed_at and self._failed_at[0] + self._rules.window_s <= now:
            self._failed_at.popleft()

    def _open(self, for_s: float) -> None:
        self._generation += 1
        self._failed_at.clear()
        self._open_until = self._now() + for_s
        self._open_for_s = for_s
        self._probe_is_out = False
        self._opened_total += 1
