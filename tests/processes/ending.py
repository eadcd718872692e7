"""Processes end when pytest ends, even by SIGKILL.

Linux kills the children, and a keeper kills the remaining process groups.
"""

import atexit
import ctypes
import os
import signal
import subprocess
import sys
from functools import cache
from threading import Lock

PR_SET_PDEATHSIG = 1
KEEPER = """
import os, sys
kept = set()
for line in sys.stdin:
    (kept.add if line[0] == "+" else kept.discard)(int(line[1:]))
for group in kept:
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        pass
"""
"""A program that reads the process groups to keep, and kills them when its input ends."""


def end_with_parent(parent: int) -> None:
    """Make Linux kill this process when `parent` ends, or end it now if that has already happened.

    Linux does so when the thread that forked ends, so call this only if that is the parent's main thread.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Keeper:
    """Kills the process groups that it keeps when this process ends, for any reason."""

    def __init__(self) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", KEEPER], stdin=subprocess.PIPE, start_new_session=True
        )
        self._lock = Lock()

    def keep(self, group: int) -> None:
        """Add a group to kill at the end."""
        self._send(b"+%d\n" % group)

    def forget(self, group: int) -> None:
        """Remove a group, because it has ended."""
        self._send(b"-%d\n" % group)

    def end(self) -> None:
        """Make the keeper kill its groups, and wait until it has ended."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        self._popen.wait(10)

    def _send(self, line: bytes) -> None:
        assert self._popen.stdin is not None
        with self._lock:
            self._popen.stdin.write(line)
            self._popen.stdin.flush()


@cache
def keeper() -> Keeper:
    """Return the keeper of this process. There is only one."""
    opened = Keeper()
    atexit.register(opened.end)
    return opened
