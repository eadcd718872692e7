"""The exact sliding window: at most `limit` admissions in any `period_s`, and no refusal below that.

For each active key, the times of its recent admissions are stored. A request is admitted if fewer than `limit` of these
times are in the window. A time that is exactly `period_s` old has left the window.

This module never waits or reads a clock. `now` is a monotonic time in seconds that the caller reads immediately before
each call, so it never decreases from one call to the next.
"""

from array import array
from collections.abc import Hashable
from typing import Final

from limits.errors import RateLimited, WindowState
from limits.quick_tuples import quick
from limits.timers import whole_seconds

_window_state = quick(WindowState)

_SWEEP_FIRST_AT: Final = 256
_PIECE_MIN: Final = 64
_PIECE_MAX: Final = 4_096
_SWEPT_AT_ONCE: Final = 8
"""How many keys to check each time a sweep continues, which is whenever a piece is added."""


class _Times:
    """Admission times of one key that may still be in the window: `count` of them, the oldest at `head[first]`.

    They are stored in pieces, so that a key uses memory only for actual admissions, and appending copies at most one
    piece. Each piece has times in the window, except that the last may be empty after an admission was taken back.
    """

    __slots__ = ("count", "first", "head", "pieces", "room", "tail")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all times."""
        self.head = self.tail = array("d")
        self.pieces = [self.tail]
        self.first = 0
        self.count = 0
        self.room = _PIECE_MIN  # the capacity of the last piece

    def forget_until(self, now: float, period_s: float) -> None:
        """Drop times that have left the window. Each admission is dropped once, so this is O(1) amortized."""
        while self.count:
            head, first = self.head, self.first
            if head[-1] + period_s <= now:
                self._drop_head()
                continue
            while head[first] + period_s <= now:
                first += 1
            self.count -= first - self.first
            self.first = first
            return

    def _drop_head(self) -> None:
        self.count -= len(self.head) - self.first
        if not self.count:
            self.clear()
            return
        del self.pieces[0]
        self.head, self.first = self.pieces[0], 0

    def extend(self) -> "array[float]":
        """Append and return a new piece, sized in proportion to the count so that little outdated data is kept."""
        self.room = min(max(self.count // 4, _PIECE_MIN), _PIECE_MAX)
        self.tail = array("d")
        self.pieces.append(self.tail)
        return self.tail

    def nth(self, place: int) -> float:
        """Return the admission time at `place`, counted from the oldest."""
        place += self.first
        for piece in self.pieces:
            if place < len(piece):
                return piece[place]
            place -= len(piece)
        raise IndexError(place)


class Window:
    """One exact window per key, in memory.

    A caller that admits a request but gets no lease for it must take the admission back, without an `await` in between.
    Then the refused request does not count in the window.
    """

    def __init__(self, limit: int, period_s: float = 60.0) -> None:
        self._limit = limit
        self._period_s = period_s
        self._times: dict[Hashable, _Times] = {}
        self._pieces_made = 0
        """The number of pieces created, minus those that were gone at the last sweep."""
        self._sweep_at = _SWEEP_FIRST_AT
        self._unswept: list[Hashable] = []
        """The keys that the current sweep has not checked yet."""

    def __len__(self) -> int:
        """Return the number of keys that use memory (8 bytes per admission, at least one piece)."""
        return len(self._times)

    def look(self, key: Hashable, now: float) -> WindowState:
        """Return the key's state now, without counting a request."""
        times = self._times.get(key)
        if times is None:
            return WindowState(self._limit, self._limit, 0)
        times.forget_until(now, self._period_s)
        return self._state(times, now)

    def admit(self, key: Hashable, now: float) -> WindowState:
        """Count one request and return the state after it.

        Raises:
            RateLimited: the window is full; nothing was counted.
        """
        times = self._times.get(key)
        if times is None:
            times = self._add_key(key, now)
        elif times.count and times.head[times.first] + self._period_s <= now:
            times.forget_until(now, self._period_s)
        count = times.count
        if count >= self._limit:
            raise RateLimited(self._state(times, now))
        tail = times.tail
        if len(tail) == times.room:
            tail = self._add_piece(times, now)
        tail.append(now)
        times.count = count = count + 1
        # `_state` inlined, which halves the cost of admitting a request.
        state = self._limit, self._limit - count, whole_seconds(now, times.head[times.first] + self._period_s)
        return _window_state(state)

    def take_back(self, key: Hashable) -> None:
        """Undo the key's newest admission, which was just made and must not count."""
        times = self._times[key]
        times.tail.pop()
        times.count -= 1

    def resize(self, limit: int) -> None:
        """Apply another limit immediately. Requests admitted earlier still count."""
        self._limit = limit

    def sweep(self, now: float) -> None:
        """Drop keys without an admission in the window. Runs automatically when their memory may have doubled.

        The automatic sweep checks a few keys per new piece, because checking a hundred thousand keys in one go would
        block the event loop.
        """
        self._begin_sweep()
        self._sweep_some(len(self._unswept), now)

    def _begin_sweep(self) -> None:
        self._unswept = [*reversed(self._times)]  # oldest last, because the sweep takes keys from the end
        self._pieces_made = 0

    def _sweep_some(self, count: int, now: float) -> None:
        """Check the next `count` keys, and count the pieces of those that are kept."""
        for key in self._unswept[-count:]:
            times = self._times[key]
            times.forget_until(now, self._period_s)
            if times.count:
                self._pieces_made += len(times.pieces)
            else:
                del self._times[key]
        del self._unswept[-count:]
        if not self._unswept:
            self._sweep_at = max(_SWEEP_FIRST_AT, 2 * self._pieces_made)

    def _add_key(self, key: Hashable, now: float) -> _Times:
        self._count_piece(now)
        times = self._times[key] = _Times()
        return times

    def _add_piece(self, times: _Times, now: float) -> "array[float]":
        self._count_piece(now)
        return times.extend()

    def _count_piece(self, now: float) -> None:
        if self._pieces_made >= self._sweep_at and not self._unswept:
            self._begin_sweep()
        if self._unswept:
            self._sweep_some(_SWEPT_AT_ONCE, now)
        self._pieces_made += 1

    def _state(self, times: _Times, now: float) -> WindowState:
        """Return the state of a key whose times are all in the window."""
        limit, count = self._limit, times.count
        if not count:
            return WindowState(limit, limit, 0)
        remaining, leaves_at = limit - count, times.head[times.first]
        if remaining < 0:  # after the limit was lowered, a slot becomes free only when the excess has left too
            remaining, leaves_at = 0, times.nth(-remaining)
        return _window_state((limit, remaining, whole_seconds(now, leaves_at + self._period_s)))
