"""The exact sliding window: at most `limit` admissions in any `period_s`, and never a refusal below that.

Each busy key keeps the times of its last admissions. A key is open when fewer than `limit` of them still count. An
admission exactly `period_s` old has left. Nothing here waits or reads a clock: `now` is a monotonic time in seconds,
read by the caller at the moment of the call, so it never goes back from one call to the next.
"""

from array import array
from collections.abc import Hashable
from typing import Final

from limits.errors import RateLimited, WindowState
from limits.timers import whole_seconds

_SWEEP_FIRST_AT: Final = 256
_PIECE_MIN: Final = 64
_PIECE_MAX: Final = 4_096
_SWEPT_AT_ONCE: Final = 8
"""Keys that are looked at for each piece that is made while a sweep goes on."""


class _Times:
    """Admission times of one key that may still count: `count` of them, the oldest at `head[first]`.

    They stand in pieces: so a key costs memory for what was admitted, not for what might be, and however many there
    are, to add one copies a piece at most. Each piece has times that count, but for the last where one was taken back.
    """

    __slots__ = ("count", "first", "head", "pieces", "room", "tail")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.head = self.tail = array("d")
        self.pieces = [self.tail]
        self.first = 0
        self.count = 0
        self.room = _PIECE_MIN  # of the last piece

    def forget_until(self, now: float, period_s: float) -> None:
        """Drop what has left the window; each admission is dropped once, so this is O(1) amortized."""
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
        """A new last piece; a share of what there is, so that little is kept of what has left."""
        self.room = min(max(self.count // 4, _PIECE_MIN), _PIECE_MAX)
        self.tail = array("d")
        self.pieces.append(self.tail)
        return self.tail

    def nth(self, place: int) -> float:
        """The admission at `place`, counted from the oldest."""
        place += self.first
        for piece in self.pieces:
            if place < len(piece):
                return piece[place]
            place -= len(piece)
        raise IndexError(place)


class Window:
    """One exact window per key, in memory.

    Who admits a request and then has no lease for it takes the admission back, with no `await` in between: so a refused
    lease does not eat a request of the window.
    """

    def __init__(self, limit: int, period_s: float = 60.0) -> None:
        self._limit = limit
        self._period_s = period_s
        self._times: dict[Hashable, _Times] = {}
        self._made = 0
        """Pieces that were made, but for those that the last sweep found to be gone."""
        self._sweep_at = _SWEEP_FIRST_AT
        self._unswept: list[Hashable] = []
        """Keys that the sweep which goes on has not looked at."""

    def __len__(self) -> int:
        """Return the number of keys that hold memory (8 bytes an admission, at least a piece)."""
        return len(self._times)

    def look(self, key: Hashable, now: float) -> WindowState:
        """The key's state now; counts nothing."""
        times = self._times.get(key)
        if times is None:
            return WindowState(self._limit, self._limit, 0)
        times.forget_until(now, self._period_s)
        return self._state(times, now)

    def admit(self, key: Hashable, now: float) -> WindowState:
        """Count one request and give the state after it.

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
        # As `_state`, written out: half the cost of the way in to a window.
        state = self._limit, self._limit - count, whole_seconds(now, times.head[times.first] + self._period_s)
        return tuple.__new__(WindowState, state)  # as `WindowState(...)`, at half its cost

    def take_back(self, key: Hashable) -> None:
        """Undo the key's newest admission, which was just made and must not count."""
        times = self._times[key]
        times.tail.pop()
        times.count -= 1

    def resize(self, limit: int) -> None:
        """Take another limit, and hold it at once: what was admitted before goes on counting."""
        self._limit = limit

    def sweep(self, now: float) -> None:
        """Forget keys whose admissions have all left; it runs by itself whenever memory for them may have doubled.

        By itself it looks at a few keys for each piece that is made: a hundred thousand at once would hold up all.
        """
        self._begin_sweep()
        self._sweep_some(len(self._unswept), now)

    def _begin_sweep(self) -> None:
        self._unswept = [*reversed(self._times)]  # the oldest last, where they are taken
        self._made = 0

    def _sweep_some(self, count: int, now: float) -> None:
        """Look at so many of the keys that are left, and count the pieces of those that stay."""
        for key in self._unswept[-count:]:
            times = self._times[key]
            times.forget_until(now, self._period_s)
            if times.count:
                self._made += len(times.pieces)
            else:
                del self._times[key]
        del self._unswept[-count:]
        if not self._unswept:
            self._sweep_at = max(_SWEEP_FIRST_AT, 2 * self._made)

    def _add_key(self, key: Hashable, now: float) -> _Times:
        self._count_piece(now)
        times = self._times[key] = _Times()
        return times

    def _add_piece(self, times: _Times, now: float) -> "array[float]":
        self._count_piece(now)
        return times.extend()

    def _count_piece(self, now: float) -> None:
        if self._made >= self._sweep_at and not self._unswept:
            self._begin_sweep()
        if self._unswept:
            self._sweep_some(_SWEPT_AT_ONCE, now)
        self._made += 1

    def _state(self, times: _Times, now: float) -> WindowState:
        """The state of a key whose times are only those that still count."""
        limit, count = self._limit, times.count
        if not count:
            return WindowState(limit, limit, 0)
        remaining, leaves_at = limit - count, times.head[times.first]
        if remaining < 0:  # under a lowered limit a slot frees only when those above it have left too
            remaining, leaves_at = 0, times.nth(-remaining)
        return tuple.__new__(WindowState, (limit, remaining, whole_seconds(now, leaves_at + self._period_s)))
