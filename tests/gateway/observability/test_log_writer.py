"""The log writer over real pipes, sockets and files: it keeps what it can, counts the rest, and never blocks."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import PIPE_BUF

from gateway.observability.log_writer import BYTES_MAX, LINES_MAX, RETRY_S, LogStatistics, LogWriter
from gateway.observability.logs import open_log
from tests.processes.waiting import wait_until


@contextmanager
def open_pipe() -> Iterator[tuple[int, int]]:
    """Yield the two ends of a pipe."""
    reading, writing = os.pipe()
    with ExitStack() as held:
        held.callback(os.close, writing)
        held.callback(os.close, reading)
        yield reading, writing


@contextmanager
def open_writer(descriptor: int) -> Iterator[LogWriter]:
    """Yield a writer that is closed at the end, and whose reports are also lines."""
    writer = LogWriter(descriptor)
    writer.report_dropped = lambda count: writer.write(b"dropped %d\n" % count)
    writer.start()
    try:
        yield writer
    finally:
        writer.close()


def numbered(count: int, *, first: int = 0) -> list[bytes]:
    return [b"line %d\n" % number for number in range(first, first + count)]


def read_all(reading: int, until: bytes) -> list[bytes]:
    """Return all lines up to the given one."""
    text = b""
    while not text.endswith(until):
        text += os.read(reading, 65_536)
    return text.splitlines(keepends=True)


def fill(writing: int) -> None:
    """Fill a pipe completely, so that the writer reports dropped lines only once."""
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"\n" * PIPE_BUF)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"\n")
    os.set_blocking(writing, True)


def test_blocked_sink_never_blocks_callers_and_gets_kept_lines_later() -> None:
    with open_pipe() as (reading, writing), open_writer(writing) as writer:
        fill(writing)
        lines = numbered(3 * LINES_MAX)
        for line in lines:
            writer.write(line)
        dropped = writer.statistics().dropped_total
        assert 0 < dropped < len(lines)
        received = [line for line in read_all(reading, b"dropped %d\n" % dropped) if line != b"\n"]
        assert received[:-1] == lines[: len(lines) - dropped]
        writer.write(b"more\n")
        assert read_all(reading, b"more\n") == [b"more\n"]
        wait_until(lambda: writer.statistics() == LogStatistics(0, dropped))


def test_size_limit_counts_bytes_not_lines() -> None:
    with open_pipe() as (reading, writing), open_writer(writing) as writer:
        line = b"x" * 99_999 + b"\n"
        for _ in range(100):
            writer.write(line)
        waiting = writer.statistics().waiting
        assert BYTES_MAX <= waiting * len(line) < BYTES_MAX + 2 * len(line)
        os.set_blocking(reading, False)

        def is_drained() -> bool:
            with suppress(BlockingIOError):
                os.read(reading, BYTES_MAX)
            return writer.statistics().waiting == 0

        wait_until(is_drained)  # a stuck writer could write into a file of the next test


def test_lines_are_kept_while_disk_is_full(tmp_path: Path) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    with open_writer(descriptor) as writer, open(tmp_path / "log", "wb") as file:
        for line in numbered(100):
            writer.write(line)
        time.sleep(1.5 * RETRY_S)  # two attempts fail
        assert writer.statistics() == LogStatistics(100, 0)
        os.dup2(file.fileno(), descriptor)
        wait_until(lambda: writer.statistics().waiting == 0)
        assert (tmp_path / "log").read_bytes() == b"".join(numbered(100))
    os.close(descriptor)


def test_lines_are_kept_for_a_returning_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    reading = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(tmp_path / "log", os.O_WRONLY)
    os.close(reading)
    with open_writer(writing) as writer:
        writer.write(b"unread\n")
        time.sleep(1.5 * RETRY_S)  # two attempts fail
        with open(tmp_path / "log", "rb") as again:
            assert again.readline() == b"unread\n"
    os.close(writing)


def test_sink_stays_non_blocking_and_gets_whole_lines() -> None:
    with open_pipe() as (reading, writing):
        os.set_blocking(writing, False)
        flags = fcntl.fcntl(writing, fcntl.F_GETFL)
        with open_writer(writing) as writer:
            lines = [b"%d" % number * 3_000 + b"\n" for number in range(100)]
            for line in lines:
                writer.write(line)
            time.sleep(0.1)  # the pipe is full
            assert read_all(reading, lines[-1]) == lines
        assert fcntl.fcntl(writing, fcntl.F_GETFL) == flags


def test_lines_of_two_processes_do_not_mix_in_a_shared_pipe() -> None:
    """Method: two writers fill one pipe, so that each write has to wait for room."""
    with open_pipe() as (reading, writing), open_writer(writing) as one, open_writer(writing) as other:
        for _ in range(2_000):
            one.write(b"a" * 99 + b"\n")
            other.write(b"b" * 99 + b"\n")
        received = b""
        while len(received) < 400_000:
            received += os.read(reading, 1_000)
        assert set(received.splitlines()) == {b"a" * 99, b"b" * 99}


def test_lines_logged_together_are_written_together() -> None:
    """Method: a socket that shows each write as a separate message."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, open_writer(theirs.fileno()) as writer:
        lines = numbered(1_000)
        for line in lines:
            writer.write(line)
        received: list[bytes] = []
        while sum(map(len, received)) < len(b"".join(lines)):
            received.append(ours.recv(65_536))
        assert b"".join(received) == b"".join(lines)
        assert len(received) < 100
        assert max(map(len, received)) <= PIPE_BUF
        assert all(message.endswith(b"\n") for message in received)


def test_flush_writes_immediately_with_earlier_lines() -> None:
    with open_pipe() as (reading, writing):
        writer = LogWriter(writing, gather_s=3_600.0)
        writer.start()
        writer.flush()
        for lines in (numbered(3), numbered(3, first=3)):
            for line in lines:
                writer.write(line)
            writer.flush()
            assert read_all(reading, lines[-1]) == lines
        writer.write(b"last\n")
        assert writer.close()
        assert read_all(reading, b"last\n") == [b"last\n"]


def test_unread_log_is_abandoned_at_the_end() -> None:
    with open_pipe() as (reading, writing):
        began_at = time.monotonic()
        with open_log("info", descriptor=writing) as log:
            for _ in range(2_000):
                log.event("info", "unread", text="x" * 100)
        assert time.monotonic() - began_at < 30
        assert os.readlink(f"/proc/self/fd/{writing}") == os.devnull
        while os.read(reading, 65_536):  # lets the thread finish
            pass
