"""Ends a command that would go on for ever: Ctrl-C, SIGTERM, or nobody reading its stdout any more."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CommandEnded(Exception):
    """The command is to end, and nothing is half done."""


class Endings:
    """Hears of the end. It comes while the command waits; a second signal ends even what is done between waits."""

    def __init__(self, stdout_fd: int) -> None:
        self._stdout_fd = stdout_fd
        self._is_asked = False
        self._is_waiting = False

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Hear signals inside of the block; what is ignored, as under nohup, stays ignored."""
        numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._observe) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _observe(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal calls it
        if self._is_waiting or self._is_asked:
            raise CommandEnded
        self._is_asked = True

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """A block in which nothing is half done. Raises Ended, at once or as soon as the end comes."""
        self._is_waiting = True
        try:
            if self._is_asked:
                raise CommandEnded
            yield
        finally:
            self._is_waiting = False

    def wait(self, seconds: float, until_readable: socket.socket | None = None) -> bool:
        """Wait for so long, or until a socket can be read; whether it can.

        Raises:
            Ended: nobody reads stdout any more.
        """
        poller = select.poll()
        poller.register(self._stdout_fd, 0)  # errors, such as a pipe without a reader, are told unasked
        if until_readable is not None:
            poller.register(until_readable, select.POLLIN)
        found = [fd for fd, _ in poller.poll(seconds * 1000)]
        if self._stdout_fd in found:
            raise CommandEnded
        return bool(found)
