"""A writer of the log's lines with a thread of its own: a caller never waits for the sink, and never fails by it."""

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
"""The most that is kept for a sink that takes nothing; beyond it lines are dropped until half is written."""
GATHER_S = 0.05
"""The time after a write in which lines that nobody flushes wait for others, to be written together."""
RETRY_S = 1.0
"""The time between two tries to write to a sink that failed."""
FLUSH_S = 1.0
"""The time that the sink has at the end to take the lines that wait."""


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """Lines that wait for the sink, and lines that were dropped since it took nothing."""

    waiting: int = 0
    dropped_total: int = 0


class LogWriter:
    """Writes lines to a descriptor; `report_dropped` is called once it takes lines again, where some are missing."""

    def __init__(self, descriptor: int, *, gather_s: float = GATHER_S) -> None:
        self.report_dropped: Callable[[int], None] = lambda _count: None
        self._descriptor = descriptor
        self._gather_s = gather_s
        self._write_bytes = BYTES_MAX if stat.S_ISREG(os.fstat(descriptor).st_mode) else select.PIPE_BUF
        self._lock = RLock()  # the garbage collector may end what logs while a line is added
        self._wanted = Condition(self._lock)
        self._lines: list[bytes] = []
        self._held_lines = 0
        self._held_bytes = 0
        self._is_full = self._is_idle = self._is_hurried = False
        self._dropped_total = self._reported_total = 0
        self._closing = Event()
        self._thread = Thread(target=self._run, name="log", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Have a line written soon, with what else comes meanwhile; it is dropped when too much waits already."""
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
        """Have what waits written without waiting for more."""
        with self._lock:
            if not self._is_hurried:
                self._is_hurried = True
                self._wanted.notify()

    def statistics(self) -> LogStatistics:
        """The counts of lines that wait and that were dropped."""
        return LogStatistics(self._held_lines, self._dropped_total)

    def close(self) -> bool:
        """Whether all lines are written; those that are not after `FLUSH_S` are given up."""
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
                self._let_go(batch.count(b"\n", begin, end), end - begin)
                begin = end

    def _next_batch(self) -> bytes:
        """All lines that wait, once there are some; nothing when there are none at the end."""
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
        """Whether the sink has taken all of it, however long that took; False when it fails at the end."""
        rest = memoryview(lines)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # somebody else has made it so, and its flags are shared
                wait_writable(self._descriptor, RETRY_S)
            except OSError:
                if self._closing.wait(RETRY_S):
                    return False
        return True

    def _let_go(self, lines: int, size: int) -> None:
        """Count what is written, and take lines again when half of the room is free."""
        with self._lock:
            self._held_lines -= lines
            self._held_bytes -= size
            if self._is_full and self._held_lines <= LINES_MAX // 2 and self._held_bytes <= BYTES_MAX // 2:
                self._is_full = False
                dropped, self._reported_total = self._dropped_total - self._reported_total, self._dropped_total
                if dropped:
                    self.report_dropped(dropped)

    def _end_of_lines(self, batch: bytes, begin: int) -> int:
        """The end of the lines that one write may take, so that those of other processes never come in between.

        A pipe takes so many bytes in one piece, a file takes all of a write. A longer line goes alone.
        """
        end = begin + self._write_bytes
        if end >= len(batch):
            return len(batch)
        return batch.rfind(b"\n", begin, end) + 1 or batch.index(b"\n", end) + 1
