"""Single flight: identical concurrent calls are made once (decisions 8)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class _Flight(Generic[T]):
    """One call in progress that has followers."""

    def __init__(self) -> None:
        self.landed = trio.Event()
        self.result: T | None = None


class Flights(Generic[T]):
    """Calls in progress, by key. If a leader fails or is cancelled, exactly one follower takes over.

    A task becomes the leader if no call is in progress, or if the previous leader ended without a result. The leader
    must call `begin` without an `await` in between, and must call `end` in every case.
    """

    def __init__(self, is_shared: Callable[[T], bool] = lambda _result: True) -> None:
        """`is_shared` returns whether followers can use a result. If not, one of them leads next."""
        self._is_shared = is_shared
        self._flights: dict[Hashable, _Flight[T] | None] = {}  # the value is None while a call has no followers
        self.followed_total = 0
        self.following = 0
        """The number of tasks that are currently waiting for a call."""

    def __len__(self) -> int:
        """Return the number of calls in progress."""
        return len(self._flights)

    def __contains__(self, key: Hashable) -> bool:
        """Return whether a call for `key` is in progress."""
        return key in self._flights

    async def follow(self, key: Hashable, deadline_at: float) -> T | None:
        """Return the result of the call in progress for `key`, or of the next leader; None if no call is in progress.

        Raises:
            trio.TooSlowError: No call ended by `deadline_at` on Trio's clock.
        """
        while key in self._flights:
            flight = self._flights[key]
            if flight is None:
                flight = self._flights[key] = _Flight()
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
        """Start a call for `key`. No other call for the key may be in progress."""
        assert key not in self._flights, "only one task leads at a time"
        self._flights[key] = None

    def end(self, key: Hashable, result: T | None) -> None:
        """End the call. If it has no result, one of the followers leads next."""
        flight = self._flights.pop(key)
        if flight is not None:
            if result is not None and self._is_shared(result):
                flight.result = result
            flight.landed.set()
