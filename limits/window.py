"""The exact sliding window: at most `limit` admissions in any `period_s`, and never a refusal below that.

Each busy key has a ring of its last admission times. A key is open when fewer than `limit` of them still count. An
admission exactly `period_s` old has left. Nothing here waits or reads a clock: `now` is a monotonic time in seconds,
read by the caller at the moment of the call, so it never goes back from one call to the next.
"""

from array import array
from collections.abc import Hashable

from limits.errors import RateLimited
from limits.waits import WindowState, whole_seconds

_SWEEP_FIRST_AT = 256


class _Ring:
    """Admission times of one key that may still count: `count` of them, the oldest at index `first`."""

    __slots__ = ("count", "first", "times")

    def __init__(self, size: int) -> None:
        self.times = array("d", bytes(8 * size))
        self.first = 0
        self.count = 0

    def forget_until(self, now: float, period_s: float) -> None:
        """Drop what has left the window; each admission is dropped once, so this is O(1) amortized."""
        times = self.times
        while self.count and times[self.first] + period_s <= now:
            self.first = (self.first + 1) % len(times)
            self.count -= 1

    def push(self, now: float) -> None:
        """Add an admission; the ring has room."""
        self.times[(self.first + self.count) % len(self.times)] = now
        self.count += 1

    def nth(self, place: int) -> float:
        """The admission at `place`, counted from the oldest."""
        return self.times[(self.first + place) % len(self.times)]

    def resized(self, limit: int) -> "_Ring":
        """The same admissions with room for `limit`; those beyond a lowered one are kept, should it be raised again."""
        ring = _Ring(max(limit, self.count))
        for place in range(self.count):
            ring.push(self.nth(place))
        return ring


class Window:
    """One exact window per key, in memory.

    Who admits a request and then has no lease for it takes the admission back, with no `await` in between: so a refused
    lease does not eat a request of the window.
    """

    def __init__(self, limit: int, period_s: float = 60.0) -> None:
        self._limit = limit
        self._period_s = period_s
        self._rings: dict[Hashable, _Ring] = {}
        self._sweep_at = _SWEEP_FIRST_AT

    def __len__(self) -> int:
        """How many keys hold memory (8 bytes times the limit each)."""
        return len(self._rings)

    def look(self, key: Hashable, now: float) -> WindowState:
        """The key's state now; counts nothing."""
        ring = self._rings.get(key)
        if ring is None:
            return WindowState(self._limit, self._limit, 0)
        ring.forget_until(now, self._period_s)
        return self._state(ring, now)

    def admit(self, key: Hashable, now: float) -> WindowState:
        """Count one request and give the state after it.

        Raises:
            RateLimited: the window is full; nothing was counted.
        """
        ring = self._rings.get(key)
        if ring is None:
            ring = self._add_ring(key, now)
        elif ring.count and ring.times[ring.first] + self._period_s <= now:
            ring.forget_until(now, self._period_s)
        count = ring.count
        if count >= self._limit:
            raise RateLimited(self._state(ring, now))
        # As `push` and `_state`, written out: half the cost of the way in to a window.
        times, first = ring.times, ring.first
        times[(first + count) % len(times)] = now
        ring.count = count = count + 1
        state = self._limit, self._limit - count, whole_seconds(now, times[first] + self._period_s)
        return tuple.__new__(WindowState, state)  # as `WindowState(...)`, at half its cost

    def take_back(self, key: Hashable) -> None:
        """Undo the key's newest admission, which was just made and must not count."""
        self._rings[key].count -= 1

    def resize(self, limit: int) -> None:
        """Take another limit, and hold it at once: what was admitted before goes on counting."""
        self._limit = limit
        self._rings = {key: ring.resized(limit) for key, ring in self._rings.items()}

    def sweep(self, now: float) -> None:
        """Forget keys whose admissions have all left; it runs by itself whenever the number of keys has doubled."""
        for ring in self._rings.values():
            ring.forget_until(now, self._period_s)
        self._rings = {key: ring for key, ring in self._rings.items() if ring.count}
        self._sweep_at = max(_SWEEP_FIRST_AT, 2 * len(self._rings))

    def _add_ring(self, key: Hashable, now: float) -> _Ring:
        if len(self._rings) >= self._sweep_at:
            self.sweep(now)
        ring = self._rings[key] = _Ring(self._limit)
        return ring

    def _state(self, ring: _Ring, now: float) -> WindowState:
        """The state of a ring that holds only what still counts."""
        if not ring.count:
            return WindowState(self._limit, self._limit, 0)
        remaining, leaves_at = self._limit - ring.count, ring.times[ring.first]
        if remaining < 0:  # under a lowered limit a slot frees only when those above it have left too
            remaining, leaves_at = 0, ring.nth(-remaining)
        return WindowState(self._limit, remaining, whole_seconds(now, leaves_at + self._period_s))
