"""Starts the load generators for a running server, and measures the server's process meanwhile."""

import math
import time
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory

import msgspec
import trio

from bench.core.errors import ChildFailed
from bench.core.process import PYTHON, Usage, has_ended, machine_ticks, run_command, usage
from bench.core.results import MemorySample, Step
from bench.core.scenarios import Scenario
from bench.core.tasks import run_side_by_side
from bench.load.closed_load import ClosedLoad, Measured
from bench.load.histogram import Histogram
from bench.load.open_load import OpenLoad, OpenLoadCounts
from bench.load.request_spec import RequestSpec
from bench.peers.servers import ServerTarget

RUN_S = 60.0
"""The maximum seconds that a load may take beyond its counted time, for start, warm-up and drain."""
LEAD_S = 1.0
"""Seconds between starting the processes and the first request, so that all of them are ready by then."""
SAMPLE_S = 0.5
PER_PROCESS = 12_000
"""Requests per second for one process of the open loop, which could send two or three times as many."""
PROCESSES_MAX = 8
REQUESTS_MAX = 5_000_000
"""The maximum number of requests of one step. A longer step is shortened."""


@dataclass(frozen=True, slots=True)
class Tempo:
    """The rate of an open loop in requests per second, and the seconds of its warm-up and of its counted time."""

    rate: float
    seconds: float
    warmup_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Watched:
    """The CPU of the server's process during the counted time, and samples of its memory."""

    cpu_s: float
    machine_share: float
    memory: tuple[MemorySample, ...]


def spec_for(scenario: Scenario, target: ServerTarget) -> RequestSpec:
    """Return the request that the load sends to `target` for `scenario`."""
    return RequestSpec(
        url=target.url,
        path=scenario.path,
        keys=scenario.keys,
        headers=(target.key_headers if scenario.with_key else ()) + scenario.headers,
        statuses=scenario.statuses,
        tolerated=scenario.tolerated,
        head=scenario.head,
    )


async def drive(load: ClosedLoad) -> Measured:
    """Run a closed loop in a separate process.

    Raises:
        ChildFailed: The load generator failed or did not end in time.
    """
    written = await generate("bench.load.closed_load", msgspec.json.encode(load), load.warmup_s + load.seconds + RUN_S)
    return msgspec.json.decode(written, type=Measured)


async def drive_open(scenario: Scenario, target: ServerTarget, pace: Tempo, *, first_key: int = 1) -> Step:
    """Run an open loop in as many processes as its rate needs, and meanwhile measure the server's process.

    Raises:
        ChildFailed: A load generator failed or did not end in time.
    """
    pace = bounded(pace)
    loads = split_load(spec_for(scenario, target), pace, connections=scenario.connections, first_key=first_key)
    begin_s, end_s = loads[0].counted_from_ns / 1e9, loads[0].first_ns / 1e9 + pace.warmup_s + pace.seconds
    watching = partial(watch, target.pid, begin_s, end_s)
    watched, *counts = await run_side_by_side(watching, *(partial(run_open_load, load) for load in loads))
    assert isinstance(watched, Watched)
    return step_of(pace, watched, [each for each in counts if isinstance(each, OpenLoadCounts)])


def bounded(pace: Tempo) -> Tempo:
    """Return the pace with its durations limited by `REQUESTS_MAX`."""
    return replace(pace, seconds=min(pace.seconds, REQUESTS_MAX / pace.rate))


def split_load(spec: RequestSpec, pace: Tempo, *, connections: int, first_key: int) -> list[OpenLoad]:
    """Split a load among processes. Each process sends every nth request, so that together they keep one even rate."""
    parts = min(math.ceil(pace.rate / PER_PROCESS), PROCESSES_MAX)
    interval_ns = round(1e9 / pace.rate)
    count = max(round(pace.rate * (pace.warmup_s + pace.seconds)), 1)
    first_ns = time.monotonic_ns() + round(LEAD_S * 1e9)
    return [
        OpenLoad(
            spec=spec,
            first_ns=first_ns + part * interval_ns,
            interval_ns=interval_ns * parts,
            count=len(range(part, count, parts)),
            counted_from_ns=first_ns + round(pace.warmup_s * 1e9),
            connections=math.ceil(connections / parts),
            first_key=first_key + part,
            key_step=parts,
        )
        for part in range(parts)
    ]


