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
"""Maximum concurrent lookups of all hosts.

An abandoned lookup lasts up to half a minute. An account that keeps naming new hosts with silent name servers has some
hundreds in progress.
"""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns every address of an ASCII host, for a port; raises OSError if there is none."""
Found = Sequence[tuple[Any, Any, Any, Any, Sequence[Any]]]
"""The result of `socket.getaddrinfo`."""


class SystemResolver:
    """Calls `getaddrinfo` in threads. An abandoned call ends only when the system gives up.

    A host with silent name servers must not use up the threads that others need, including storage. Therefore each host
    has its own limiter instead of Trio's shared one, which is kept while a thread for the host runs.
    """

    def __init__(self, *, threads: int = _THREADS, lookup: Callable[..., Found] = socket.getaddrinfo) -> None:
        """`threads` limits the threads for all hosts together; further calls wait."""
        self._all = trio.CapacityLimiter(threads)
        self._lookup = lookup
        self._limiters: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """See `Resolve`."""
        limiter = self._limiters.setdefault(host, trio.CapacityLimiter(_THREADS_PER_HOST))
        # As bytes, because Python converts international labels of a text in its own way.
        ask = partial(self._lookup, host.encode("ascii"), port, type=socket.SOCK_STREAM)
        both = cast("trio.CapacityLimiter", _Both(limiter, self._all))
        found = await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=both)
        return [str(address[0]) for *_, address in found]


class _Both:
    """Two limiters as one, acquired in this order: a task that waits for the first holds nothing of the second."""

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
