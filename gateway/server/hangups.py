"""Notifies the holders of open requests when their clients disconnect, with one task and one epoll for all.

`receive` also reports a disconnect, on any system and any server, but the caller must wait for it and cancel that wait
when the response is ready. That costs a parked request one more cancel scope, six more coroutines, and a third more CPU
to wake it.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import Final

import trio

AVAILABLE: Final = sys.platform == "linux"
"""Whether epoll watches the sockets. On other systems a held request waits in `receive`, a refused one in its task."""


class Hangups:
    """The watched sockets. Data from their clients stays unread in the kernel.

    The epoll keeps a socket from its first held request until its close, because a polling client soon polls again.
    """

    def __init__(self) -> None:
        """Start without watched sockets. If `AVAILABLE` is set, the task `run` must be running."""
        self._epoll = select.epoll() if sys.platform == "linux" and AVAILABLE else None
        self._left: dict[int, Callable[[], None] | None] = {}
        """Callbacks by registered descriptor; None while unwatched."""

    def watch(self, fd: int, left: Callable[[], None]) -> None:
        """Call `left` when the client of `fd` closes its side, perhaps immediately. `forget` removes the callback."""
        assert self._epoll is not None
        (self._epoll.modify if fd in self._left else self._epoll.register)(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)
        self._left[fd] = left

    def forget(self, fd: int) -> None:
        """Remove the callback of `fd`."""
        self._left[fd] = None

    def drop(self, fd: int) -> None:
        """Remove a descriptor that is about to be closed, if it was ever registered."""
        if fd in self._left:
            assert self._epoll is not None
            self._epoll.unregister(fd)
            del self._left[fd]

    async def run(self) -> None:
        """Until cancelled, call the callbacks of clients that disconnect."""
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
        """Stop watching. All callbacks must have been removed, and none can be added afterwards."""
        if self._epoll is not None:
            self._epoll.close()
