"""Holds that an upstream asked for, and the calls that wait for their end.

free --(it asks to be left alone)--> held --(the time is over)--> due --(one call tries)--> tried --(answered)--> free
                                      ^                            ^-------(the call failed)------'   |
                                      '--------------------(it asks again)----------------------------'

A hold has a name: the whole source, or a method of it. A call goes when none of its names is held or being tried. Who
waits decides for itself when it is woken, by `_look`; everything else here only wakes.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import trio

from limits.errors import Throttled
from limits.timers import whole_seconds


@dataclass(frozen=True, slots=True)
class GovernorStatistics:
    """A moment's record of one governor; `waiting` counts the calls in its queue now, `*_total` since the start."""

    held_total: int
    queued_total: int
    refused_total: int
    waiting: int


class _Hold:
    """One hold; a longer one takes its place, so what the trial of an earlier one tells changes nothing."""

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
        """Wait until then, or until woken."""
        self.woken = trio.Event()
        with trio.move_on_at(until):
            await self.woken.wait()


class Turn:
    """Leave to make one call, which may be the one that tries whether a hold is over."""

    __slots__ = ("_governor", "_holds")

    def __init__(self, governor: "Governor", holds: Sequence[_Hold]) -> None:
        self._governor = governor
        self._holds = holds
        for hold in holds:
            hold.is_tried = True

    def answered(self) -> None:
        """The upstream answered without asking for patience: what was tried is free, and all who wait for it go."""
        holds, self._holds = self._holds, ()
        self._governor._free(holds)

    def end(self) -> None:
        """The call is over; unless it was answered, the longest waiting one tries next."""
        holds, self._holds = self._holds, ()
        for hold in holds:
            hold.is_tried = False
        self._governor._wake_first(holds)


class Governor:
    """Holds back one source's calls: all while one of its names is held, then all but one at a time until it is over.

    At most `names_max` names are remembered (past that, the one that ends soonest is let go) and `waiters_max` calls
    wait. No hold is obeyed for longer than `hold_s_max`, so one absurd answer cannot put a source away for good.
    """

    def __init__(self, *, names_max: int = 1000, waiters_max: int = 1000, hold_s_max: float = 3600.0) -> None:
        self._names_max = names_max
        self._waiters_max = waiters_max
        self._hold_s_max = hold_s_max
        self.held: dict[Hashable, _Hold] = {}
        """The names that are not free; changed here only. While it is empty, nobody has to wait for a turn."""
        self._waiting: dict[_Waiter, None] = {}  # the longest waiting first
        self._held_total = self._queued_total = self._refused_total = 0

    def hold(self, name: Hashable, for_s: float) -> None:
        """Let no call of `name` go for so long; a hold that ends later stands."""
        until = trio.current_time() + min(for_s, self._hold_s_max)
        known = self.held.get(name)
        if known is not None and known.until >= until:
            return
        if known is None and len(self.held) >= self._names_max:
            self._free([min(self.held.values(), key=lambda hold: hold.until)])
        self.held[name] = _Hold(name, until)
        self._held_total += 1
        self._wake_all({name})  # some can no longer be served in time, the others have to look again later

    async def wait_turn(self, names: Sequence[Hashable], give_up_at: float) -> Turn:
        """Leave to make one call, as soon as nothing asks to wait, in the order of arrival; `end` it in any case.

        Raises:
            Throttled: it cannot go before `give_up_at` on Trio's clock, or too many wait; told as soon as it is known.
        """
        if not self._holds_of(names):  # most calls, while it is another method that is held
            return Turn(self, ())
        waiter = _Waiter(names, give_up_at)
        self._waiting[waiter] = None
        try:
            if (look_at := self._look(waiter)) is not None:
                self._queued_total += 1
            while look_at is not None:
                await waiter.sleep(look_at)
                look_at = self._look(waiter)
        except BaseException:  # refused or cancelled, perhaps just when it was woken to try
            del self._waiting[waiter]
            self._wake_first(self._holds_of(names))
            raise
        del self._waiting[waiter]
        return Turn(self, self._holds_of(names))

    def statistics(self) -> GovernorStatistics:
        """The record of this moment."""
        return GovernorStatistics(
            held_total=self._held_total,
            queued_total=self._queued_total,
            refused_total=self._refused_total,
            waiting=len(self._waiting),
        )

    def _look(self, waiter: _Waiter) -> float | None:
        """None when the call may go now; else when to look again, unless it is woken before.

        Raises:
            Throttled: it cannot go in time.
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
        """Wake the longest waiting call that waits for one of `holds` and for nothing else that is not over."""
        now = trio.current_time()
        names = {hold.name for hold in holds if self._is_due((hold.name,), now)}
        if not names:  # as for each of a whole queue that a new hold refuses: none of them looks at all the others
            return None
        for waiter in self._waiting:
            if not names.isdisjoint(waiter.names) and self._is_due(waiter.names, now):
                waiter.woken.set()
                return waiter
        return None

    def _is_due(self, names: Sequence[Hashable], now: float) -> bool:
        return all(hold.until <= now and not hold.is_tried for hold in self._holds_of(names))
