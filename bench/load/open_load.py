"""The open loop: `python -m bench.load.open_load` reads an `OpenLoad` and prints `OpenLoadCounts`, both as JSON.

It sends requests at a fixed rate regardless of the server, and measures each latency from the request's scheduled time.
If a server stalls, the waits of all callers during that time are therefore counted.
"""

import ctypes
import gc
import os
import sys
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import msgspec
import trio

from bench.core.process import raise_open_files
from bench.load.histogram import Histogram
from bench.load.keys import KEYS
from bench.load.lines import NOTHING, Line, LineBroke, Lines
from bench.load.request_spec import RequestSpec, Tally

_CLOCK_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_ABSOLUTE = 1
_SECOND_NS = 1_000_000_000
_COUNT_BYTES = 8


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """The load of one process: `count` requests, `interval_ns` apart, the first at `first_ns` of CLOCK_MONOTONIC."""

    spec: RequestSpec
    first_ns: int
    interval_ns: int
    count: int
    counted_from_ns: int = 0
    """The end of the warm-up. Requests that are scheduled before this time are sent but not counted."""
    connections: int = 1_000
    drain_s: float = 5.0
    """Seconds to wait for responses after the last request."""
    first_key: int = 1
    key_step: int = 1


@dataclass(frozen=True, slots=True)
class OpenLoadCounts:
    """The counts of one process for the requests after the warm-up. Latencies cover only served requests."""

    meant: int
    """The number of requests that were scheduled in the counted time."""
    latencies: dict[int, int]
    """The buckets of a histogram. A request without a response is included with the time that it waited."""
    lags: dict[int, int]
    """The generator's own lateness: the time from a request's scheduled time until the generator noticed it."""
    served_in_time: int
    """The number of requests served within the counted time, from which the throughput is computed.

    Latencies also cover the drain.
    """
    answered_in_time: int
    """The number of all responses in the same time, including refusals."""
    refused: dict[str, int]
    unexpected: dict[str, int]
    unanswered: int
    connections: int
    client_cpu_s: float
    refusals: dict[int, int] = field(default_factory=dict)
    """A histogram of the waits of refused requests."""


