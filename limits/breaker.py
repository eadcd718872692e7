"""The circuit breaker of one upstream source.

closed --(`failures` failures in `window_s`)--> open --(`open_s` later)--> half open --(the probe succeeds)--> closed
                                                  ^-----(the probe fails: twice as long, up to `open_max_s`)----'

The change from open to half open depends on the clock alone. Every opening and closing starts a new generation. A
permit belongs to the generation in which it was issued, and reports from earlier generations have no effect.

One account cannot block a source for the others. A failure is attributed to the account that called, unless it is
`certain`: no connection to the source could be made. The circuit opens for all accounts only if at least half of
`failures` (rounded down, at least 1) are certain or come from accounts other than the one with the most failures. If a
single account causes `failures` failures, the circuit opens for that account alone: calls of other accounts pass, and
the first of them that succeeds closes it.

With `needs_several`, for hosts that callers name, failures must also come from several addresses, because one bad page
does not show that its host is down. A probe that reaches such a host closes the circuit, even if the page fails.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, NamedTuple

from limits.errors import CircuitOpen
from limits.timers import whole_seconds

State = Literal["closed", "half_open", "open"]
Outcome = Literal["success", "failure", "abandoned"]
_KEPT_FACTOR: Final = 4
"""The number of failures to remember, as a multiple of `failures`. It is large enough to show several causes."""


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """The thresholds of a breaker, and how long its circuit stays open.

    Each failed probe doubles the time that the circuit stays open, up to `open_max_s`. If `open_s` is longer than
    `open_max_s`, the circuit stays open for `open_s`.
    """

    failures: int = 5
    window_s: float = 60.0
    open_s: float = 30.0
    open_max_s: float = 300.0


@dataclass(frozen=True, slots=True)
class BreakerStatistics:
    """A snapshot of one breaker.

    `failures` is the number of failures in the current window; the `*_total` fields count from the start of the
    process.
    """

    state: State
    isolated: bool
    failures: int
    retry_after_s: int
    generation: int
    opened_total: int
    refused_total: int
    only_account: str = ""
    """The account, if the circuit is open for only one; empty if it is closed, or open for all accounts."""


class _Failure(NamedTuple):
    """One failure in the window.

    An unknown cause (an empty account, or an address of None) counts as different from all others.
    """

    at: float
    account: str
    address: Hashable


class Permit:
    """Permission to make one call.

    Only the first report has an effect. A permit can be used as a context manager. If the block ends without a report,
    the permit is abandoned, so that another call can probe after a cancelled probe.
    """

    __slots__ = ("_breaker", "_generation", "account", "is_probe")

    def __init__(self, breaker: "Breaker", generation: int, account: str = "", *, is_probe: bool = False) -> None:
        self._breaker: Breaker | None = breaker
        self._generation = generation
        self.account = account
        self.is_probe = is_probe
        """Whether the circuit was half open when the permit was issued, so this call's result can close it."""

    def succeed(self) -> None:
        """Report that the source answered. "Not found" counts as an answer."""
        breaker, self._breaker = self._breaker, None
        if breaker is not None and breaker._open_until is not None:  # usual case: a closed circuit stays closed
            breaker._record("success", self)

    def fail(self, address: Hashable = None, *, certain: bool = False) -> None:
        """Report that the call failed at this address of the source.

        Set `certain` if no connection could be made: then the source itself has failed, whatever was requested.
        """
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker._record("failure", self, address, certain=certain)

    def abandon(self) -> None:
        """Report that the call ended without showing whether the source works."""
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker._record("abandoned", self)

    def __enter__(self) -> "Permit":
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.abandon()


