"""The response cache of several nodes: first this node's memory, then the shared state. One call serves all nodes.

After a miss, a node takes a turn: it finds the response, makes the call under a lock (it leads), or waits for the node
that leads. A lock is short and is renewed while the call runs, so that another node can lead soon after a node dies.
The lock never outlives the deadline of the call, and it is fenced: a node that lost its lock stores nothing. While the
server is unavailable, every node works separately.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from secrets import token_hex

import trio

from storage.errors import StateUnavailable
from storage.state import RECHECK, Reply, State, read_script
from storage.supervision import Keep, unsupervised
from upstreams.cache.response_cache import Cache

BODY_BYTES_MAX = 256 * 1024
POLL_S = 0.5  # finds a new response even if the message about it was lost
LOCK_S = 2.0
RENEW_S = 0.5
LANDED = b"sluice:landed"
RENEWED = b"sluice:renewed"


@dataclass(frozen=True, slots=True)
class SharedCacheStatistics:
    """Counts since startup: responses from other nodes, waits for other nodes' calls, and calls without the server."""

    found_total: int
    waited_total: int
    alone_total: int


class CacheTurn:
    """The result of a turn. Either `found` is set, or the caller leads: it makes the call and may `keep` its response.

    `waited_s` is the time spent waiting for calls of other nodes.
    """

    __slots__ = ("_keep", "found", "waited_s")

    def __init__(self, found: bytes | None, waited_s: float, keep: Callable[[bytes, float], None]) -> None:
        self.found = found
        self.waited_s = waited_s
        self._keep = keep

    def keep(self, body: bytes, ttl_s: float) -> None:
        """Store the response on this node and, unless it is too long or the lock was lost, for all nodes.

        Call this method at most once per turn.
        """
        self._keep(body, ttl_s)


