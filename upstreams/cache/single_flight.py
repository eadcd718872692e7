"""Single flight: identical calls that run at the same time are made once (decisions 8)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class _Flight(Generic[T]):
    """One call under way that somebody waits for."""

    def __init__(self) -> None:
        self.landed = trio.Event()
        self.result: T | None = None


class Flights(Generic[T]):
    """Calls under way, by key. A leader that fails or is cancelled promotes one of those who wait, and only one.

    Whoever finds no call under way, or has followed one that gave nothing, leads: it calls `begin` with no `await` in
    between, and `end` whatever happens.
    """

    def __init__(self, is_shared: Callable[[T], bool] = lambda _result: True) -> None:
        """`is_shared` tells whether a result is good for those who wait; if not, one of them leads next."""
        self._is_shared = is_shared
        self._flying: dict[Hashable, _Flight[T] | None] = {}  # None as long as nobody waits
        self.followed_total = 0
        self.following = 0
        """The callers that wait for a call now."""

    def __len__(self) -> int:
        """Return the number of calls under way."""
        return len(self._flying)

    def __contains__(self, key: Hashable) -> bool:
        """Whether a call is under way for `key`."""
        return key in self._flying

    async def follow(self, key: Hashable, deadline_at: float) -> T | None:
        """The result of the call under way for `key`, or of one that follows it; None when none is under way.

        Raises:
            trio.TooSlowError: nobody's call landed by `deadline_at` on Trio's clock.
        """
        while key in self._flying:
            flight = self._flying[key]
            if flight is None:
                flight = self._flying[key] = _Flight()
            self.following += 1
            try:
                with trio.fail_at(deadline_at):
                    await flight.landed.wait()
            finally:
                self.following -= 1
            if flight.result is not None:
                self.followed_total += 1
                return flight.result
        return None

    def begin(self, key: Hashable) -> None:
        """A call is under way for `key`, where there was none."""
        assert key not in self._flying, "one leads at a time"
        self._flying[key] = None

    def end(self, key: Hashable, result: T | None) -> None:
        """It is over; without a result one of those who wait leads next."""
        flight = self._flying.pop(key)
        if flight is not None:
            if result is not None and self._is_shared(result):
                flight.result = result
            flight.landed.set()
