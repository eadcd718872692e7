"""Descriptors 0, 1 and 2: they are there, and nothing that is written to them stops the program's other work."""

from __future__ import annotations

import errno
import os
import select
from functools import partial

STDIN, STDOUT, STDERR = 0, 1, 2


def open_missing() -> None:
    """Open to nothing what the program was started without; else the next file or socket would take its place."""
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError as exc:
            if exc.errno != errno.EBADF:
                raise
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor  # the lowest that is free
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - the stdlib's signature


def discard(descriptor: int) -> None:
    """Let what is written from now on go nowhere, since the descriptor's reader takes nothing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however long that takes, past every buffer.

    Raises:
        OSError: it cannot be written.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # somebody else has made it so, and its flags are shared
            wait_writable(descriptor)


def wait_writable(descriptor: int, within_s: float | None = None) -> bool:
    """Whether a write would not wait, as soon as it would not; one that fails does not wait either."""
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return bool(poller.poll(None if within_s is None else within_s * 1000))


async def print_out(data: bytes) -> None:
    """Write to stdout beside all else that runs; cancelled, it leaves what its reader does not take.

    Raises:
        OSError: it cannot be written.
    """
    import trio  # noqa: PLC0415 - short commands print without it

    await trio.to_thread.run_sync(partial(write_all, STDOUT, data), abandon_on_cancel=True)
