"""A model of the circuit of one source (decisions 9), fed with the real answers of the upstream."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from limits.breaker import Breaker, BreakerRules

Result = Literal["success", "failure", "no connection", "nothing"]
STATES = "the circuit is what its own generation's results made it"
SHUT = "no upstream call while the circuit is open"
ONE_PROBE = "half open, at most one probe"


class Admitted(NamedTuple):
    """A call that reached the upstream."""

    generation: int
    account: str
    is_probe: bool


@dataclass
class BreakerModel:
    """A model of one circuit. `hold` asserts the rules for each call."""

    rules: BreakerRules
    hold: Callable[[bool, str, str], None]
    name: str
    generation: int = 0
    failed: list[tuple[float, str]] = field(default_factory=list)
    """The times and accounts of failures. The account is empty if no connection could be made."""
    opened_at: float | None = None
    only: str = ""
    """The only account for which the circuit is open; empty if it is open for all accounts."""
    open_s: float = 0.0
    probes: int = 0

    def state(self, now: float) -> str:
        """Return closed, open or half open."""
        if self.opened_at is None:
            return "closed"
        return "open" if now < self.opened_at + self.open_s else "half_open"

    def begin(self, now: float, account: str) -> Admitted:
        """Record that a call of this account reaches the upstream."""
        if self.only and account != self.only:
            return Admitted(self.generation, account, is_probe=False)
        state = self.state(now)
        self.hold(state != "open", SHUT, f"{self.name} was called")
        if state == "half_open":
            self.hold(self.probes == 0, ONE_PROBE, f"{self.name} has {self.probes} probes")
            self.probes += 1
        return Admitted(self.generation, account, is_probe=state == "half_open")

    def end(self, call: Admitted, result: Result, now: float) -> None:
        """Record the end of the call. Calls that began before the last change of state are ignored."""
        if call.generation != self.generation:
            return
        if call.is_probe:
            self.probes -= 1
        if result == "success" and self.opened_at is not None:
            self.reset()
        elif result in ("failure", "no connection"):
            if call.is_probe:
                self._open(min(2 * self.open_s, max(self.rules.open_max_s, self.rules.open_s)), now, only=self.only)
            else:
                self._count("" if result == "no connection" else call.account, now)

    def _count(self, account: str, now: float) -> None:
        self.failed = [one for one in self.failed if one[0] + self.rules.window_s > now] + [(now, account)]
        enough, own = self.rules.failures, Counter(one for _, one in self.failed if one)
        of_others = len(self.failed) - max(own.values(), default=0)
        if len(self.failed) >= enough and of_others >= max(1, enough // 2):
            self._open(self.rules.open_s, now)
        elif own[account] >= enough:
            self._open(self.rules.open_s, now, only=account)

    def isolate(self, now: float) -> None:
        """Isolate the source, as the operator does."""
        self._open(math.inf, now)

    def reset(self) -> None:
        """Close the circuit and drop every failure."""
        self.generation += 1
        self.opened_at, self.open_s, self.probes, self.failed, self.only = None, 0.0, 0, [], ""

    def compare(self, breaker: Breaker, now: float) -> None:
        """Compare the node's own circuit with this one."""
        real, state = breaker.statistics(), self.state(now)
        failures = sum(at + self.rules.window_s > now for at, _ in self.failed)
        if (real.state, real.failures, real.only_account) != (state, failures, self.only):
            detail = f"{self.name} is {real}, expected {state} with {failures} failures for {self.only or 'all'}"
            self.hold(False, STATES, detail)
        if state == "half_open" and (real.retry_after_s > 0) != (self.probes > 0):
            self.hold(False, ONE_PROBE, f"{self.name} waits for {self.probes} probes, says {real}")

    def _open(self, open_s: float, now: float, *, only: str = "") -> None:
        self.generation += 1
        self.opened_at, self.open_s, self.probes, self.only = now, open_s, 0, only
        if not only:
            self.failed = []
