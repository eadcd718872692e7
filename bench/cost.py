"""Measures the CPU microseconds of one request in the server process, compared with peers."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from bench.core.results import Cost, Mark
from bench.core.scenarios import SCENARIOS, Scenario
from bench.load.closed_load import ClosedLoad, Measured
from bench.load.driving import drive, spec_for
from bench.peers.servers import ServerTarget, can_run, open_stage

COST_MARKS_US = MappingProxyType({"miss": 130.0, "hit": 45.0, "unauthorized": 35.0, "reject": 35.0, "replay": 70.0})
"""The maximum CPU microseconds per request of a scenario at 64 connections."""
SHARED_AT_MOST = 1.6
"""The maximum CPU of a miss on a node with PostgreSQL and Redis, divided by its CPU without them, in the same run."""
COSTED = ("hello", "nginx", "plain", "direct", "miss", "hit", "replay", "unauthorized", "reject", "shared")
"""Scenarios that share a stage are adjacent, so that the stage is started only once."""

Announce = Callable[[str], None]
"""A callback that receives the name of the next measurement."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """The load and the duration of every scenario."""

    connections: int = 64
    seconds: float = 5.0


def staged(names: Sequence[str]) -> Iterator[list[Scenario]]:
    """Yield the scenarios whose servers are installed, in groups that share a running stage."""
    rows = [SCENARIOS[name] for name in names]
    for stage, group in itertools.groupby(rows, key=lambda row: row.stage):
        if can_run(stage):
            yield list(group)


async def measure_costs(
    options: CostOptions, *, costs: list[Cost], announce: Announce, names: Sequence[str] = COSTED
) -> None:
    """Add the cost of every scenario to `costs`, one server at a time.

    All servers have stopped when this returns.

    Raises:
        ChildFailed: A server or a load generator did not run.
    """
    for rows in staged(names):
        async with open_stage(rows[0].stage) as target:
            for row in rows:
                announce(row.name)
                costs.append(await measure_cost(row, target, connections=options.connections, seconds=options.seconds))


async def measure_cost(
    scenario: Scenario,
    target: ServerTarget,
    *,
    connections: int,
    seconds: float,
    warmup_s: float = 1.0,
    first_key: int = 1,
) -> Cost:
    """Measure one scenario in the closed loop against a running server."""
    spec = spec_for(scenario, target)
    load = ClosedLoad(
        spec, connections=connections, warmup_s=warmup_s, seconds=seconds, pid=target.pid, first_key=first_key
    )
    return cost_of(scenario.name, connections, await drive(load))


def cost_of(name: str, connections: int, measured: Measured) -> Cost:
    """Return the figures of one closed loop."""
    return Cost(
        scenario=name,
        connections=connections,
        requests=measured.requests,
        per_second=measured.requests / measured.seconds,
        cpu_us=per_request_us(measured.server_cpu_s, measured.requests),
        p50_ms=measured.p50_ms,
        p99_ms=measured.p99_ms,
        rss_bytes=measured.server_rss_bytes,
        client_us=per_request_us(measured.client_cpu_s, measured.requests),
        unexpected=measured.unexpected,
    )


def per_request_us(cpu_s: float, requests: int) -> float:
    """Return CPU microseconds per request; 0 without requests."""
    return cpu_s * 1e6 / requests if requests else 0.0


def cost_marks(costs: Sequence[Cost]) -> list[Mark]:
    """Return the marks for the cost of a request. A mark has no value if its scenario had unexpected responses."""
    marks = [
        Mark(f"{cost.scenario}, CPU", None if cost.unexpected else cost.cpu_us, COST_MARKS_US[cost.scenario], "us/req")
        for cost in costs
        if cost.scenario in COST_MARKS_US
    ]
    by_name = {cost.scenario: cost for cost in costs}
    if {"miss", "shared"} <= by_name.keys():
        miss, shared = by_name["miss"], by_name["shared"]
        counts = miss.cpu_us and not miss.unexpected and not shared.unexpected
        ratio = shared.cpu_us / miss.cpu_us if counts else None
        marks.append(Mark("CPU of shared divided by CPU of miss", ratio, SHARED_AT_MOST, "x"))
    return marks