class Breaker:
    """Issues permits for one source.

    `now` returns monotonic seconds. `on_open` may be set to one callback. When failures on this node open the circuit
    for all accounts, the callback receives the number of seconds that the circuit will stay open.
    """

    def __init__(self, rules: BreakerRules, now: Callable[[], float], *, needs_several: bool = False) -> None:
        self._rules = rules
        self.on_open: Callable[[float], None] = lambda _for_s: None
        self._now = now
        self._needs_several = needs_several
        self._generation = 0
        self._failures: deque[_Failure] = deque()
        self._open_until: float | None = None  # None: closed; infinite: isolated
        self._only = ""  # the account, if the circuit is open for only one
        self._open_for_s = 0.0
        self._is_probing = False
        self._opened_total = 0
        self._refused_total = 0

    def change(self, rules: BreakerRules) -> None:
        """Apply other rules. A circuit that is open stays open for the time that the old rules set."""
        self._rules = rules

    @property
    def state(self) -> State:
        """Whether the next call is allowed (`closed`), refused (`open`) or a probe (`half_open`)."""
        if self._open_until is None:
            return "closed"
        return "open" if self._now() < self._open_until else "half_open"

    @property
    def retry_after_s(self) -> int:
        """Whole seconds after which a call is worth trying; 0 if one would be allowed now."""
        if self._open_until is None:
            return 0
        if math.isinf(self._open_until):
            return math.ceil(self._rules.open_s)
        return max(whole_seconds(self._now(), self._open_until), int(self._is_probing))

    def take_nowait(self, account: str = "") -> Permit:
        """Issue a permit for one call of this account. While half open, the breaker issues one permit at a time.

        Raises:
            CircuitOpen: the circuit is open for this account, or half open while a probe is under way.
        """
        if self._open_until is None or (self._only and account != self._only):
            return Permit(self, self._generation, account)
        if self._is_probing or self._now() < self._open_until:
            self._refused_total += 1
            raise CircuitOpen(self.retry_after_s)
        self._is_probing = True
        return Permit(self, self._generation, account, is_probe=True)

    def apply_hint(self, for_s: float) -> None:
        """Open the circuit for as long as another node's circuit is open, and then probe.

        A hint never closes a circuit.
        """
        if self._open_until is None or self._only:
            self._open(for_s)

    def isolate(self) -> None:
        """Block all calls until `reset`."""
        self._open(math.inf)

    def reset(self) -> None:
        """Close the circuit and forget every failure."""
        self._generation += 1
        self._failures.clear()
        self._open_until = None
        self._only = ""
        self._open_for_s = 0.0
        self._is_probing = False

    def statistics(self) -> BreakerStatistics:
        """Return a snapshot of the breaker."""
        self._forget_old_failures()
        return BreakerStatistics(
            state=self.state,
            isolated=self._open_until == math.inf,
            failures=len(self._failures),
            retry_after_s=self.retry_after_s,
            generation=self._generation,
            opened_total=self._opened_total,
            refused_total=self._refused_total,
            only_account=self._only,
        )

    def _record(self, outcome: Outcome, permit: Permit, address: Hashable = None, *, certain: bool = False) -> None:
        if permit._generation != self._generation:
            return
        if permit.is_probe and (outcome != "failure" or certain or not self._needs_several):
            self._end_probe(outcome)
        elif outcome == "failure":
            if permit.is_probe:
                self.reset()
            self._count_failure("" if certain else permit.account, None if certain else address)
        elif outcome == "success" and self._open_until is not None:
            self.reset()  # it was open for one account only, and another account's call has succeeded

    def _end_probe(self, outcome: Outcome) -> None:
        if outcome == "success":
            self.reset()
        elif outcome == "failure":
            longest_s = max(self._rules.open_max_s, self._rules.open_s)
            self._open_by_failures(min(2 * self._open_for_s, longest_s), only=self._only)
        else:
            self._is_probing = False

    def _count_failure(self, account: str, address: Hashable) -> None:
        self._failures.append(_Failure(self._now(), account, address))
        self._forget_old_failures()
        wanted = self._rules.failures
        if len(self._failures) < wanted:
            return
        own = [one for one in self._failures if one.account == account]
        if self._is_shared([one.account for one in self._failures]) and self._concerns_host(self._failures):
            self._open_by_failures(self._rules.open_s)
        elif account and len(own) >= wanted and self._concerns_host(own):
            self._open_by_failures(self._rules.open_s, only=account)

    def _concerns_host(self, failures: Collection[_Failure]) -> bool:
        """Return whether these failures point to the source as a whole rather than to one of its addresses."""
        return not self._needs_several or self._is_shared([one.address for one in failures])

    def _is_shared(self, causes: Sequence[Hashable]) -> bool:
        """Return whether enough causes differ from the most frequent one: half of `failures`, but at least one."""
        known = Counter(cause for cause in causes if cause)
        most = max(known.values(), default=0)
        return len(causes) - most >= max(1, self._rules.failures // 2)

    def _forget_old_failures(self) -> None:
        """Drop failures that are at least `window_s` old, and the oldest ones if too many are kept."""
        now, kept = self._now(), _KEPT_FACTOR * self._rules.failures
        while self._failures and (self._failures[0].at + self._rules.window_s <= now or len(self._failures) > kept):
            self._failures.popleft()

    def _open_by_failures(self, for_s: float, *, only: str = "") -> None:
        self._open(for_s, only=only)
        if not only:
            self.on_open(for_s)

    def _open(self, for_s: float, *, only: str = "") -> None:
        self._generation += 1
        if not only:
            self._failures.clear()
        self._open_until = self._now() + for_s
        self._open_for_s = for_s
        self._only = only
        self._is_probing = False
        self._opened_total += 1
