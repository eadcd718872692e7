"""Leases: how many things of one key run at once.

In memory a lease ends by its release or with its process, which takes the count along; so it needs no expiry here.
"""

from collections.abc import Hashable
from types import TracebackType


class Lease:
    """One held place. Releasing it twice is the same as once; as a context manager it is released on leaving."""

    __slots__ = ("_key", "_leases")

    def __init__(self, leases: "Leases", key: Hashable) -> None:
        self._leases: Leases | None = leases
        self._key = key

    def release(self) -> None:
        """Give the place back."""
        leases, self._leases = self._leases, None
        if leases is None:
            return
        held = leases._held
        if held[self._key] > 1:
            held[self._key] -= 1
        else:
            del held[self._key]

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class Leases:
    """At most `limit` leases per key. `limit` may be changed at any time: what is held stays held."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """Return the number of keys that hold at least one lease."""
        return len(self._held)

    def take_nowait(self, key: Hashable) -> Lease | None:
        """A lease, or None when the key holds all of its own."""
        held = self._held.get(key, 0)
        if held >= self.limit:
            return None
        self._held[key] = held + 1
        return Lease(self, key)

    def count(self, key: Hashable) -> int:
        """Return the number of leases that the key holds."""
        return self._held.get(key, 0)

    def running(self) -> int:
        """Return the number of leases that are held in all."""
        return sum(self._held.values())
