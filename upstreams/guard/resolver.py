"""The addresses of a host, by the system's resolver."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, cast
from weakref import WeakValueDictionary

import trio

_THREADS_PER_HOST = 2
_THREADS = 1_000
"""The most lookups of all hosts at a time.

A lookup that nobody waits for any more lasts for half a minute: an account that names ever new hosts, whose name
servers are silent, has some hundreds under way.
"""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Every address of a host in ASCII, for a port; raises OSError when there is none to be had."""
Found = Sequence[tuple[Any, Any, Any, Any, Sequence[Any]]]
"""As `socket.getaddrinfo` gives it."""


class SystemResolver:
    """Asks `getaddrinfo`, in threads. One that nobody waits for any more ends only when the system gives up.

    A host whose name servers are silent must not use up the threads that others need, storage among them: so Trio's
    shared limit is left alone and each host has one of its own, kept for as long as a thread of its runs.
    """

    def __init__(self, *, threads: int = _THREADS, lookup: Callable[..., Found] = socket.getaddrinfo) -> None:
        """`threads` bounds those of all hosts together; who comes when they are used up waits."""
        self._all = trio.CapacityLimiter(threads)
        self._lookup = lookup
        self._limiters: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """See `Resolve`."""
        limiter = self._limiters.setdefault(host, trio.CapacityLimiter(_THREADS_PER_HOST))
        # As bytes, since Python reads a text's international labels in a way of its own.
        ask = partial(self._lookup, host.encode("ascii"), port, type=socket.SOCK_STREAM)
        both = cast("trio.CapacityLimiter", _Both(limiter, self._all))
        found = await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=both)
        return [str(address[0]) for *_, address in found]


class _Both:
    """Two limiters as one, taken in this order: who waits for the first takes nothing of the second."""

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
