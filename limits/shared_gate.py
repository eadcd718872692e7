"""The gate of many nodes: a script on the server checks window, leases and generation.

The script uses the server's clock, so the nodes' clocks do not matter. A node's heartbeat renews its leases, and the
leases of a dead node expire. If the server loses its data, windows start empty, and the next heartbeat restores the
leases.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from secrets import token_hex
from typing import TypeAlias, TypeVar

import trio

from limits.errors import ConcurrencyReached, GenerationPassed, RateLimited, WindowState
from limits.gate import KNOWN_S, NO_GENERATION, Admitted, BalanceUpdate, GateStatistics
from storage.errors import StateUnavailable
from storage.state import Reply, Script, State, read_script
from storage.supervision import Keep, unsupervised

# Redis keeps a key's generation for longer than any node caches the key. So if a key has no generation, no node
# caches a state from before the key's last change.
GENERATION_S = 20 * KNOWN_S
BALANCE_S = 3600.0
UNSENT_MAX = 10_000

_T = TypeVar("_T")
_GateKeys: TypeAlias = tuple[bytes, bytes]  # the keys of a window and of its leases


@dataclass(frozen=True, slots=True)
class GateSpans:
    """The seconds that a window and a lease last, and the seconds between two renewals of a node's leases."""

    window_s: float = 60.0
    lease_s: float = 30.0
    renew_s: float = 10.0


DEFAULT_SPANS = GateSpans()


@dataclass(frozen=True, slots=True)
class GateScripts:
    """The scripts that run on the server."""

    admit: Script
    hold: Script
    renew: Script
    undo: Script
    publish_balance: Script


def read_gate_scripts() -> GateScripts:
    """Return the packaged scripts."""
    return GateScripts(**{name: read_script("limits", name) for name in GateScripts.__slots__})


