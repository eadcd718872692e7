"""Every reachable state of a breaker, and every event in each of them, compared with a model of decisions 9.

Method: breadth-first from the closed breaker until no new state appears, so that no depth is left out. A state combines
the model and the breaker, relative to the clock. Time advances in ticks that divide every term, so that it is just
before, on and after each end. Every number is one that a float holds exactly.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace

import pytest

from limits.breaker import Breaker, BreakerRules, Outcome, Permit
from limits.errors import CircuitOpen

PERMITS_MAX = 3
"""The maximum of valid permits in use, and of permits from before the last change of state."""

TERMS = {
    "the decisions' own": (BreakerRules(), 15.0),
    "two failures": (BreakerRules(failures=2, window_s=2.0, open_s=1.5, open_max_s=5.0), 0.25),
    "one failure": (BreakerRules(failures=1, window_s=2.0, open_s=1.0, open_max_s=4.0), 0.125),
    "three failures": (BreakerRules(failures=3, window_s=1.5, open_s=1.0, open_max_s=2.0), 0.25),
    "a maximum below the first": (BreakerRules(failures=2, window_s=1.0, open_s=2.5, open_max_s=1.0), 0.25),
}


@dataclass(frozen=True, slots=True)
class Model:
    """The rules in plain values, without a clock: ages and remaining seconds.

    `counting` permits were issued since the last change of state, and `stale` ones before it.
    """

    rules: BreakerRules
    failure_ages_s: tuple[float, ...] = ()
    wait_s: float | None = None
    """Seconds until the breaker is half open (0 if it is); None while closed, infinite while isolated."""
    wait_first_s: float = 0.0
    counting: int = 0
    stale: int = 0

    @property
    def is_probing(self) -> bool:
        return self.wait_s == 0 and self.counting == 1

    @property
    def state(self) -> str:
        return "closed" if self.wait_s is None else "open" if self.wait_s else "half_open"

    @property
    def admits_call(self) -> bool:
        return self.wait_s is None or (self.wait_s == 0 and not self.is_probing)

    @property
    def retry_after_s(self) -> int:
        """Seconds until a retry is worthwhile: until it is half open, or one second while a probe is running."""
        if self.admits_call:
            return 0
        if self.wait_s == math.inf:
            return math.ceil(self.rules.open_s)
        return max(1, math.ceil(self.wait_s or 0.0))

    def taken(self) -> Model:
        return replace(self, counting=self.counting + 1)

    def passed(self, s: float) -> Model:
        wait_s = None if self.wait_s is None else max(0.0, self.wait_s - s)
        ages = tuple(age + s for age in self.failure_ages_s if age + s < self.rules.window_s)
        return replace(self, failure_ages_s=ages, wait_s=wait_s)

    def shut(self, for_s: float) -> Model:
        stale = min(PERMITS_MAX, self.stale + self.counting)
        return Model(self.rules, wait_s=for_s, wait_first_s=for_s, stale=stale)

    def closed(self) -> Model:
        return Model(self.rules, stale=min(PERMITS_MAX, self.stale + self.counting))

    def reported(self, outcome: Outcome) -> Model:
        """Report the result of one of the valid permits."""
        rest = replace(self, counting=self.counting - 1)
        if outcome == "abandoned":
            return rest
        if self.wait_s is None:
            return rest.failed() if outcome == "failure" else rest
        if outcome == "success":
            return rest.closed()
        return rest.shut(min(2 * self.wait_first_s, max(self.rules.open_max_s, self.rules.open_s)))

    def failed(self) -> Model:
        ages = (*self.failure_ages_s, 0.0)
        return self.shut(self.rules.open_s) if len(ages) == self.rules.failures else replace(self, failure_ages_s=ages)


class Clock:
    def __init__(self) -> None:
        self.now = 1024.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """A breaker with its surroundings. It is copied before each event; permits are ordered from oldest to newest."""

    clock: Clock
    breaker: Breaker
    model: Model
    tick_s: float
    counting: list[Permit] = field(default_factory=list)
    stale: list[Permit] = field(default_factory=list)

    def copied(self) -> World:
        """Return a copy that shares nothing that changes. `deepcopy` would take ten times as long."""
        clock, breaker = copy(self.clock), copy(self.breaker)
        breaker._now, breaker._failures = clock, breaker._failures.copy()

        def permits(originals: list[Permit]) -> list[Permit]:
            copies = [copy(permit) for permit in originals]
            for permit in copies:
                permit._breaker = breaker
            return copies

        return World(clock, breaker, self.model, self.tick_s, permits(self.counting), permits(self.stale))

    def take(self) -> None:
        """Request a permit for a call."""
        if self.model.admits_call:
            self.counting.append(self.breaker.take_nowait())
            self.model = self.model.taken()
            return
        with pytest.raises(CircuitOpen) as refusal:
            self.breaker.take_nowait()
        assert refusal.value.retry_after_s == self.model.retry_after_s >= 1

    def report(self, outcome: Outcome) -> None:
        """Report the result of the oldest valid permit, and then every other outcome, which must be ignored."""
        report(self.counting.pop(0), outcome)
        self._follow(self.model.reported(outcome))

    def report_stale(self, outcome: Outcome) -> None:
        """Report a permit from before the last change of state, which must not change the model."""
        before = self.breaker.statistics()
        report(self.stale.pop(0), outcome)
        assert self.breaker.statistics() == before
        self.model = replace(self.model, stale=self.model.stale - 1)

    def isolate(self) -> None:
        self.breaker.isolate()
        self._follow(self.model.shut(math.inf))

    def reset(self) -> None:
        self.breaker.reset()
        self._follow(self.model.closed())

    def pass_time(self) -> None:
        self.clock.now += self.tick_s
        self.model = self.model.passed(self.tick_s)

    def _follow(self, model: Model) -> None:
        """Apply the model's next state. A change of state makes all permits in use stale."""
        if model.counting != len(self.counting):
            self.stale = [*self.stale, *self.counting][-PERMITS_MAX:]
            self.counting = []
        self.model = model

    def check(self) -> None:
        """Check that the breaker equals the model, and that its promised waiting time is correct."""
        assert (self.model.counting, self.model.stale) == (len(self.counting), len(self.stale))
        record = self.copied().breaker.statistics()
        assert self.breaker.state == record.state == self.model.state
        assert self.breaker.retry_after_s == record.retry_after_s == self.model.retry_after_s
        assert record.failures == len(self.model.failure_ages_s)
        assert record.isolated == (self.model.wait_s == math.inf)
        if self.model.wait_s is not None:
            assert self.model.counting <= 1, "at most one probe is running"
        if self.model.wait_s and not record.isolated:
            self.check_waiting()

    def check_waiting(self) -> None:
        """Check that the breaker is half open after Retry-After; one second less is not always enough."""
        later = self.copied()
        later.clock.now += self.model.retry_after_s
        assert later.breaker.state == "half_open"
        assert self.model.wait_s is not None
        assert self.model.retry_after_s - self.model.wait_s < 1

    @property
    def key(self) -> Hashable:
        """Return everything that influences later steps."""
        inner, now = self.breaker, self.clock.now
        until = inner._open_until
        window_s = self.model.rules.window_s
        return (
            self.model,
            until if until is None else max(0.0, until - now),
            inner._open_for_s,
            inner._is_probing,
            tuple(min(now - one.at, window_s) for one in inner._failures),
            tuple(min(inner._generation - permit._generation, 2) for permit in self.stale),
        )


