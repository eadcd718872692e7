"""The open loop: `python -m bench.open_load`, an `OpenLoad` as JSON on stdin, a `Heard` as JSON on stdout.

Requests are sent at a fixed rate whatever the server does, and a latency begins at the instant its request was meant
to be sent: a server that stalls makes all the callers of that time wait, and all of them are counted.
"""

import gc
import sys
import time
from dataclasses import dataclass, field

import msgspec
import trio

from bench.ask import Ask, Tally
from bench.histogram import Histogram
from bench.keys import KEYS
from bench.line import Line, LineBroke
from bench.process import raise_open_files
from bench.ticker import Ticker


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """What one process sends: `count` requests, `interval_ns` apart, the first at `first_ns` of CLOCK_MONOTONIC."""

    ask: Ask
    first_ns: int
    interval_ns: int
    count: int
    counted_from_ns: int = 0
    """Requests meant to be sent before it are the warm-up: sent, but in no figure."""
    connections: int = 1_000
    drain_s: float = 5.0
    """How long answers are awaited after the last request."""
    first_key: int = 1
    key_step: int = 1


@dataclass(frozen=True, slots=True)
class Heard:
    """What one process counted of the requests after the warm-up; latencies are of the served ones."""

    meant: int
    """Requests that were meant to be sent in the counted time."""
    latencies: dict[int, int]
    """A histogram's buckets; requests that got no answer stand in it with the time they waited in vain."""
    lags: dict[int, int]
    """How late the generator itself was: of each request, from its instant to when the generator knew it was due."""
    served_in_time: int
    """Served before the last request was meant to be sent: the throughput, where latencies also have the drain."""
    answered_in_time: int
    """The same of every answer, refusals included."""
    refused: dict[str, int]
    unexpected: dict[str, int]
    unanswered: int
    connections: int
    client_cpu_s: float
    refusals: dict[int, int] = field(default_factory=dict)
    """A histogram of how long those waited that were not served."""


class OpenLoop:
    """One run. Its pacing task hands tickets, numbered requests, to tasks that hold a connection each."""

    def __init__(self, load: OpenLoad) -> None:
        """Nothing is connected yet."""
        self._load = load
        self._end_ns = load.first_ns + load.count * load.interval_ns
        self._requests = load.ask.requests(KEYS[load.ask.keys](load.first_key, load.key_step))
        self._tickets, self._to_take = trio.open_memory_channel[int](load.count)
        self._answered = bytearray(load.count)
        self._lines = 0
        self._uncounted, self._tally = Tally(load.ask), Tally(load.ask)
        self._latencies, self._lags, self._refusals = Histogram(), Histogram(), Histogram()
        self._served_in_time = self._answered_in_time = 0

    async def run(self) -> Heard:
        """Send everything and await the answers, `drain_s` after the last request at the longest."""
        cpu_s = time.process_time()
        async with trio.open_nursery() as lines:
            await self._pace(lines)
            lines.cancel_scope.deadline = trio.current_time() + self._load.drain_s
        return self._heard(time.process_time() - cpu_s)

    async def _pace(self, lines: trio.Nursery) -> None:
        """Hand out a ticket at each instant; with no connection free another is opened, else the ticket waits."""
        load, sent = self._load, 0
        with self._tickets, Ticker(first_ns=load.first_ns, interval_ns=load.interval_ns) as ticker:
            while sent < load.count:
                due = min(sent + await ticker.wait_due(), load.count)
                now_ns = time.monotonic_ns()
                for ticket in range(sent, due):
                    if self._lines < load.connections and not self._tickets.statistics().tasks_waiting_receive:
                        self._lines += 1
                        lines.start_soon(self._serve_tickets)
                    self._tickets.send_nowait(ticket)
                    if self._counts(ticket):
                        self._lags.record(now_ns - self._meant_ns(ticket))
                sent = due

    async def _serve_tickets(self) -> None:
        with Line(self._load.ask.address) as line:
            async for ticket in self._to_take:
                tally = self._tally if self._counts(ticket) else self._uncounted
                try:
                    head = await line.ask(next(self._requests))
                except LineBroke as exc:
                    tally.unexpected[str(exc)] += 1
                else:
                    self._note(ticket, served=tally.note(head))
                self._answered[ticket] = True

    def _note(self, ticket: int, *, served: bool) -> None:
        now_ns = time.monotonic_ns()
        if self._load.counted_from_ns <= now_ns < self._end_ns:
            self._answered_in_time += 1
            self._served_in_time += served
        if self._counts(ticket):
            (self._latencies if served else self._refusals).record(now_ns - self._meant_ns(ticket))

    def _meant_ns(self, ticket: int) -> int:
        return self._load.first_ns + ticket * self._load.interval_ns

    def _counts(self, ticket: int) -> bool:
        return self._meant_ns(ticket) >= self._load.counted_from_ns

    def _heard(self, client_cpu_s: float) -> Heard:
        counted = [ticket for ticket in range(self._load.count) if self._counts(ticket)]
        unanswered = [ticket for ticket in counted if not self._answered[ticket]]
        now_ns = time.monotonic_ns()
        for ticket in unanswered:
            self._latencies.record(now_ns - self._meant_ns(ticket))
        return Heard(
            meant=len(counted),
            latencies=dict(self._latencies.counts),
            lags=dict(self._lags.counts),
            served_in_time=self._served_in_time,
            answered_in_time=self._answered_in_time,
            refused=dict(self._tally.refused),
            unexpected=dict(self._tally.unexpected),
            unanswered=len(unanswered),
            connections=self._lines,
            client_cpu_s=client_cpu_s,
            refusals=dict(self._refusals.counts),
        )


def main() -> None:
    """Run the `OpenLoad` on stdin and print what was `Heard`."""
    raise_open_files()
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=OpenLoad)
    gc.disable()  # a pause of the generator would look like one of the server; what it keeps is bounded by the count
    sys.stdout.buffer.write(msgspec.json.encode(trio.run(OpenLoop(load).run)) + b"\n")


if __name__ == "__main__":
    main()