class SharedCache:
    """Responses that all nodes share; opened by `open_shared_cache`. While `local` is disabled, nothing is shared."""

    def __init__(self, local: Cache, state: State) -> None:
        self.local = local
        self._state = state
        self._turn, self._renew, self._end, self._put = (
            read_script("upstreams", name) for name in ("cache_turn", "cache_renew", "cache_end", "cache_put")
        )
        self._waiters: dict[bytes, set[trio.Event]] = {}
        # Maps each lock token to the name of its request and the deadline of its call.
        self._locks: dict[bytes, tuple[bytes, float]] = {}
        self._node = token_hex(6).encode()
        self._tokens = count()
        self._found = self._waited = self._alone = 0

    @asynccontextmanager
    async def turn(self, key: bytes, deadline_at: float, *, waits: bool = True) -> AsyncIterator[CacheTurn]:
        """Yield a turn. While another node makes the call, wait for its response until `deadline_at` on Trio's clock.

        If `waits` is False, the caller leads even if another node's call is in progress. In that case, only a response
        that is already stored is shared.

        Raises:
            trio.TooSlowError: The call of another node did not end in time.
        """
        name, token = _name(key), b"%b%x" % (self._node, next(self._tokens))
        found, waited_s = await self._find(key, name, token, deadline_at=deadline_at, waits=waits)
        if found is not None:
            yield CacheTurn(found, waited_s, lambda _body, _ttl_s: None)
            return
        is_ended = False

        def keep(body: bytes, ttl_s: float) -> None:
            nonlocal is_ended
            self.local.put(key, body, ttl_s)
            if self._is_shared(body):
                is_ended = True
                self._finish(name, token, body, ttl_s)

        try:
            yield CacheTurn(None, waited_s, keep)
        finally:
            if not is_ended:
                self._finish(name, token, b"", 0)

    async def holds(self, key: bytes) -> bool:
        """Return whether a turn would find a response now, without waiting."""
        if self.local.holds(key):
            return True
        try:
            return self.local.bytes_max > 0 and bool(await self._state.call(b"EXISTS", _keys(_name(key))[0]))
        except StateUnavailable:
            return False

    def put(self, key: bytes, body: bytes, ttl_s: float) -> None:
        """Store a response to a request for fresh data, without a turn; other nodes drop their copies."""
        self.local.put(key, body, ttl_s)
        stored = (body, _ms(ttl_s)) if self._is_shared(body) else (b"", b"0")
        self._state.run_nowait(self._put, _keys(_name(key))[:1], (*stored, RENEWED, self._node + key))

    def statistics(self) -> SharedCacheStatistics:
        """Return the current statistics."""
        return SharedCacheStatistics(self._found, self._waited, self._alone)

    def _is_shared(self, body: bytes) -> bool:
        return len(body) <= min(BODY_BYTES_MAX, self.local.bytes_max)

    async def _find(
        self, key: bytes, name: bytes, token: bytes, *, deadline_at: float, waits: bool
    ) -> tuple[bytes | None, float]:
        """Return the response, or None if the caller leads; and the time spent waiting for other nodes."""
        waited_s, has_waited = 0.0, False
        while self.local.bytes_max > 0:
            with self._waiting(name) as ended:  # registered before the request is sent, so that no message is missed
                match await self._ask(name, token, deadline_at):
                    case [2, bytes() as body, int() as ttl_ms]:
                        self._found += 1
                        self.local.put(key, body, ttl_ms / 1000)
                        return body, waited_s
                    case [0, int() as lock_ms] if waits:
                        self._waited += not has_waited
                        has_waited = True
                        waited_s += await self._wait(ended, lock_ms / 1000, deadline_at)
                    case [1]:
                        self._locks[token] = name, deadline_at
                        break
                    case _:
                        break
        return None, waited_s

    @contextmanager
    def _waiting(self, name: bytes) -> Iterator[trio.Event]:
        """Yield an event that is set when another node reports that its call has ended."""
        ended = trio.Event()
        self._waiters.setdefault(name, set()).add(ended)
        try:
            yield ended
        finally:
            self._waiters[name].discard(ended)
            if not self._waiters[name]:
                del self._waiters[name]

    async def _ask(self, name: bytes, token: bytes, deadline_at: float) -> Reply:
        try:
            return await self._state.run(self._turn, _keys(name), (token, _lock_ms(deadline_at)))
        except trio.Cancelled:
            self._finish(name, token, b"", 0)
            raise
        except StateUnavailable:
            self._alone += 1
            return None

    async def _wait(self, ended: trio.Event, lock_s: float, deadline_at: float) -> float:
        """Wait a short time for a message from another node. Return the time waited."""
        began = trio.current_time()
        if began >= deadline_at:
            raise trio.TooSlowError
        with trio.move_on_at(min(deadline_at, began + min(POLL_S, max(lock_s, 0.0) + 0.001))):
            await ended.wait()
        return trio.current_time() - began

    def _finish(self, name: bytes, token: bytes, body: bytes, ttl_s: float) -> None:
        self._locks.pop(token, None)
        self._state.run_nowait(self._end, _keys(name), (token, body, _ms(ttl_s), LANDED, name))

    async def renew(self) -> None:
        """Renew the locks of long calls until cancelled. Calls that end within one interval cause no renewal."""
        before: set[bytes] = set()
        while True:
            await trio.sleep(RENEW_S)
            for token in before & self._locks.keys():
                name, deadline_at = self._locks[token]
                self._state.run_nowait(self._renew, _keys(name)[1:], (token, _lock_ms(deadline_at)))
            before = set(self._locks)

    async def listen(self) -> None:
        """Wake waiting tasks when another node reports that its call has ended. Runs until cancelled."""
        async with self._state.subscribe(LANDED) as messages:
            async for name in messages:
                names = list(self._waiters) if name == RECHECK else [name]
                for ended in [event for one in names for event in self._waiters.get(one, ())]:
                    ended.set()

    async def forget_renewed(self) -> None:
        """Drop entries that another node refreshed.

        Runs until cancelled. If a message is lost, the old entry expires by its TTL.
        """
        async with self._state.subscribe(RENEWED) as messages:
            async for message in messages:
                if not message.startswith(self._node):
                    self.local.forget(message[len(self._node) :])


def _name(key: bytes) -> bytes:
    """Return the name of a canonical request on all nodes. It is a digest, because the request may be long."""
    return blake2b(key, digest_size=16).hexdigest().encode()


def _keys(name: bytes) -> tuple[bytes, bytes]:
    return b"sluice:{%b}:answer" % name, b"sluice:{%b}:lock" % name


def _lock_ms(deadline_at: float) -> bytes:
    return _ms(max(0.001, min(LOCK_S, deadline_at - trio.current_time())))


def _ms(seconds: float) -> bytes:
    return b"%d" % (seconds * 1000)


@asynccontextmanager
async def open_shared_cache(local: Cache, state: State, *, keep: Keep = unsupervised) -> AsyncIterator[SharedCache]:
    """Open this node's side of the shared cache."""
    cache = SharedCache(local, state)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep, "cache_locks", cache.renew)
        nursery.start_soon(keep, "cache_landings", cache.listen)
        nursery.start_soon(keep, "cache_renewals", cache.forget_renewed)
        yield cache
        nursery.cancel_scope.cancel()
