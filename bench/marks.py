"""Measures every mark of the gateway in one run: `sluice bench marks`."""

from collections.abc import Sequence

import trio

from bench.core.process import usage
from bench.core.results import Cost, Mark, Results
from bench.core.scenarios import SCENARIOS, Stage
from bench.cost import COSTED, Announce, CostOptions, cost_marks, measure_cost, measure_costs
from bench.peers.servers import open_stage
from bench.rows import LISTS, measure_rows, row_marks
from bench.scenarios.feed import MARKED_COUNT, FeedOptions
from bench.suite import run_feed

FEED = ("parked", "depth", "monitors", "deliveries")
"""The scenarios without rates that have marks."""
WORKS = len(COSTED) + 4 + len(FEED)
"""The number of progress announcements of a run."""
MANY = 512
IDLE_S = 1.0


async def measure_marks(seconds: float, results: Results, announce: Announce) -> None:
    """Add the costs and all marks except memory growth, which only `soak` measures, to `results`.

    Raises:
        ChildFailed: A server or a load generator did not run.
    """
    options = CostOptions(seconds=seconds)
    await measure_costs(options, costs=results.costs, announce=announce)
    results.marks.extend(cost_marks(results.costs))
    announce("one connection")
    results.marks.append(added_latency(await _side_by_side(1, seconds, names=("direct", "miss"))))
    announce(f"{MANY} connections")
    results.marks.append(lost_throughput(await _few_and_many(seconds)))
    announce("rows of lists")
    results.marks.extend(row_marks(map(measure_rows, LISTS)))
    announce("an idle node")
    results.marks.append(Mark("an idle node, resident", await _idle_bytes() / 1e6, 90, "MB"))
    for name in FEED:
        await run_feed(name, FeedOptions(counts=(MARKED_COUNT,)), results, announce)


async def _side_by_side(connections: int, seconds: float, *, names: Sequence[str]) -> list[Cost]:
    costs: list[Cost] = []
    options = CostOptions(connections=connections, seconds=seconds)
    await measure_costs(options, costs=costs, announce=lambda _: None, names=names)
    return costs


async def _few_and_many(seconds: float) -> list[Cost]:
    """Measure billed misses on one node with few and with many connections.

    The two kinds alternate, because the speed of a machine drifts.
    """
    miss = SCENARIOS["miss"]
    async with open_stage(miss.stage) as target:
        return [
            await measure_cost(miss, target, connections=connections, seconds=seconds, first_key=nth * 100_000_000)
            for nth, connections in enumerate((64, MANY, 64, MANY), start=1)
        ]


async def _idle_bytes() -> int:
    """Return the resident memory of a node with default settings, before its first request."""
    async with open_stage(Stage(settings={})) as target:
        await trio.sleep(IDLE_S)
        return usage(target.pid).rss_bytes


def added_latency(costs: Sequence[Cost]) -> Mark:
    """Return the latency that the gateway adds for a single caller, computed from the costs of `direct` and `miss`."""
    direct, miss = costs
    added_ms = None if direct.unexpected or miss.unexpected else miss.p50_ms - direct.p50_ms
    return Mark("latency added by a billed miss at 1 connection, p50", added_ms, 0.6, "ms")


def lost_throughput(costs: Sequence[Cost]) -> Mark:
    """Return the throughput that is lost with many connections. `costs` alternates between few and many."""
    few, many = (sum(cost.per_second for cost in half) for half in (costs[0::2], costs[1::2]))
    lost = None if any(cost.unexpected for cost in costs) or not few else 100 * (1 - many / few)
    return Mark(f"throughput lost from 64 to {MANY} connections", lost, 10, "%")