def report(permit: Permit, outcome: Outcome) -> None:
    says = {"success": permit.succeed, "failure": permit.fail, "abandoned": permit.abandon}
    says.pop(outcome)()
    for say in says.values():
        say()


EVENTS = ("take", "isolate", "reset", "pass_time")
OUTCOMES: tuple[Outcome, ...] = ("success", "failure", "abandoned")


def after_each_event(world: World) -> Iterator[tuple[str, World]]:
    """Return the worlds after one more event."""
    for name in EVENTS:
        if name != "take" or len(world.counting) < PERMITS_MAX:
            after = world.copied()
            getattr(after, name)()
            yield name, after
    for outcome in OUTCOMES:
        if world.counting:
            after = world.copied()
            after.report(outcome)
            yield outcome, after
        if world.stale:
            after = world.copied()
            after.report_stale(outcome)
            yield f"stale {outcome}", after


@pytest.mark.parametrize(("rules", "tick_s"), TERMS.values(), ids=TERMS.keys())
def test_every_event_in_every_state_follows_the_decisions(rules: BreakerRules, tick_s: float) -> None:
    clock = Clock()
    first = World(clock, Breaker(rules, clock), Model(rules), tick_s)
    seen = {first.key}
    waiting, events = deque([first]), Counter[str]()
    terms_s = set[float]()
    while waiting:
        for name, world in after_each_event(waiting.popleft()):
            world.check()
            events[name] += 1
            terms_s.add(world.model.wait_first_s)
            if world.key not in seen:
                seen.add(world.key)
                waiting.append(world)
    assert len(events) == len(EVENTS) + 2 * len(OUTCOMES), "every event must have happened"
    assert terms_s == {0.0, *doubling(rules), math.inf}
    assert len(seen) > 200


def doubling(rules: BreakerRules) -> list[float]:
    """Return the possible opening times, shortest first."""
    terms_s = [rules.open_s]
    while terms_s[-1] < rules.open_max_s:
        terms_s.append(min(2 * terms_s[-1], rules.open_max_s))
    return terms_s
