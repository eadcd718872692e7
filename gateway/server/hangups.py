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


class Hangups:
    """The sockets that are watched. What a client sends meanwhile stays unread: it waits in the kernel for its turn."""

    def __init__(self) -> None:
        """Nothing is watched; its task (`run`) has to run where it is `AVAILABLE`."""
        self._epoll = select.epoll() if sys.platform == "linux" else None
        self._left: dict[int, Callable[[], None]] = {}

    def watch(self, fd: int, left: Callable[[], None]) -> None:
        """Call `left` once the client behind `fd` has closed its side, perhaps at once; before `forget`."""
        assert self._epoll is not None
        self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)
        self._left[fd] = left

    def forget(self, fd: int) -> None:
        """It is not to be called any more; `fd` is still open."""
        assert self._epoll is not None
        self._epoll.unregister(fd)
        self._left.pop(fd, None)

    async def run(self) -> None:
        """Until cancelled: tell."""
        if self._epoll is None:
            return
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for fd, _ in self._epoll.poll(0):
                left = self._left.pop(fd, None)
                if left is not None:
                    left()

    def close(self) -> None:
        """Nobody is watched any more, and nobody will be; once all are forgotten."""
        if self._epoll is not None:
            self._epoll.close()
