"""Ends commands that run forever: on Ctrl-C, on SIGTERM, or when the reader of stdout is gone."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CommandEnded(Exception):
    """The command must end now. No operation is unfinished."""


class Endings:
    """Ends a command on a signal.

    The first signal takes effect while the command waits, and a second signal at any time.
    """

    def __init__(self, stdout_fd: int) -> None:
        self._stdout_fd = stdout_fd
        self._is_asked = False
        self._is_waiting = False

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Handle signals while the block runs. Signals that are already ignored, as under nohup, stay ignored."""
        numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._observe) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _observe(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of signal handlers
        if self._is_waiting or self._is_asked:
            raise CommandEnded
        self._is_asked = True

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Mark a block that may be interrupted. Raises CommandEnded in it when the command must end."""
        self._is_waiting = True
        try:
            if self._is_asked:
                raise CommandEnded
            yield
        finally:
            self._is_waiting = False

    def wait(self, seconds: float, until_readable: socket.socket | None = None) -> bool:
        """Wait for some seconds or until a socket is readable. Return whether the socket is readable.

        Raises:
            CommandEnded: the reader of stdout is gone.
        """
        poller = select.poll()
        # No events are requested, because errors such as a pipe without a reader are always reported.
        poller.register(self._stdout_fd, 0)
        if until_readable is not None:
            poller.register(until_readable, select.POLLIN)
        found = [fd for fd, _ in poller.poll(seconds * 1000)]
        if self._stdout_fd in found:
            raise CommandEnded
        return bool(found)
