"""A program that was forked and keeps running, with the interface of `subprocess.Popen`."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

GONE_S = 60.0


class Started:
    """A child of another process.

    This process notices the child's end, and asks the other process for the exit code.
    """

    def __init__(self, pid: int, stdout: int, exit_code: Callable[[int], int]) -> None:
        """`stdout` is the descriptor of the child's output.

        `exit_code` returns the exit code of an ended child, only once.
        """
        self.pid = pid
        self.stdout = open(stdout, "rb", buffering=0)  # noqa: SIM115 - closed with this object
        self.returncode: int | None = None
        self._exit_code = exit_code
        self._end = os.pidfd_open(pid)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the child, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def kill_group(self) -> None:
        """Send SIGKILL to the child and to everything in its group, whether or not the child has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        """Return the child's exit code, or None if the child still runs."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = GONE_S) -> int:
        """Return the child's exit code, or minus the number of the signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            self.returncode = self._exit_code(self.pid)
            os.close(self._end)
        return self.returncode

    def __enter__(self) -> Started:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stdout.close()
        self.wait()
