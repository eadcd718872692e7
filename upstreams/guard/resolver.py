"""The addresses of a host, from the system's resolver."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, cast
from weakref import WeakValueDictionary

import trio

_THREADS_PER_HOST = 2
_THREADS = 1_000
"""Maximum concurrent lookups over all hosts.

An abandoned lookup lasts up to half a minute. An account that keeps naming new hosts whose name servers do not answer
can have several hundred lookups in progress.
"""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns every address of an ASCII host for a port. Raises OSError if there is none."""
Found = Sequence[tuple[Any, Any, Any, Any, Sequence[Any]]]
"""The result type of `socket.getaddrinfo`."""


class SystemResolver:
    """Calls `getaddrinfo` in threads. An abandoned call ends only when the system gives up.

    A host whose name servers do not answer must not use up threads that other hosts and the storage need. Therefore
    each host has its own limiter instead of Trio's shared one. The limiter is kept as long as a thread for the host
    runs.
    """

    def __init__(self, *, threads: int = _THREADS, lookup: Callable[..., Found] = socket.getaddrinfo) -> None:
        """`threads` limits the threads over all hosts. Further calls wait."""
        self._all = trio.CapacityLimiter(threads)
        self._lookup = lookup
        self._limiters: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """See `Resolve`."""
        limiter = self._limiters.setdefault(host, trio.CapacityLimiter(_THREADS_PER_HOST))
        # Passed as bytes, because Python would convert an international name in its own way.
        ask = partial(self._lookup, host.encode("ascii"), port, type=socket.SOCK_STREAM)
        both = cast("trio.CapacityLimiter", _Both(limiter, self._all))
        found = await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=both)
        return [str(address[0]) for *_, address in found]


class _Both:
    """Two limiters in one, acquired in this order.

    While a task waits for the first, it holds no token of the second.
    """

    def __init__(self, first: trio.CapacityLimiter, second: trio.CapacityLimiter) -> None:
        self._first = first
        self._second = second

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._first.acquire_on_behalf_of(borrower)
        try:
            await self._second.acquire_on_behalf_of(borrower)
        except BaseException:
            self._first.release_on_behalf_of(borrower)
            raise

    def release_on_behalf_of(self, borrower: object) -> None:
        self._second.release_on_behalf_of(borrower)
        self._first.release_on_behalf_of(borrower)
