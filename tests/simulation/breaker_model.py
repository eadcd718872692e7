"""The circuit of one source as the decisions describe it (decisions 9), told what the upstream really answered."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from limits.breaker import Breaker, BreakerRules

Result = Literal["success", "failure", "nothing"]
STATES = "the circuit is what its own generation's results made it"
SHUT = "no upstream call while the circuit is open"
ONE_PROBE = "half open, at most one probe"


@dataclass
class BreakerModel:
    """One circuit; `hold` is told of calls that may not be."""

    rules: BreakerRules
    hold: Callable[[bool, str, str], None]
    name: str
    generation: int = 0
    failed_at: list[float] = field(default_factory=list)
    opened_at: float | None = None
    open_s: float = 0.0
    probes: int = 0

    def state(self, now: float) -> str:
        """Closed, open or half open."""
        if self.opened_at is None:
            return "closed"
        return "open" if now < self.opened_at + self.open_s else "half_open"

    def begin(self, now: float) -> int:
        """A call reaches the upstream; its generation."""
        state = self.state(now)
        self.hold(state != "open", SHUT, f"{self.name} was called")
        if state == "half_open":
            self.hold(self.probes == 0, ONE_PROBE, f"{self.name} has {self.probes} probes")
            self.probes += 1
        return self.generation

    def end(self, generation: int, result: Result, now: float) -> None:
        """The call is over; what began before the last change of state changes nothing."""
        if generation != self.generation:
            return
        if self.opened_at is not None:
            self.probes -= 1
            if result == "success":
                self.reset()
            elif result == "failure":
                self._open(min(2 * self.open_s, max(self.rules.open_max_s, self.rules.open_s)), now)
        elif result == "failure":
            self.failed_at = [at for at in self.failed_at if at + self.rules.window_s > now] + [now]
            if len(self.failed_at) >= self.rules.failures:
                self._open(self.rules.open_s, now)

    def isolate(self, now: float) -> None:
        """The operator keeps everything out."""
        self._open(math.inf, now)

    def reset(self) -> None:
        """Closed, and every failure forgotten."""
        self.generation += 1
        self.opened_at, self.open_s, self.probes, self.failed_at = None, 0.0, 0, []

    def compare(self, breaker: Breaker, now: float) -> None:
        """Hold the node's own circuit against this one."""
        real, state = breaker.statistics(), self.state(now)
        failures = sum(at + self.rules.window_s > now for at in self.failed_at)
        if (real.state, real.failures) != (state, failures):
            detail = f"{self.name} is {real.state} with {real.failures} failures, due {state} with {failures}"
            self.hold(False, STATES, detail)
        if state == "half_open" and (real.retry_after_s > 0) != (self.probes > 0):
            self.hold(False, ONE_PROBE, f"{self.name} waits for {self.probes} probes, says {real}")

    def _open(self, open_s: float, now: float) -> None:
        self.generation += 1
        self.opened_at, self.open_s, self.probes, self.failed_at = now, open_s, 0, []
