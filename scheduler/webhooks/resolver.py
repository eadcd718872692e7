"""The addresses of a host, by the system's resolver."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from weakref import WeakValueDictionary

import trio

_THREADS_PER_HOST = 2

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Every address of a host in ASCII, for a port; raises OSError when there is none to be had."""


class SystemResolver:
    """Asks `getaddrinfo`, in threads. One that nobody waits for any more ends only when the system gives up.

    A host whose name servers are silent must not use up the threads that others need, storage among them: so Trio's
    shared limit is left alone and each host has one of its own, kept for as long as a thread of its runs.
    """

    def __init__(self, shared: trio.CapacityLimiter | None = None) -> None:
        """`shared` bounds the threads of all hosts together, for who can do without an answer."""
        self._shared = shared
        self._limiters: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """See `Resolve`."""
        limiter = self._shared or self._limiters.setdefault(host, trio.CapacityLimiter(_THREADS_PER_HOST))
        # As bytes, since Python reads a text's international labels in a way of its own.
        ask = partial(socket.getaddrinfo, host.encode("ascii"), port, type=socket.SOCK_STREAM)
        found = await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=limiter)
        return [str(address[0]) for *_, address in found]
