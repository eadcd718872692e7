"""The gate: one API key's window and leases, for one node in memory or for all nodes together.

Both forms (`MemoryGate`, `limits.shared_gate.SharedGate`) hold the same contract, `tests/limits/test_gate.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

import trio

from limits.errors import ConcurrencyReached, WindowState
from limits.window import Window

KNOWN_S = 30.0
"""For how long a node may believe what it has read of a key."""

NO_GENERATION = b""
"""The generation of a key that was not changed for so long that no node remembers an older state."""


class LeaseHandle(Protocol):
    """A held place. Releasing it twice is the same as once."""

    def release(self) -> None:
        """Give the place back; at once here, and soon elsewhere."""
        ...


class BalanceUpdate(NamedTuple):
    """A balance that was published after a commit; the account's higher version is the newer one."""

    version: int
    balance: int


class Admitted(NamedTuple):
    """A request that was counted and holds a lease; `balance` is the account's last known one, if any is."""

    window: WindowState
    lease: LeaseHandle
    balance: BalanceUpdate | None = None


class GateStatistics(NamedTuple):
    """The leases that this node holds, and the keys with requests in a window: None where only the server knows."""

    leases: int
    lease_keys: int
    window_keys: int | None


class Gate(Protocol):
    """Guards the way in; who has been refused was not counted anywhere."""

    def admit_nowait(self, account_id: str, key_id: str) -> Admitted | None:
        """As `admit` for who need not ask anybody; None: `admit` has to be awaited.

        Raises:
            RateLimited, ConcurrencyReached: nothing was counted.
        """
        ...

    async def admit(self, account_id: str, key_id: str, generation: bytes = NO_GENERATION) -> Admitted:
        """Count one request of the key and take a lease; cancelled, neither.

        `generation` is the one of `GenerationPassed`, where it was raised before the key was looked up.

        Raises:
            GenerationPassed: the key was changed since it was looked up; nothing was counted.
            RateLimited, ConcurrencyReached: nothing was counted.
            StateUnavailable: who counts cannot be asked; what it may have counted is taken back when it can.
        """
        ...

    async def hold(self, account_id: str, key_id: str, *, name: str, limit: int) -> LeaseHandle | None:
        """Take one of the key's `limit` leases of another name, such as a long-poll's; None when all are held.

        Raises:
            StateUnavailable: as `admit`.
        """
        ...

    async def change_key(self, account_id: str, key_id: str) -> None:
        """Begin a new generation; called before and after the commit of every change of a key.

        Raises:
            StateUnavailable: it may not have begun, and begins once that can be said; until then nodes that know the
                key believe it, for `KNOWN_S` at most.
        """
        ...

    def publish_balance(self, account_id: str, update: BalanceUpdate) -> None:
        """Let every node know an account's balance, once that can be said."""
        ...

    def resize(self, *, requests: int, concurrent: int) -> None:
        """Take other limits, and hold them at once: what was admitted before goes on counting."""
        ...

    def statistics(self) -> GateStatistics:
        """The record of this moment."""
        ...


class Lease:
    """One place that `Leases` gave. Releasing it twice is the same as once.

    In memory it ends by its release or with its process, which takes the count along; so it needs no expiry here.
    """

    __slots__ = ("_key", "_leases")

    def __init__(self, leases: Leases, key: Hashable) -> None:
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


class MemoryGate:
    """The gate of a node that has its keys to itself. `now` is a monotonic clock in seconds."""

    def __init__(self, window: Window, leases: Leases, now: Callable[[], float]) -> None:
        self.window = window
        self.leases = leases
        self._now = now
        self._named: dict[str, Leases] = {}

    def admit_nowait(self, account_id: str, key_id: str) -> Admitted:  # noqa: ARG002 - key ids are unique
        """As `Gate.admit_nowait`; it always knows."""
        state = self.window.admit(key_id, self._now())
        lease = self.leases.take_nowait(key_id)
        if lease is None:
            self.window.take_back(key_id)
            raise ConcurrencyReached(self.leases.limit)
        return tuple.__new__(Admitted, (state, lease, None))  # as `Admitted(...)`, at a third of its cost

    async def admit(self, account_id: str, key_id: str, generation: bytes = NO_GENERATION) -> Admitted:  # noqa: ARG002
        """As `Gate.admit`; every change of a key is made here, so its generation tells nothing."""
        await trio.lowlevel.checkpoint()
        return self.admit_nowait(account_id, key_id)

    async def hold(self, account_id: str, key_id: str, *, name: str, limit: int) -> LeaseHandle | None:  # noqa: ARG002
        """As `Gate.hold`."""
        await trio.lowlevel.checkpoint()
        leases = self._named.setdefault(name, Leases(limit))
        leases.limit = limit
        return leases.take_nowait(key_id)

    async def change_key(self, account_id: str, key_id: str) -> None:  # noqa: ARG002
        """As `Gate.change_key`; nobody else remembers the key."""
        await trio.lowlevel.checkpoint()

    def publish_balance(self, account_id: str, update: BalanceUpdate) -> None:
        """As `Gate.publish_balance`; nobody else wants to know."""

    def resize(self, *, requests: int, concurrent: int) -> None:
        """As `Gate.resize`."""
        self.window.resize(requests)
        self.leases.limit = concurrent

    def statistics(self) -> GateStatistics:
        """As `Gate.statistics`; leases of another name are not counted."""
        return GateStatistics(self.leases.running(), len(self.leases), len(self.window))
