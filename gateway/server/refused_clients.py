"""Refuses further requests from clients that were refused because of overload, in one task with one epoll.

An overloaded node refuses most requests. A task switch for each refusal would cost three times as much as the refusal
itself. Thousands of them in one pass of the event loop would delay the requests that are served. This module therefore
reads and refuses a limited number of requests in each pass. If a request is not a plain repetition of an earlier one,
the connection's own task handles it.
"""

from __future__ import annotations

import math
import select
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import outcome
import trio

from gateway.server.errors import ClientGone
from gateway.server.hangups import AVAILABLE
from gateway.server.wire import HEAD_READ_BYTES, Wire

AT_ONCE: Final = 64
SLICE_S: Final = 0.008
"""How many seconds refusals may delay a pass of the event loop.

After that, the remaining clients wait for the next pass.
"""

Judge = Callable[[bytes], bytes | bool]
"""Decides on a request.

Returns the response that refuses it, True to serve it, or False to let its connection decide.
"""


class RefusedClients:
    """Connections of refused clients that wait for the next request.

    When `wait_next` returns, the connection's own task continues.
    """

    def __init__(self) -> None:
        """Create the epoll, if there is one, without connections. A task must run `run`."""
        self._epoll = select.epoll() if sys.platform == "linux" and AVAILABLE else None
        self._waiting: dict[int, tuple[Wire, trio.lowlevel.Task]] = {}

    async def wait_next(self, wire: Wire, read_by: float) -> bool | None:
        """Refuse the client's requests until one arrives that its connection must handle.

        Store that request in `wire.unread`.

        Return True if the request must be served, False if the connection must decide, and None if the client has
        ended.

        Raises:
            ClientGone: the client does not read its refusals.
        """
        if self._epoll is None:
            return False
        self._waiting[wire.fd] = wire, trio.lowlevel.current_task()
        self._epoll.register(wire.fd, select.EPOLLIN | select.EPOLLRDHUP)
        wire.read_by = read_by
        wire.wake_parked = partial(self._release, wire.fd)
        owed, is_served = await trio.lowlevel.wait_task_rescheduled(partial(self._abandon, wire.fd))
        if owed:
            await wire.write(owed)
        elif not wire.unread:
            wire.unread = b"" if wire.ended else wire.read_nowait(HEAD_READ_BYTES)
            if not wire.unread:
                return None
        return bool(is_served)

    async def run(self, judge: Judge, *, idle_s: float, now: Callable[[], float]) -> None:
        """Until cancelled, read requests of the waiting clients and refuse them.

        A client counts as idle after `idle_s` without data. `now` is the clock.
        """
        if self._epoll is None:
            return
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            began_at = at = now()
            while at < began_at + SLICE_S and (ready := self._epoll.poll(0, AT_ONCE)):
                for fd, _ in ready:
                    self._serve(fd, judge, at + idle_s)
                at = now()

    def close(self) -> None:
        """Close the epoll. No connection may be waiting."""
        if self._epoll is not None:
            self._epoll.close()

    def _serve(self, fd: int, judge: Judge, read_by: float) -> None:
        """Refuse a client's request, or wake its connection's task to handle the request."""
        wire, _ = self._waiting[fd]
        data = wire.read_nowait(HEAD_READ_BYTES)
        if not data:
            if wire.ended:
                self._release(fd)
            return
        verdict = judge(data)
        if isinstance(verdict, bool):
            wire.unread = data
            self._release(fd, is_served=verdict)
            return
        wire.read_by = read_by
        try:
            sent = wire.write_nowait(verdict)
        except ClientGone:
            sent = 0  # the connection's task will get the same error
        if sent < len(verdict):
            self._release(fd, verdict[sent:])

    def _release(self, fd: int, owed: bytes = b"", *, is_served: bool = False) -> None:
        task = self._forget(fd)
        trio.lowlevel.reschedule(task, outcome.Value((owed, is_served)))

    def _abandon(self, fd: int, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._forget(fd)
        return trio.lowlevel.Abort.SUCCEEDED

    def _forget(self, fd: int) -> trio.lowlevel.Task:
        assert self._epoll is not None
        wire, task = self._waiting.pop(fd)
        self._epoll.unregister(fd)
        wire.read_by = math.inf
        wire.wake_parked = None
        return task