class SharedLease:
    """A lease that its node renews until it is released."""

    __slots__ = ("_gate", "_id", "_leases")

    def __init__(self, gate: SharedGate, leases: bytes, lease_id: bytes) -> None:
        self._gate: SharedGate | None = gate
        self._leases = leases
        self._id = lease_id

    def release(self) -> None:
        """Release the lease. If the server cannot be reached, the lease stays in use until it expires."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate._release(self._leases, self._id)


class SharedGate:
    """Implements `limits.gate.Gate`. Open it with `open_shared_gate`."""

    def __init__(self, state: State, scripts: GateScripts, *, requests: int, concurrent: int, spans: GateSpans) -> None:
        self._state = state
        self._scripts = scripts
        self._window_us, self._lease_us = b"%d" % (spans.window_s * 1e6), b"%d" % (spans.lease_s * 1e6)
        self._renew_s = spans.renew_s
        self._ids = count()
        self._node = token_hex(6).encode()
        self._held: dict[bytes, set[bytes]] = {}
        self._doubtful: dict[bytes, _GateKeys] = {}
        self._unreleased: dict[bytes, bytes] = {}
        self._unchanged: dict[bytes, None] = {}
        self._unpublished: dict[bytes, BalanceUpdate] = {}
        self._renew_now = trio.Event()
        self.resize(requests=requests, concurrent=concurrent)
        state.on_connect(self._connected)

    def __len__(self) -> int:
        """Return the number of leases of this node."""
        return sum(len(ids) for ids in self._held.values())

    def admit_nowait(self, account_id: str, key_id: str) -> None:  # noqa: ARG002 - neither is needed
        """Like `Gate.admit_nowait`. Always returns None, because admitting needs the server."""
        return

    async def admit(self, account_id: str, key_id: str, generation: bytes = NO_GENERATION) -> Admitted:
        """Like `Gate.admit`."""
        account, key = account_id.encode(), key_id.encode()
        place = b"sluice:{%b}:window:%b" % (account, key), b"sluice:{%b}:leases:%b" % (account, key)
        keys = (*place, _generation_key(account, key), b"sluice:{%b}:balance" % account)
        lease_id = b"%b%x" % (self._node, next(self._ids))
        try:
            reply = await self._state.run(
                self._scripts.admit,
                keys,
                (generation, self._requests_arg, self._concurrent_arg, lease_id, self._window_us, self._lease_us),
            )
        except trio.Cancelled:
            self._undo(lease_id, place)
            raise
        except StateUnavailable as exc:
            if exc.happened is None:
                _remember(self._doubtful, lease_id, place)
            raise
        return self._read(reply, place[1], lease_id)

    def _read(self, reply: Reply, leases: bytes, lease_id: bytes) -> Admitted:
        match reply:
            case [1, _, int() as remaining, int() as reset_s, bytes() as update]:
                return Admitted(
                    WindowState(self._requests, remaining, reset_s), self._keep(leases, lease_id), _balance_of(update)
                )
            case [0, _, _, int() as reset_s, _]:
                raise RateLimited(WindowState(self._requests, 0, reset_s))
            case [-1, *_]:
                raise ConcurrencyReached(self._concurrent)
            case [-2, bytes() as generation, *_]:
                raise GenerationPassed(generation)
        raise AssertionError(f"the script admit answered {reply!r}")

    async def hold(self, account_id: str, key_id: str, *, name: str, limit: int) -> SharedLease | None:
        """Like `Gate.hold`."""
        leases = f"sluice:{{{account_id}}}:{name}:{key_id}".encode()
        lease_id = b"%b%x" % (self._node, next(self._ids))
        try:
            taken = await self._state.run(self._scripts.hold, (leases,), (b"%d" % limit, lease_id, self._lease_us))
        except trio.Cancelled:
            self._release(leases, lease_id)
            raise
        return self._keep(leases, lease_id) if taken else None

    async def change_key(self, account_id: str, key_id: str) -> None:
        """Like `Gate.change_key`."""
        key = _generation_key(account_id.encode(), key_id.encode())
        try:
            await self._state.call(b"SET", key, *_new_generation())
        except (StateUnavailable, trio.Cancelled):
            _remember(self._unchanged, key, None)
            raise

    def _send_change(self, key: bytes) -> None:
        on_loss = partial(_remember, self._unchanged, key, None)
        self._state.call_nowait(b"SET", key, *_new_generation(), on_loss=on_loss)

    def publish_balance(self, account_id: str, update: BalanceUpdate) -> None:
        """Like `Gate.publish_balance`."""
        self._publish(b"sluice:{%b}:balance" % account_id.encode(), update)

    def _publish(self, key: bytes, update: BalanceUpdate) -> None:
        args = (b"%d" % update.version, b"%d" % update.balance, b"%d" % (BALANCE_S * 1000))
        on_loss = partial(_remember, self._unpublished, key, update)
        self._state.run_nowait(self._scripts.publish_balance, (key,), args, on_loss=on_loss)

    def resize(self, *, requests: int, concurrent: int) -> None:
        """Like `Gate.resize`. Other nodes keep their own limits until they reload."""
        self._requests, self._concurrent = requests, concurrent
        self._requests_arg, self._concurrent_arg = b"%d" % requests, b"%d" % concurrent

    def statistics(self) -> GateStatistics:
        """Like `Gate.statistics`."""
        return GateStatistics(len(self), len(self._held), None)

    def _keep(self, leases: bytes, lease_id: bytes) -> SharedLease:
        self._held.setdefault(leases, set()).add(lease_id)
        return SharedLease(self, leases, lease_id)

    def _release(self, leases: bytes, lease_id: bytes) -> None:
        ids = self._held.get(leases)
        if ids is not None:
            ids.discard(lease_id)
            if not ids:
                del self._held[leases]
        self._send_release(leases, lease_id)

    def _send_release(self, leases: bytes, lease_id: bytes) -> None:
        """Send a release to the server. If the connection is lost, send it again after the next connect.

        Otherwise the lease would stay in use until it expires.
        """
        on_loss = partial(_remember, self._unreleased, lease_id, leases)
        self._state.call_nowait(b"ZREM", leases, lease_id, on_loss=on_loss)

    def _undo(self, lease_id: bytes, place: _GateKeys) -> None:
        on_loss = partial(_remember, self._doubtful, lease_id, place)
        self._state.run_nowait(self._scripts.undo, place, (lease_id, self._lease_us), on_loss=on_loss)

    async def beat(self) -> None:
        """Renew leases and resend lost messages, every `renew_s` and after every connect."""
        while True:
            self._renew_now = trio.Event()
            self._send_again()
            await self.renew()
            with trio.move_on_after(self._renew_s):
                await self._renew_now.wait()

    def _send_again(self) -> None:
        for lease_id, place in _take_all(self._doubtful):
            self._undo(lease_id, place)
        for lease_id, leases in _take_all(self._unreleased):
            self._send_release(leases, lease_id)
        for key, _ in _take_all(self._unchanged):
            self._send_change(key)
        for key, update in _take_all(self._unpublished):
            self._publish(key, update)

    def _connected(self) -> None:
        self._renew_now.set()

    async def renew(self) -> None:
        """Renew all leases of this node for their full length, and restore those that the server has lost."""
        held = [(leases, tuple(ids)) for leases, ids in self._held.items()]
        await self._state.run_all(self._scripts.renew, [((leases,), (self._lease_us, *ids)) for leases, ids in held])
        # The script may have restored leases that were released while it ran, so these are released again.
        for leases, ids in held:
            for lease_id in set(ids) - self._held.get(leases, set()):
                self._send_release(leases, lease_id)


def _remember(unsent: dict[bytes, _T], of: bytes, what: _T) -> None:
    """Store a message to send again.

    Above the maximum, the oldest message is dropped. The effect is temporary: leases and cached state expire anyway.
    """
    unsent[of] = what
    if len(unsent) > UNSENT_MAX:
        del unsent[next(iter(unsent))]


def _take_all(unsent: dict[bytes, _T]) -> list[tuple[bytes, _T]]:
    """Clear `unsent` and return its entries. `_remember` puts an entry back if its message is lost again."""
    taken = list(unsent.items())
    unsent.clear()
    return taken


def _generation_key(account: bytes, key: bytes) -> bytes:
    return b"sluice:{%b}:generation:%b" % (account, key)


def _new_generation() -> tuple[bytes, bytes, bytes]:
    """Return the arguments that set a new token and its expiry."""
    return token_hex(8).encode(), b"PX", b"%d" % (GENERATION_S * 1000)


def _balance_of(text: bytes) -> BalanceUpdate | None:
    """Parse a balance from the text that the script `publish_balance` stores."""
    if not text:
        return None
    version, _, balance = text.partition(b" ")
    return BalanceUpdate(int(version), int(balance))


@asynccontextmanager
async def open_shared_gate(
    state: State,
    *,
    requests: int,
    concurrent: int,
    scripts: GateScripts | None = None,
    spans: GateSpans = DEFAULT_SPANS,
    keep: Keep = unsupervised,
) -> AsyncIterator[SharedGate]:
    """Open the gate of this node, which shares its keys with other nodes. Renew its leases while the block runs."""
    gate = SharedGate(state, scripts or read_gate_scripts(), requests=requests, concurrent=concurrent, spans=spans)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep, "gate_beat", gate.beat)
        yield gate
        nursery.cancel_scope.cancel()
