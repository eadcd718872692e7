"""Pauses that an upstream requested, and the calls that wait for them to end.

free --(the upstream requests a pause)--> held --(the pause ends)--> over --(one call tries)--> tried --(success)-->
    free
                                           ^                          ^------(the call failed)------'  |
                                           '-----------(the upstream requests another pause)-----------'

A hold has a name: the whole source, or one of its methods. A call may proceed when none of its names is held or being
tried. When a waiting call is woken, it checks in `_check` whether it may start; all other code only wakes it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import trio

from limits.errors import Throttled
from limits.timers import whole_seconds


@dataclass(frozen=True, slots=True)
class GovernorStatistics:
    """A snapshot of one governor.

    `waiting` is the number of calls in its queue; the `*_total` fields count from the start of the process.
    """

    held_total: int
    queued_total: int
    refused_total: int
    waiting: int


class _Hold:
    """One hold of a name. If a longer hold replaces it, the result of its trial no longer has an effect."""

    __slots__ = ("is_tried", "name", "until")

    def __init__(self, name: Hashable, until: float) -> None:
        self.name = name
        self.until = until
        self.is_tried = False


class _Waiter:
    """A call in the queue."""

    __slots__ = ("give_up_at", "names", "woken")

    def __init__(self, names: Sequence[Hashable], give_up_at: float) -> None:
        self.names = names
        self.give_up_at = give_up_at
        self.woken = trio.Event()

    async def sleep(self, until: float) -> None:
        """Wait until the given time, or until woken."""
        self.woken = trio.Event()
        with trio.move_on_at(until):
            await self.woken.wait()


class Turn:
    """Permission to make one call, which may be the trial after a hold."""

    __slots__ = ("_governor", "_holds")

    def __init__(self, governor: "Governor", holds: Sequence[_Hold]) -> None:
        self._governor = governor
        self._holds = holds
        for hold in holds:
            hold.is_tried = True

    def answered(self) -> None:
        """Report an answer that requested no pause. This frees the tried holds and wakes all their waiters."""
        holds, self._holds = self._holds, ()
        self._governor._free(holds)

    def end(self) -> None:
        """End the call. If it was not answered, the longest waiting call tries next."""
        holds, self._holds = self._holds, ()
        for hold in holds:
            hold.is_tried = False
        self._governor._wake_first(holds)


class Governor:
    """Holds back the calls of one source.

    During a hold, no call starts. After the hold, one call at a time tries, until one succeeds.

    At most `names_max` names are kept (beyond that, the hold that ends soonest is dropped), and at most `waiters_max`
    calls wait. A hold lasts for at most `hold_s_max`, so that one absurd response cannot block a source forever.
    """

    def __init__(self, *, names_max: int = 1000, waiters_max: int = 1000, hold_s_max: float = 3600.0) -> None:
        self._names_max = names_max
        self._waiters_max = waiters_max
        self._hold_s_max = hold_s_max
        self.held: dict[Hashable, _Hold] = {}
        """The names that are held or being tried. Only the governor changes this. While it is empty, no call waits."""
        self._waiting: dict[_Waiter, None] = {}  # the longest waiting first
        self._held_total = self._queued_total = self._refused_total = 0

    def hold(self, name: Hashable, for_s: float) -> None:
        """Block all calls of `name` for `for_s` seconds. An earlier hold that ends later stays in effect."""
        until = trio.current_time() + min(for_s, self._hold_s_max)
        known = self.held.get(name)
        if known is not None and known.until >= until:
            return
        if known is None and len(self.held) >= self._names_max:
            self._free([min(self.held.values(), key=lambda hold: hold.until)])
        self.held[name] = _Hold(name, until)
        self._held_total += 1
        self._wake_all({name})  # calls that can no longer start in time give up, and the others wait longer

    def release(self, name: Hashable) -> None:
        """End the hold of `name`, if there is one."""
        if (hold := self.held.get(name)) is not None:
            self._free([hold])

    async def wait_turn(self, names: Sequence[Hashable], give_up_at: float) -> Turn:
        """Wait for permission to make one call, in order of arrival. The caller must call `end` in every case.

        Raises:
            Throttled: the call cannot start before `give_up_at` on Trio's clock, or too many calls wait. Raised as soon
                as this is known.
        """
        if not self._holds_of(names):  # the usual case, even while another method is held
            return Turn(self, ())
        waiter = _Waiter(names, give_up_at)
        self._waiting[waiter] = None
        try:
            if (look_at := self._check(waiter)) is not None:
                self._queued_total += 1
            while look_at is not None:
                await waiter.sleep(look_at)
                look_at = self._check(waiter)
        except BaseException:  # the call was refused or cancelled, perhaps right after it was woken for a trial
            del self._waiting[waiter]
            self._wake_first(self._holds_of(names))
            raise
        del self._waiting[waiter]
        return Turn(self, self._holds_of(names))

    def statistics(self) -> GovernorStatistics:
        """Return a snapshot of the governor."""
        return GovernorStatistics(
            held_total=self._held_total,
            queued_total=self._queued_total,
            refused_total=self._refused_total,
            waiting=len(self._waiting),
        )

    def _check(self, waiter: _Waiter) -> float | None:
        """Return None if the call may start now, otherwise the time of the next check unless the call is woken earlier.

        Raises:
            Throttled: the call cannot start in time.
        """
        now = trio.current_time()
        holds = self._holds_of(waiter.names)
        if not holds and now < waiter.give_up_at:
            return None
        held_until = max((hold.until for hold in holds), default=now)
        if max(held_until, now) >= waiter.give_up_at or len(self._waiting) > self._waiters_max:
            self._refused_total += 1
            raise Throttled(max(1, whole_seconds(now, held_until)))
        if held_until > now:
            return held_until
        return None if self._wake_first(holds) is waiter else waiter.give_up_at

    def _holds_of(self, names: Sequence[Hashable]) -> list[_Hold]:
        return [self.held[name] for name in names if name in self.held]

    def _free(self, holds: Sequence[_Hold]) -> None:
        freed = [hold for hold in holds if self.held.get(hold.name) is hold]
        for hold in freed:
            del self.held[hold.name]
        if freed:
            self._wake_all({hold.name for hold in freed})

    def _wake_all(self, names: set[Hashable]) -> None:
        for waiter in self._waiting:
            if not names.isdisjoint(waiter.names):
                waiter.woken.set()

    def _wake_first(self, holds: Sequence[_Hold]) -> _Waiter | None:
        """Wake and return the first call in the queue that waits for one of `holds` and whose holds are all over."""
        now = trio.current_time()
        names = {hold.name for hold in holds if self._is_due((hold.name,), now)}
        if not names:  # usual for a call that a new hold refuses; returning here avoids a scan of the whole queue
            return None
        for waiter in self._waiting:
            if not names.isdisjoint(waiter.names) and self._is_due(waiter.names, now):
                waiter.woken.set()
                return waiter
        return None

    def _is_due(self, names: Sequence[Hashable], now: float) -> bool:
        return all(hold.until <= now and not hold.is_tried for hold in self._holds_of(names))
