"""A log writer with its own thread, so that a slow or broken sink never delays or fails the code that logs."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Event, RLock, Thread

from gateway.observability.standard_streams import wait_writable

LINES_MAX = 10_000
BYTES_MAX = 4 * 1024 * 1024
"""Maximum number of bytes queued for a blocked sink. Above it, lines are dropped until half of the queue is written."""
GATHER_S = 0.05
"""Seconds to collect lines after a write. They are then written together, unless `flush` is called."""
RETRY_S = 1.0
"""Seconds to wait before writing to a failed sink again."""
FLUSH_S = 1.0
"""Seconds to wait at the end until the sink has accepted the remaining lines."""


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """How many lines are waiting for the sink, and how many were dropped because it was blocked."""

    waiting: int = 0
    dropped_total: int = 0


class LogWriter:
    """Writes lines to a file descriptor, in a separate thread.

    If lines were dropped, `report_dropped` is called with their number once the sink accepts lines again.
    """

    def __init__(self, descriptor: int, *, gather_s: float = GATHER_S) -> None:
        self.report_dropped: Callable[[int], None] = lambda _count: None
        self._descriptor = descriptor
        self._gather_s = gather_s
        self._write_bytes = BYTES_MAX if stat.S_ISREG(os.fstat(descriptor).st_mode) else select.PIPE_BUF
        # Reentrant, because the garbage collector may run a finalizer that logs while a line is being added.
        self._lock = RLock()
        self._wanted = Condition(self._lock)
        self._lines: list[bytes] = []
        self._held_lines = 0
        self._held_bytes = 0
        self._is_full = self._is_idle = self._is_hurried = False
        self._dropped_total = self._reported_total = 0
        self._closing = Event()
        self._thread = Thread(target=self._run, name="log", daemon=True)

    def start(self) -> None:
        """Start the writer thread."""
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue a line. It is soon written together with others, or dropped if too much data is waiting."""
        with self._lock:
            if self._is_full:
                self._dropped_total += 1
                return
            self._lines.append(line)
            self._held_lines += 1
            self._held_bytes += len(line)
            if self._held_lines >= LINES_MAX or self._held_bytes >= BYTES_MAX:
                self._is_full = True
            if self._is_idle:
                self._is_idle = False
                self._wanted.notify()

    def flush(self) -> None:
        """Write the waiting lines now, without collecting more."""
        with self._lock:
            if not self._is_hurried:
                self._is_hurried = True
                self._wanted.notify()

    def statistics(self) -> LogStatistics:
        """Return the counts of waiting and dropped lines."""
        return LogStatistics(self._held_lines, self._dropped_total)

    def close(self) -> bool:
        """Stop the writer, and return whether it wrote all lines within `FLUSH_S`. The others are lost."""
        self._closing.set()
        self.flush()
        self._thread.join(FLUSH_S)
        return self._held_lines == 0

    def _run(self) -> None:
        while batch := self._next_batch():
            begin = 0
            while begin < len(batch):
                end = self._end_of_lines(batch, begin)
                if not self._write_out(batch[begin:end]):
                    return
                self._release(batch.count(b"\n", begin, end), end - begin)
                begin = end

    def _next_batch(self) -> bytes:
        """Wait for lines and return all of them.

        The result is empty if the writer was closed and no lines are left.
        """
        with self._lock:
            if not (self._is_hurried or self._closing.is_set()):
                self._wanted.wait(self._gather_s)
            while not (self._lines or self._closing.is_set()):
                self._is_idle = True
                self._wanted.wait()
            self._is_idle = self._is_hurried = False
            batch = b"".join(self._lines)
            self._lines.clear()
            return batch

    def _write_out(self, lines: bytes) -> bool:
        """Write lines, without a time limit. Return False only if the sink fails after the writer was closed."""
        rest = memoryview(lines)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process that shares the descriptor made it non-blocking
                wait_writable(self._descriptor, RETRY_S)
            except OSError:
                if self._closing.wait(RETRY_S):
                    return False
        return True

    def _release(self, lines: int, size: int) -> None:
        """Subtract the written lines, and accept new lines again once half of the queue is free."""
        with self._lock:
            self._held_lines -= lines
            self._held_bytes -= size
            if self._is_full and self._held_lines <= LINES_MAX // 2 and self._held_bytes <= BYTES_MAX // 2:
                self._is_full = False
                dropped, self._reported_total = self._dropped_total - self._reported_total, self._dropped_total
                if dropped:
                    self.report_dropped(dropped)

    def _end_of_lines(self, batch: bytes, begin: int) -> int:
        """Return where a batch can be split so that lines from other processes do not appear inside its lines.

        A pipe accepts only a limited number of bytes atomically, a file any number. A line longer than this limit is
        written on its own.
        """
        end = begin + self._write_bytes
        if end >= len(batch):
            return len(batch)
        return batch.rfind(b"\n", begin, end) + 1 or batch.index(b"\n", end) + 1
