"""A fixed rate kept by the kernel: a timer that counts its instants also while nobody looks, so that none is lost.

Trio's own sleep wakes up to a millisecond late, because epoll counts milliseconds; this timer does not (Linux only).
"""

import ctypes
import os
from types import TracebackType
from typing import Self

import trio

_CLOCK_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_ABSOLUTE = 1
_SECOND_NS = 1_000_000_000
_COUNT_BYTES = 8


class _Spec(ctypes.Structure):
    """`struct itimerspec`: the interval, then the first instant, each as seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("interval_s", "interval_ns", "first_s", "first_ns"))


class Ticker:
    """Counts the instants `first_ns`, `first_ns + interval_ns`, ... of CLOCK_MONOTONIC. One task waits on it."""

    def __init__(self, *, first_ns: int, interval_ns: int) -> None:
        """The timer runs from here on; a first instant in the past is due at once, with all that followed it."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        spec = _Spec(*divmod(interval_ns, _SECOND_NS), *divmod(first_ns, _SECOND_NS))
        if self._fd < 0 or libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(spec), None) < 0:
            raise OSError(ctypes.get_errno(), "the kernel gives no timer")

    async def wait_due(self) -> int:
        """Wait for the next instant; how many have come since the last call, at least 1."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            try:
                return int.from_bytes(os.read(self._fd, _COUNT_BYTES), "little")
            except BlockingIOError:
                continue

    def __enter__(self) -> Self:
        """The ticker itself; leaving ends the timer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """End the timer."""
        os.close(self._fd)
