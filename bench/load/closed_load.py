"""The closed loop: `python -m bench.load.closed_load` reads a `ClosedLoad` and prints a `Measured`, both as JSON.

It is a separate process, so that the server's CPU is measured alone. It measures the cost of a request and the server's
capacity. The open loop (`bench.load.open_load`) measures latencies at a given rate.
"""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.core.process import Usage, usage
from bench.load.request_spec import RequestSpec
from bench.load.wire import ClosedWire

DRAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class ClosedLoad:
    """The request of a closed loop, its connections, and its duration."""

    spec: RequestSpec
    connections: int = 64
    warmup_s: float = 1.0
    seconds: float = 5.0
    requests_max: int = 1_000_000
    pid: int | None = None
    """The server's process, whose CPU is read when counting starts and ends."""
    first_key: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures from the end of the warm-up to the last response within the counted time.

    They are valid only if `unexpected` is empty.
    """

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    server_cpu_s: float
    server_rss_bytes: int
    client_cpu_s: float
    unexpected: dict[str, int]


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the percentile `share` of the `ordered` values; 0 if there are none.

    It is the smallest value that at least this share of the values do not exceed.
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def measure(load: ClosedLoad) -> Measured:
    """Prime the server, warm up, count, and wait for outstanding responses."""
    wire = ClosedWire(load.spec, first_key=load.first_key)
    try:
        wire.prime()
        wire.open(load.connections)
        wire.run(until=time.perf_counter() + load.warmup_s)
        return _count(wire, load)
    finally:
        wire.close()


def _count(wire: ClosedWire, load: ClosedLoad) -> Measured:
    wire.latencies_s.clear()
    server, client_s, began = _server_usage(load.pid), time.process_time(), time.perf_counter()
    wire.run(until=began + load.seconds, answers_max=load.requests_max)
    seconds, client_s = time.perf_counter() - began, time.process_time() - client_s
    after = _server_usage(load.pid)
    ordered = sorted(wire.latencies_s)
    wire.drain(until=time.perf_counter() + DRAIN_S)
    return Measured(
        requests=len(ordered),
        seconds=seconds,
        p50_ms=percentile(ordered, 0.5) * 1e3,
        p99_ms=percentile(ordered, 0.99) * 1e3,
        server_cpu_s=after.cpu_s - server.cpu_s,
        server_rss_bytes=after.rss_bytes,
        client_cpu_s=client_s,
        unexpected=dict(wire.tally.unexpected),
    )


def _server_usage(pid: int | None) -> Usage:
    return Usage(cpu_s=0.0, rss_bytes=0, own_bytes=0) if pid is None else usage(pid)


def main() -> None:
    """Run the `ClosedLoad` on stdin and print the `Measured`."""
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=ClosedLoad)
    sys.stdout.buffer.write(msgspec.json.encode(measure(load)) + b"\n")


if __name__ == "__main__":
    main()
