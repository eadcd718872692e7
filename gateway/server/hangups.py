"""Tells who holds a request open that its client hangs up: one task and one epoll for all of them.

`receive` tells it too, on any system and any server, but by a wait that somebody has to cancel when there is something
to answer. With that, a parked request costs a cancel scope and six coroutines more, and a third more CPU to wake.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import Final

import trio

AVAILABLE: Final = sys.platform == "linux"
"""Whether sockets are watched by epoll. Elsewhere a held request waits by `receive`, and a refused one by its task."""


class Hangups:
    """The sockets that are watched. What a client sends meanwhile stays unread: it waits in the kernel for its turn.

    The epoll knows a socket from its first request that is held until its close: a client that polls asks again soon.
    """

    def __init__(self) -> None:
        """Nothing is watched; its task (`run`) has to run where it is `AVAILABLE`."""
        self._epoll = select.epoll() if sys.platform == "linux" and AVAILABLE else None
        self._left: dict[int, Callable[[], None] | None] = {}
        """Callbacks by each descriptor that the epoll knows; None while nobody wants to hear of it."""

    def watch(self, fd: int, left: Callable[[], None]) -> None:
        """Call `left` once the client behind `fd` has closed its side, perhaps at once; before `forget`."""
        assert self._epoll is not None
        (self._epoll.modify if fd in self._left else self._epoll.register)(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)
        self._left[fd] = left

    def forget(self, fd: int) -> None:
        """It is not to be called any more."""
        self._left[fd] = None

    def drop(self, fd: int) -> None:
        """Nobody watches `fd`, which is about to be closed, any more, if anybody ever did."""
        if fd in self._left:
            assert self._epoll is not None
            self._epoll.unregister(fd)
            del self._left[fd]

    async def run(self) -> None:
        """Until cancelled: tell."""
        if self._epoll is None:
            return
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for fd, _ in self._epoll.poll(0):
                left = self._left.get(fd)
                if left is not None:
                    self._left[fd] = None
                    left()

    def close(self) -> None:
        """Nobody is watched any more, and nobody will be; once all are forgotten."""
        if self._epoll is not None:
            self._epoll.close()