async def run_open_load(load: OpenLoad) -> OpenLoadCounts:
    """Run a part of an open loop in a separate process.

    Raises:
        ChildFailed: The process failed or did not end in time.
    """
    lead_s = max(load.first_ns - time.monotonic_ns(), 0) / 1e9
    limit_s = lead_s + load.count * load.interval_ns / 1e9 + load.drain_s + RUN_S
    return msgspec.json.decode(
        await generate("bench.load.open_load", msgspec.json.encode(load), limit_s), type=OpenLoadCounts
    )


async def generate(module: str, load: bytes, limit_s: float) -> bytes:
    """Run a module of the bench in a separate process with the given load as its input, and return its output.

    Raises:
        ChildFailed: The process failed or did not end in time.
    """
    try:
        # The files of the process are deleted with this folder, even if it is stopped early.
        with TemporaryDirectory(prefix="sluice-bench-") as folder, trio.fail_after(limit_s):
            return await run_command((PYTHON, "-m", module), stdin=load, environ={"TMPDIR": folder})
    except trio.TooSlowError as exc:
        raise ChildFailed("the load generator did not end in time") from exc


async def watch(pid: int, begin_s: float, end_s: float) -> Watched:
    """Read the server's CPU when counting starts and ends, and its memory in between.

    Raises:
        ChildFailed: The server has ended.
    """
    await trio.sleep(max(begin_s - time.monotonic(), 0))
    began, (idle, ticks) = _usage(pid), machine_ticks()
    memory = [MemorySample(time.monotonic(), began.rss_bytes, began.own_bytes)]
    while (left_s := end_s - time.monotonic()) > 0:
        await trio.sleep(min(left_s, SAMPLE_S))
        now = _usage(pid)
        memory.append(MemorySample(time.monotonic(), now.rss_bytes, now.own_bytes))
    idle_after, ticks_after = machine_ticks()
    return Watched(
        _usage(pid).cpu_s - began.cpu_s, 1 - (idle_after - idle) / max(ticks_after - ticks, 1), tuple(memory)
    )


def _usage(pid: int) -> Usage:
    if has_ended(pid):
        raise ChildFailed("the server ended under the load")
    return usage(pid)


def step_of(pace: Tempo, watched: Watched, counts: list[OpenLoadCounts]) -> Step:
    """Return the figures of one step, computed from the counts of all processes."""
    latencies, lags, refusals = Histogram(), Histogram(), Histogram()
    for each in counts:
        refusals.merge(Histogram(each.refusals))
        latencies.merge(Histogram(each.latencies))
        lags.merge(Histogram(each.lags))
    answered = sum(each.answered_in_time for each in counts)
    return Step(
        rate=pace.rate,
        served_per_s=sum(each.served_in_time for each in counts) / pace.seconds,
        refused_per_s=sum(sum(each.refused.values()) for each in counts) / pace.seconds,
        cpu_us=watched.cpu_s * 1e6 / answered if answered else 0.0,
        cpu_share=watched.cpu_s / pace.seconds,
        machine_share=watched.machine_share,
        p50_ms=latencies.percentile_ms(0.5),
        p90_ms=latencies.percentile_ms(0.9),
        p99_ms=latencies.percentile_ms(0.99),
        p999_ms=latencies.percentile_ms(0.999),
        max_ms=latencies.percentile_ms(1.0),
        lag_p99_ms=lags.percentile_ms(0.99),
        requests=sum(each.meant for each in counts),
        unanswered=sum(each.unanswered for each in counts),
        connections=sum(each.connections for each in counts),
        unexpected=_summed([each.unexpected for each in counts]),
        memory=watched.memory,
        seconds=pace.seconds,
        refused_p99_ms=refusals.percentile_ms(0.99),
    )


def _summed(counts: list[dict[str, int]]) -> dict[str, int]:
    names = {name for each in counts for name in each}
    return {name: sum(each.get(name, 0) for each in counts) for name in sorted(names)}
