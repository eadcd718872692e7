"""The governor under holds, arrivals, failures, throttling and cancellation, compared with a model.

All times are multiples of half a second, so that many coincide. Between two times the model checks whether a call waits
although it could start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from limits.errors import Throttled
from limits.governor import Governor

WHOLE = "source"
HOLD_S_MAX = 8.0
WAITERS_MAX = 6
END_AT = 40.0

halves = st.integers(0, 24).map(lambda number: number / 2)
methods = st.sampled_from(("", "search", "read"))


@dataclass(frozen=True, slots=True)
class Holding:
    """A request for a hold from outside the queue, by an earlier call."""

    at: float
    name: str
    for_s: float


@dataclass(frozen=True, slots=True)
class Calling:
    """One call: its names, its patience, and its end after it started."""

    at: float
    method: str
    patience_s: float
    takes_s: float
    ending: Literal["answered", "failed", "throttled", "resting"]
    hold_s: float
    cancel_after_s: float | None

    @property
    def names(self) -> tuple[str, ...]:
        return (WHOLE, self.method) if self.method else (WHOLE,)


holdings = st.builds(Holding, halves, st.sampled_from((WHOLE, "search", "read")), halves.filter(bool))
callings = st.builds(
    Calling,
    at=halves,
    method=methods,
    patience_s=halves.filter(bool),
    takes_s=st.sampled_from((0.0, 0.5, 1.0, 4.0)),
    ending=st.sampled_from(("answered", "answered", "failed", "throttled", "resting")),
    hold_s=halves.filter(bool),
    cancel_after_s=st.none() | halves,
)


@dataclass(slots=True, eq=False)
class Held:
    """The model of a hold."""

    until: float
    trial: int | None = None


@dataclass(slots=True)
class Model:
    """The possible steps. Every method fails if the governor does something else."""

    calls: list[Calling]
    held: dict[str, Held] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    ended: set[int] = field(default_factory=set)

    def hold(self, name: str, for_s: float) -> None:
        until = trio.current_time() + min(for_s, HOLD_S_MAX)
        if name not in self.held or until > self.held[name].until:
            self.held[name] = Held(until)

    def may_go(self, call: int) -> bool:
        now = trio.current_time()
        return all(held.until <= now and held.trial is None for held in self.holds_of(call).values())

    def holds_of(self, call: int) -> dict[str, Held]:
        return {name: self.held[name] for name in self.calls[call].names if name in self.held}

    def go(self, call: int) -> dict[str, Held]:
        """Check the start of a call: no hold blocked it, no trial runs, and no earlier call could have started."""
        assert self.may_go(call)
        assert trio.current_time() < self.calls[call].at + self.calls[call].patience_s
        mine = self.holds_of(call)
        earlier = self.waiting[: self.waiting.index(call)]
        assert not [one for one in earlier if self.may_go(one) and mine.keys() & self.holds_of(one).keys()]
        self.waiting.remove(call)
        for held in mine.values():
            held.trial = call
        return mine

    def end(self, tried: dict[str, Held], *, answered: bool) -> None:
        for name, held in tried.items():
            held.trial = None
            if answered and self.held.get(name) is held:
                del self.held[name]

    def refuse(self, call: int, retry_after_s: int) -> None:
        """Record a refusal: the call could not start in time, or too many wait; and the reported time is correct."""
        now, give_up_at = trio.current_time(), self.calls[call].at + self.calls[call].patience_s
        held_until = max((held.until for held in self.holds_of(call).values()), default=now)
        assert max(now, held_until) >= give_up_at or len(self.waiting) > WAITERS_MAX
        assert retry_after_s - 1 < max(held_until - now, 1) <= retry_after_s
        self.waiting.remove(call)

    def look(self) -> None:
        """Check that no call waits that could start now, or that has waited too long."""
        now = trio.current_time()
        assert not [call for call in self.waiting if self.may_go(call)]
        assert all(now <= self.calls[call].at + self.calls[call].patience_s for call in self.waiting)
        assert len(self.waiting) <= WAITERS_MAX


class Run:
    """Runs a script on a governor and on the model."""

    def __init__(self, holdings: list[Holding], calls: list[Calling]) -> None:
        self.governor = Governor(hold_s_max=HOLD_S_MAX, waiters_max=WAITERS_MAX)
        self.model = Model(calls)
        self._holdings = holdings

    async def play(self) -> None:
        async with trio.open_nursery() as nursery:
            for holding in self._holdings:
                nursery.start_soon(self._hold, holding)
            for call in range(len(self.model.calls)):
                nursery.start_soon(self._call, call)
            nursery.start_soon(self._look)
        assert self.model.ended == set(range(len(self.model.calls))), "every call must have ended"
        assert self.governor.statistics().waiting == 0
        assert set(self.model.held) == {hold.name for hold in self.governor.held.values()}

    async def _look(self) -> None:
        while trio.current_time() < END_AT:
            await trio.sleep(0.5)
            await wait_all_tasks_blocked()
            self.model.look()

    async def _hold(self, holding: Holding) -> None:
        await trio.sleep_until(holding.at)
        self._set(holding.name, holding.for_s)

    def _set(self, name: str, for_s: float) -> None:
        self.model.hold(name, for_s)
        self.governor.hold(name, for_s)

    async def _call(self, call: int) -> None:
        calling = self.model.calls[call]
        await trio.sleep_until(calling.at)
        with trio.CancelScope() as scope:
            if calling.cancel_after_s is not None:
                scope.deadline = calling.at + calling.cancel_after_s
            await self._wait_and_go(call)
        if call in self.model.waiting:
            self.model.waiting.remove(call)
        self.model.ended.add(call)

    async def _wait_and_go(self, call: int) -> None:
        calling = self.model.calls[call]
        self.model.waiting.append(call)
        try:
            turn = await self.governor.wait_turn(calling.names, calling.at + calling.patience_s)
        except Throttled as refusal:
            self.model.refuse(call, refusal.retry_after_s)
            return
        tried = self.model.go(call)
        answered = False
        try:
            await trio.sleep(calling.takes_s)
            if calling.ending in ("throttled", "resting"):
                self._set(WHOLE if calling.ending == "throttled" else calling.names[-1], calling.hold_s)
            answered = calling.ending in ("answered", "resting")
        finally:
            self.model.end(tried, answered=answered)
            if answered:
                turn.answered()
            turn.end()


@given(st.lists(holdings, max_size=4), st.lists(callings, min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_governor_keeps_holds_in_order_with_one_trial_at_a_time(holdings: list[Holding], calls: list[Calling]) -> None:
    """Goal: the governor keeps all its promises. Method: random scripts in virtual time, compared with a model."""
    trio.run(Run(holdings, calls).play, clock=MockClock(autojump_threshold=0))
