"""Calls a callback when the client of a waiting request disconnects. One task and one epoll watch all clients.

ASGI's `receive` also reports a disconnect, on any system and any server. But an app would have to wait for it, and
cancel that wait when the response is ready. For a parked request this means one more cancel scope and six more
coroutines, and waking it would cost a third more CPU.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import Final

import trio

AVAILABLE: Final = sys.platform == "linux"
"""Whether epoll is available. Without it, a waiting request detects a disconnect with `receive`."""


class Hangups:
    """The sockets whose clients are watched. Data that the clients send is not read.

    A socket stays registered with epoll from its first waiting request until it is closed, because a polling client
    soon polls again.
    """

    def __init__(self) -> None:
        """Create the epoll, if there is one, without sockets. If `AVAILABLE` is set, a task must run `run`."""
        self._epoll = select.epoll() if sys.platform == "linux" and AVAILABLE else None
        self._left: dict[int, Callable[[], None] | None] = {}
        """The callback of each registered descriptor; None while no request waits."""

    def watch(self, fd: int, left: Callable[[], None]) -> None:
        """Call `left` when the client of `fd` closes its side, which may be immediately.

        `forget` removes the callback.
        """
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
        """Until cancelled, call the callbacks when clients disconnect."""
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
        """Close the epoll. Remove all callbacks first, and add none afterward."""
        if self._epoll is not None:
            self._epoll.close()
