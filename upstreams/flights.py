"""Single flight: identical calls that run at the same time are made once (decisions 8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class _Flight(Generic[T]):
    """One call under way; `landed` is made by the first who waits for it."""

    landed: trio.Event | None = None
    result: T | None = None


class Flights(Generic[T]):
    """Calls under way, by key. A leader that fails or is cancelled promotes one of those who wait, and only one."""

    def __init__(self, is_shared: Callable[[T], bool] = lambda _result: True) -> None:
        """`is_shared` tells whether a result is good for those who wait; if not, one of them leads next."""
        self._is_shared = is_shared
        self._flying: dict[Hashable, _Flight[T]] = {}
        self.followed_total = 0

    def __len__(self) -> int:
        """How many calls are under way."""
        return len(self._flying)

    async def join(self, key: Hashable, deadline_at: float, lead: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The result of the call under way for `key`, or else of `lead`; and whether it was somebody else's.

        Raises:
            Whatever `lead` raises, to the one who leads; the others go on with another leader.
            trio.TooSlowError: nobody's call landed by `deadline_at` on Trio's clock.
        """
        while (flight := self._flying.get(key)) is not None:
            if flight.landed is None:
                flight.landed = trio.Event()
            with trio.fail_at(deadline_at):
                await flight.landed.wait()
            if flight.result is not None:
                self.followed_total += 1
                return flight.result, True
        flight = self._flying[key] = _Flight()
        try:
            result = await lead()
            if flight.landed is not None and self._is_shared(result):
                flight.result = result
        finally:
            del self._flying[key]
            if flight.landed is not None:
                flight.landed.set()
        return result, False