class OpenLoop:
    """One run. Each request is a numbered ticket, which waits for its time and then for a free line."""

    def __init__(self, load: OpenLoad) -> None:
        """Start without connections."""
        self._load = load
        self._end_ns = load.first_ns + load.count * load.interval_ns
        self._first_counted = max(0, -((load.first_ns - load.counted_from_ns) // load.interval_ns))
        self._requests = load.spec.requests(KEYS[load.spec.keys](load.first_key, load.key_step))
        self._due = self._sent = 0
        self._answered = bytearray(load.count)
        self._unanswered = load.count
        self._all_answered = trio.Event()
        self._lines = Lines(load.spec.address)
        self._free: list[Line] = []
        self._lines_open = 0
        self._uncounted, self._tally = Tally(load.spec), Tally(load.spec)
        self._latencies, self._lags, self._refusals = Histogram(), Histogram(), Histogram()
        self._served_in_time = self._answered_in_time = 0

    async def run(self) -> OpenLoadCounts:
        """Send everything and wait for responses, at most `drain_s` after the last request."""
        cpu_s = time.process_time()
        with self._lines:
            async with trio.open_nursery() as listening:
                listening.start_soon(self._listen)
                await self._pace()
                with trio.move_on_after(self._load.drain_s):
                    await self._all_answered.wait()
                listening.cancel_scope.cancel()
        return self._counts(time.process_time() - cpu_s)

    async def _pace(self) -> None:
        """Release each ticket at its scheduled time."""
        load = self._load
        with Ticker(first_ns=load.first_ns, interval_ns=load.interval_ns) as ticker:
            while self._due < load.count:
                due = min(self._due + await ticker.wait_due(), load.count)
                now_ns = time.monotonic_ns()
                for ticket in range(max(self._due, self._first_counted), due):
                    self._lags.record(now_ns - self._meant_ns(ticket))
                self._due = due
                self._send_due()

    async def _listen(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._lines.fileno())
            for line in self._lines.ready():
                self._continue_line(line)
            self._send_due()

    def _send_due(self) -> None:
        """Send released tickets on free lines. If none is free, open another line."""
        while self._sent < self._due:
            if self._free:
                line = self._free.pop()
            elif self._lines_open < self._load.connections:
                self._lines_open += 1
                line = Line()
            else:
                return
            ticket, self._sent = self._sent, self._sent + 1
            try:
                self._lines.send(line, ticket, next(self._requests))
            except LineBroke as exc:
                self._break(line, exc)

    def _continue_line(self, line: Line) -> None:
        try:
            head = self._lines.go_on(line)
        except LineBroke as exc:
            self._break(line, exc)
            return
        if head is not None:
            self._note(line.ticket, served=self._tally_of(line.ticket).note(head))
            self._end(line)

    def _break(self, line: Line, why: LineBroke) -> None:
        self._tally_of(line.ticket).unexpected[str(why)] += 1
        self._end(line)

    def _end(self, line: Line) -> None:
        self._answered[line.ticket] = True
        self._unanswered -= 1
        if not self._unanswered:
            self._all_answered.set()
        line.ticket = NOTHING
        self._free.append(line)

    def _note(self, ticket: int, *, served: bool) -> None:
        now_ns = time.monotonic_ns()
        if self._load.counted_from_ns <= now_ns < self._end_ns:
            self._answered_in_time += 1
            self._served_in_time += served
        if ticket >= self._first_counted:
            (self._latencies if served else self._refusals).record(now_ns - self._meant_ns(ticket))

    def _meant_ns(self, ticket: int) -> int:
        return self._load.first_ns + ticket * self._load.interval_ns

    def _tally_of(self, ticket: int) -> Tally:
        return self._tally if ticket >= self._first_counted else self._uncounted

    def _counts(self, client_cpu_s: float) -> OpenLoadCounts:
        counted = range(self._first_counted, self._load.count)
        unanswered = [ticket for ticket in counted if not self._answered[ticket]]
        now_ns = time.monotonic_ns()
        for ticket in unanswered:
            self._latencies.record(now_ns - self._meant_ns(ticket))
        return OpenLoadCounts(
            meant=len(counted),
            latencies=dict(self._latencies.counts),
            lags=dict(self._lags.counts),
            served_in_time=self._served_in_time,
            answered_in_time=self._answered_in_time,
            refused=dict(self._tally.refused),
            unexpected=dict(self._tally.unexpected),
            unanswered=len(unanswered),
            connections=self._lines_open,
            client_cpu_s=client_cpu_s,
            refusals=dict(self._refusals.counts),
        )


def main() -> None:
    """Run the `OpenLoad` on stdin and print the `OpenLoadCounts`."""
    raise_open_files()
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=OpenLoad)
    # A garbage collection would look like a pause of the server. The number of requests bounds the memory.
    gc.disable()
    sys.stdout.buffer.write(msgspec.json.encode(trio.run(OpenLoop(load).run)) + b"\n")


class _Spec(ctypes.Structure):
    """`struct itimerspec`: the interval, then the first expiration, each in seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("interval_s", "interval_ns", "first_s", "first_ns"))


class Ticker:
    """Counts the ticks at `first_ns`, `first_ns + interval_ns`, ... of CLOCK_MONOTONIC, for one waiting task.

    The kernel's timer counts ticks even while no task waits, so no tick is lost. Trio's own sleep wakes up to a
    millisecond late, because epoll counts milliseconds. This timer does not (Linux only).
    """

    def __init__(self, *, first_ns: int, interval_ns: int) -> None:
        """Start the timer.

        If the first tick is in the past, it is counted immediately, together with all later ones up to now.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        spec = _Spec(*divmod(interval_ns, _SECOND_NS), *divmod(first_ns, _SECOND_NS))
        if self._fd < 0 or libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(spec), None) < 0:
            raise OSError(ctypes.get_errno(), "the kernel cannot create a timer")

    async def wait_due(self) -> int:
        """Wait for the next tick, and return the number of ticks since the last call, which is at least 1."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            try:
                return int.from_bytes(os.read(self._fd, _COUNT_BYTES), "little")
            except BlockingIOError:
                continue

    def __enter__(self) -> Self:
        """Return `self`; leaving the block stops the timer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """Stop the timer."""
        os.close(self._fd)


if __name__ == "__main__":
    main()
