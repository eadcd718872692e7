"""File descriptors 0, 1 and 2: open missing ones, and write to them without blocking other work."""

from __future__ import annotations

import errno
import os
import select
from functools import partial

STDIN, STDOUT, STDERR = 0, 1, 2


def open_missing() -> None:
    """Open missing descriptors on /dev/null. Otherwise the next file or socket would get their numbers."""
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError as exc:
            if exc.errno != errno.EBADF:
                raise
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor  # `open` returns the lowest free number
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - the stdlib's signature


def discard(descriptor: int) -> None:
    """Redirect a descriptor to /dev/null, because its reader no longer accepts data."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data without buffering. This may block for any time.

    Raises:
        OSError: the data cannot be written.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another process that shares the descriptor made it non-blocking
            wait_writable(descriptor)


def wait_writable(descriptor: int, within_s: float | None = None) -> bool:
    """Wait until a write would not block, and return True; False after a timeout.

    A write that would fail immediately does not block either.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return bool(poller.poll(None if within_s is None else within_s * 1000))


async def print_out(data: bytes) -> None:
    """Write to stdout without blocking other tasks. After a cancellation, the data may be written only in part.

    Raises:
        OSError: the data cannot be written.
    """
    import trio  # noqa: PLC0415 - short commands do not need it

    await trio.to_thread.run_sync(partial(write_all, STDOUT, data), abandon_on_cancel=True)
