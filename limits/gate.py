"""The gate: the window and the leases of one API key, in memory for one node or shared by all nodes.

Both implementations (`MemoryGate`, `limits.shared_gate.SharedGate`) pass the same tests, `tests/limits/test_gate.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

import trio

from limits.errors import ConcurrencyReached, WindowState
from limits.quick_tuples import quick
from limits.window import Window

KNOWN_S = 30.0
"""How many seconds a node may use what it has read about a key."""

NO_GENERATION = b""
"""The generation of a key whose last change is older than anything that a node still caches about it."""


class LeaseHandle(Protocol):
    """A lease in use. A second release has no effect."""

    def release(self) -> None:
        """Release the lease. It is free immediately on this node, and a little later on the others."""
        ...


class BalanceUpdate(NamedTuple):
    """A balance published after a commit. Of two updates, the one with the higher version is newer."""

    version: int
    balance: int


class Admitted(NamedTuple):
    """An admitted request: it was counted, and has a lease. `balance` is the account's last known balance, if any."""

    window: WindowState
    lease: LeaseHandle
    balance: BalanceUpdate | None = None


_admitted = quick(Admitted)


class GateStatistics(NamedTuple):
    """The number of leases of this node, of keys with leases, and of keys with requests in their window.

    `window_keys` is None if only the server has this number.
    """

    leases: int
    lease_keys: int
    window_keys: int | None


class Gate(Protocol):
    """Admits requests. A refused request is not counted anywhere."""

    def admit_nowait(self, account_id: str, key_id: str) -> Admitted | None:
        """Like `admit`, but without waiting.

        Return None if only the server can decide. The caller must then await `admit`.

        Raises:
            RateLimited, ConcurrencyReached: nothing was counted.
        """
        ...

    async def admit(self, account_id: str, key_id: str, generation: bytes = NO_GENERATION) -> Admitted:
        """Count one request of the key and take a lease. If cancelled, neither happens.

        `generation` comes from the `GenerationPassed` that was raised before the key was looked up again.

        Raises:
            GenerationPassed: the key has changed since it was looked up; nothing was counted.
            RateLimited, ConcurrencyReached: nothing was counted.
            StateUnavailable: the server is unavailable; anything that it has counted will be undone.
        """
        ...

    async def hold(self, account_id: str, key_id: str, *, name: str, limit: int) -> LeaseHandle | None:
        """Take one of `limit` leases that the key has under another name, for example for long-polls.

        Return None if all of them are in use.

        Raises:
            StateUnavailable: as in `admit`.
        """
        ...

    async def change_key(self, account_id: str, key_id: str) -> None:
        """Begin a new generation. Call this before and after the commit of every change to a key.

        Raises:
            StateUnavailable: the new generation begins once the server is back, if it has not begun yet. Until then,
                nodes may use what they have cached about the key for at most `KNOWN_S`.
        """
        ...

    def publish_balance(self, account_id: str, update: BalanceUpdate) -> None:
        """Publish an account's balance to all nodes as soon as the server can be reached."""
        ...

    def resize(self, *, requests: int, concurrent: int) -> None:
        """Apply other limits immediately. Requests admitted earlier still count."""
        ...

    def statistics(self) -> GateStatistics:
        """Return a snapshot of the gate."""
        ...


class Lease:
    """A lease from `Leases`. A second release has no effect.

    A lease ends when it is released or when its process ends. The count lives in the memory of the same process, so a
    lease needs no expiry.
    """

    __slots__ = ("_key", "_leases")

    def __init__(self, leases: Leases, key: Hashable) -> None:
        self._leases: Leases | None = leases
        self._key = key

    def release(self) -> None:
        """Release the lease."""
        leases, self._leases = self._leases, None
        if leases is None:
            return
        held = leases._held
        if held[self._key] > 1:
            held[self._key] -= 1
        else:
            del held[self._key]


class Leases:
    """At most `limit` leases per key. `limit` can be changed at any time without ending leases in use."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """Return the number of keys that hold at least one lease."""
        return len(self._held)

    def take_nowait(self, key: Hashable) -> Lease | None:
        """Return a lease, or None if all leases of the key are in use."""
        held = self._held.get(key, 0)
        if held >= self.limit:
            return None
        self._held[key] = held + 1
        return Lease(self, key)

    def count(self, key: Hashable) -> int:
        """Return the number of leases in use by the key."""
        return self._held.get(key, 0)

    def running(self) -> int:
        """Return the total number of leases in use."""
        return sum(self._held.values())


class MemoryGate:
    """The gate of a node that shares its keys with no other node. `now` is a monotonic clock in seconds."""

    def __init__(self, window: Window, leases: Leases, now: Callable[[], float]) -> None:
        self.window = window
        self.leases = leases
        self._now = now
        self._named: dict[str, Leases] = {}

    def admit_nowait(self, account_id: str, key_id: str) -> Admitted:  # noqa: ARG002 - key ids are unique
        """Like `Gate.admit_nowait`; it never returns None."""
        state = self.window.admit(key_id, self._now())
        lease = self.leases.take_nowait(key_id)
        if lease is None:
            self.window.take_back(key_id)
            raise ConcurrencyReached(self.leases.limit)
        return _admitted((state, lease, None))

    async def admit(self, account_id: str, key_id: str, generation: bytes = NO_GENERATION) -> Admitted:  # noqa: ARG002
        """Like `Gate.admit`. All changes of keys are made on this node, so `generation` is ignored."""
        await trio.lowlevel.checkpoint()
        return self.admit_nowait(account_id, key_id)

    async def hold(self, account_id: str, key_id: str, *, name: str, limit: int) -> LeaseHandle | None:  # noqa: ARG002
        """Like `Gate.hold`."""
        await trio.lowlevel.checkpoint()
        leases = self._named.setdefault(name, Leases(limit))
        leases.limit = limit
        return leases.take_nowait(key_id)

    async def change_key(self, account_id: str, key_id: str) -> None:  # noqa: ARG002
        """Like `Gate.change_key`. No other node caches the key, so this does nothing."""
        await trio.lowlevel.checkpoint()

    def publish_balance(self, account_id: str, update: BalanceUpdate) -> None:
        """Like `Gate.publish_balance`. The node is alone, so this does nothing."""

    def resize(self, *, requests: int, concurrent: int) -> None:
        """Like `Gate.resize`."""
        self.window.resize(requests)
        self.leases.limit = concurrent

    def statistics(self) -> GateStatistics:
        """Like `Gate.statistics`. Leases under other names are not counted."""
        return GateStatistics(self.leases.running(), len(self.leases), len(self.window))
