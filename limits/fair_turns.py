"""Fair turns: accounts share the few slots of a resource according to their use, so that no account blocks the others.

The account that has used the least gets the next free slot. An account without turns starts level with the others,
because idle time earns no credit. The shares match deficit round robin with a very small quantum, except that a turn is
charged when it ends, because only then is its cost known. Three more rules:

- While others wait, an account gets at most half of the slots (but at least one). If no other account waits, it may use
  all of them.
- An account with no running turn may use one of the `spare` slots when all others are in use. So an account that filled
  the resource while it was alone does not make a newcomer wait for a long turn to end.
- The turns of one account are ordered by arrival time plus `PATIENCE` times the expected cost: short turns overtake
  long ones, unless the long ones have waited for a long time.

Example with two slots and one spare: A runs two turns and has ten waiting. B arrives and begins immediately, in the
spare slot. When one of A's turns ends, no new turn begins, because two turns are still running. From then on A and B
have one slot each.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Final, NamedTuple

import trio

PATIENCE: Final = 5.0


class TurnStatistics(NamedTuple):
    """A snapshot of a resource."""

    in_use: int
    waiting: int


@dataclass(slots=True, eq=False)
class FairTurn:
    """A turn in one of the slots. Its caller may set `used_s` before the turn ends."""

    account_id: str
    expected_s: float
    over_at: float
    """The latest time at which the turn can end."""
    began_at: float = 0.0
    used_s: float | None = None
    """The seconds of the resource that were used, such as CPU time. None means the whole time in the slot."""

    def left_s(self, now: float) -> float:
        """Return the expected seconds that remain."""
        return max(0.0, min(self.began_at + self.expected_s, self.over_at) - now)


@dataclass(slots=True, order=True)
class _Waiter:
    """A waiting turn. `called` is set when the turn begins."""

    comes_at: float
    number: int
    turn: FairTurn = field(compare=False)
    called: trio.Event = field(compare=False, default_factory=trio.Event)


@dataclass(slots=True)
class _Account:
    """The turns of an account, and its use up to the last update."""

    used_s: float
    running: list[FairTurn] = field(default_factory=list)
    waiting: list[_Waiter] = field(default_factory=list)


class FairTurns:
    """Shares a resource with `capacity` slots, plus `spare` slots for accounts with no running turn."""

    def __init__(self, capacity: int, *, spare: int = 0, now: Callable[[], float] = trio.current_time) -> None:
        self._capacity = capacity
        self._spare = spare
        self._now = now
        self._half = max(1, capacity // 2)
        self._in_use = 0
        self._accounts: dict[str, _Account] = {}
        """The accounts with turns, and those that have recently used more than their share."""
        self._level_s = 0.0
        """The use of an imaginary account that always had work. A new account begins with this value."""
        self._counted_at = 0.0
        self._numbers = count()

    @asynccontextmanager
    async def turn(self, account_id: str, expected_s: float = 0.0, *, over_at: float = inf) -> AsyncIterator[FairTurn]:
        """Use a slot while the block runs.

        The arguments are the same as for `take`. The caller sets a deadline for the wait.
        """
        turn = await self.take(account_id, expected_s, over_at=over_at)
        try:
            yield turn
        finally:
            self.end(turn)

    def take_nowait(self, account_id: str, expected_s: float = 0.0, *, over_at: float = inf) -> FairTurn | None:
        """Take a slot if one is free for this account, otherwise return None.

        The caller must return the slot with `end`.

        `expected_s` orders the turns of one account. `over_at`, on the clock `now`, is the latest end of the turn.
        """
        if not self._has_place(self._accounts.get(account_id)):
            return None
        turn = FairTurn(account_id, expected_s, over_at)
        self._begin(self._joined(account_id), turn)
        return turn

    async def take(self, account_id: str, expected_s: float = 0.0, *, over_at: float = inf) -> FairTurn:
        """Like `take_nowait`, but wait for a slot. If cancelled, no slot is taken."""
        await trio.lowlevel.checkpoint_if_cancelled()
        turn = self.take_nowait(account_id, expected_s, over_at=over_at)
        if turn is not None:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return turn
        turn, account = FairTurn(account_id, expected_s, over_at), self._joined(account_id)
        waiter = _Waiter(self._now() + PATIENCE * expected_s, next(self._numbers), turn)
        heapq.heappush(account.waiting, waiter)
        try:
            await waiter.called.wait()
        except BaseException:
            if waiter.called.is_set():  # the turn began before the cancellation arrived
                turn.used_s = 0.0
                self.end(turn)
            else:
                self._count()
                account.waiting.remove(waiter)
                heapq.heapify(account.waiting)
                self._forget()
            raise
        return turn

    def end(self, turn: FairTurn) -> None:
        """End the turn: free its slot, and record its use."""
        self._count()
        account = self._accounts[turn.account_id]
        if turn.used_s is not None:
            self._add(account, turn.used_s - (self._now() - turn.began_at))
        self._in_use -= 1
        account.running.remove(turn)
        while (following := self._next()) is not None:
            waiter = heapq.heappop(following.waiting)
            self._begin(following, waiter.turn)  # the turn begins here, so that no other turn takes the slot first
            waiter.called.set()
        self._forget()

    def expected_wait_s(self, account_id: str, expected_s: float | None = None) -> float:
        """Return the expected seconds until a turn that joins now would begin; 0 if it begins immediately.

        Without `expected_s`, the turn is placed after all other turns of its account.
        """
        self._count()
        now, account = self._now(), self._accounts.get(account_id)
        if self._has_place(account):
            return 0.0
        account = account or _Account(self._level_s)
        comes_at = inf if expected_s is None else now + PATIENCE * expected_s
        own_s = sum(one.turn.expected_s for one in account.waiting if one.comes_at <= comes_at)
        # Before this turn begins, another account may catch up with what this account will have used by then.
        reach_s = account.used_s + own_s + (expected_s or 0.0)
        others_s = sum(
            min(max(0.0, reach_s - one.used_s), sum(waiter.turn.expected_s for waiter in one.waiting))
            for one in self._accounts.values()
            if one is not account
        )
        places = self._capacity + (0 if account.running else self._spare)
        left_s = sorted(turn.left_s(now) for one in self._accounts.values() for turn in one.running)
        return _free_after(left_s[self._in_use - places :], own_s + others_s)

    def statistics(self) -> TurnStatistics:
        """Return a snapshot of the resource."""
        return TurnStatistics(self._in_use, sum(len(one.waiting) for one in self._accounts.values()))

    def _joined(self, account_id: str) -> _Account:
        self._count()
        account = self._accounts.get(account_id)
        if account is None:
            account = self._accounts[account_id] = _Account(self._level_s)
        elif not (account.running or account.waiting):
            account.used_s = max(account.used_s, self._level_s)
        return account

    def _has_place(self, account: _Account | None) -> bool:
        """Return whether a turn of the account may begin now.

        If one may, no waiting turn could use the slot, because waiting turns begin as soon as they can.
        """
        has_spare = account is None or not account.running
        return self._in_use < self._capacity + (self._spare if has_spare else 0)

    def _begin(self, account: _Account, turn: FairTurn) -> None:
        self._in_use += 1
        turn.began_at = self._now()
        account.running.append(turn)

    def _next(self) -> _Account | None:
        """Return the account whose turn is next, or None if no slot is free for a waiting account."""
        waiting = [one for one in self._accounts.values() if one.waiting and self._has_place(one)]
        fair = [one for one in waiting if len(one.running) < self._half] or waiting
        return min(fair, key=lambda one: one.used_s, default=None)

    def _count(self) -> None:
        """Record the use of the running turns up to now."""
        now = self._now()
        since_s, self._counted_at = now - self._counted_at, now
        if self._in_use and since_s:
            for account in self._accounts.values():
                if account.running:
                    self._add(account, since_s * len(account.running))

    def _add(self, account: _Account, used_s: float) -> None:
        """Add to the use of an account, and raise the level by an equal share per active account."""
        account.used_s += used_s
        self._level_s += used_s / sum(bool(one.running or one.waiting) for one in self._accounts.values())

    def _forget(self) -> None:
        """Keep the level within the range of what active accounts have used.

        Drop inactive accounts whose use the level has reached.
        """
        active = [one.used_s for one in self._accounts.values() if one.running or one.waiting]
        if not active:
            self._accounts.clear()
            return
        self._level_s = min(max(self._level_s, min(active)), max(active))
        self._accounts = {
            id_: one for id_, one in self._accounts.items() if one.running or one.waiting or one.used_s > self._level_s
        }


def _free_after(left_s: list[float], work_s: float) -> float:
    """Return the seconds until slots that become free after `left_s` (sorted) have done `work_s` seconds of work."""
    for places, (free_s, next_free_s) in enumerate(zip(left_s, [*left_s[1:], inf], strict=True), 1):
        room_s = (next_free_s - free_s) * places
        if work_s <= room_s:
            return free_s + work_s / places
        work_s -= room_s
    return work_s
