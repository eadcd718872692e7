"""The scenarios of the feed, monitors, deliveries and overload.

Each one runs once, without rates, and produces marks and figures.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TypeVar

import msgspec

from bench.control.control_protocol import ControlAddress
from bench.core.scenarios import TRANSPARENT, Stage
from bench.core.settings import Setting
from bench.load.driving import generate
from bench.peers.servers import open_stage
from bench.peers.shared_servers import open_postgres, postgres_folder
from bench.scenarios.deliveries import DeliveryFigures, Mail
from bench.scenarios.depth import Depth, DepthFigures
from bench.scenarios.due import DueFigures, DueLoad
from bench.scenarios.feed_marks import (
    GOAL,
    Found,
    deliveries_found,
    depth_found,
    extrapolated,
    growth_found,
    monitors_found,
    parked_figures,
    parked_marks,
    reads_found,
)
from bench.scenarios.feed_reads import ReadFigures, Reads
from bench.scenarios.flood import measure_flood
from bench.scenarios.growth import GrowthFigures, GrowthSetting
from bench.scenarios.parked import POLLS_A_KEY, POLLS_EACH, Parked, PollLoad
from gateway.server.descriptors import connections_possible

T = TypeVar("T")
MARKED_COUNT = 10_000
SPARE = 100
"""The number of connections that polls must leave free for other purposes."""
PARKED_S = 600.0
READS_S = 300.0
DEPTH_S_AN_EVENT = 0.001
GROWTH_S_A_CHARGE = 0.002
MONITORS_S = 600.0
DELIVERIES_S = 600.0
DELIVERIES_S_EACH = 0.02

_NODE: Mapping[str, Setting] = MappingProxyType({"log.level": "warning", "server.max_connections": 2 * GOAL})
FEED = Stage("feed", _NODE)
SENDING = Stage("feed", {**_NODE, "webhooks.allow_insecure_targets": True})


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The sizes of the measurements."""

    counts: tuple[int, ...] = (1_000, MARKED_COUNT, GOAL)
    """The numbers of polls to park. A limit of file descriptors reduces them."""
    events: int = 1_000_000
    """The length of the log of `depth`."""
    seconds: float | None = None
    """The seconds of acknowledging (default 5), of a turn of deliveries (default 3), or of a flood (default 10)."""
    charges: int = 1_000_000
    """The number of misses of `growth`."""
    due: int = 10_000
    """The number of monitors that share a slot."""
    stored: int = 100_000
    """The number of other stored monitors."""
    deliveries: int = 10_000
    """The number of deliveries queued for a host that never responds.

    For each kind of receiver, half as many are queued. A quarter as many monitors run.
    """


async def parked(options: FeedOptions) -> Found:
    """Measure parked polls on a real node."""
    most, found = polls_possible(), Found([], [])
    for count in sorted({min(count, most) for count in options.counts}):
        seen = await measure_parked(count)
        if count == min(MARKED_COUNT, most):
            found.marks.extend(parked_marks(seen))
        found.figures.extend(parked_figures(f"{count} polls", seen))
        if count == most < max(options.counts):
            found.figures.extend(extrapolated(seen))
    return found


async def reads(options: FeedOptions) -> Found:
    """Measure one reader that catches up, and consumers that read and acknowledge."""
    return reads_found(await measure_reads(seconds=options.seconds or 5.0))


async def depth(options: FeedOptions) -> Found:
    """Measure the store's pages in a long log."""
    return depth_found(await measure_depth(options.events))


async def growth(options: FeedOptions) -> Found:
    """Measure how many bytes settled misses leave in the store: on SQLite, and on PostgreSQL if it is installed."""
    found = Found([], [])
    with TemporaryDirectory(prefix="sluice-bench-growth-") as folder:
        seen = await measure_growth(GrowthSetting(f"sqlite:///{folder}/sluice.db", options.charges))
    found.add(growth_found("SQLite", seen, bytes_most=150))
    if postgres_folder() is not None:
        async with open_postgres() as url:
            found.add(
                growth_found("PostgreSQL", await measure_growth(GrowthSetting(url, options.charges)), bytes_most=220)
            )
    return found


async def monitors(options: FeedOptions) -> Found:
    """Measure monitors that share a slot on a real node."""
    return monitors_found(await measure_monitors(options.due, stored=options.stored))


async def deliveries(options: FeedOptions) -> Found:
    """Measure deliveries from a node to several kinds of receivers, with and without a host that never responds."""
    count, seconds = options.deliveries, options.seconds or 3.0
    wanted = partial(Mail, count=count // 2, runs=count // 4, held=count, seconds=seconds)
    return deliveries_found(await measure_deliveries(wanted))


async def flood(options: FeedOptions) -> Found:
    """Measure a node that receives far more requests than it can serve, and another key that sends few."""
    return await measure_flood(options.seconds or 10.0)


SCENARIOS: Mapping[str, Callable[[FeedOptions], Awaitable[Found]]] = MappingProxyType(
    {
        "parked": parked,
        "reads": reads,
        "depth": depth,
        "growth": growth,
        "monitors": monitors,
        "deliveries": deliveries,
        "flood": flood,
    }
)


def polls_possible() -> int:
    """Return the number of polls that the limit of file descriptors allows, up to the goal, in whole accounts."""
    return (connections_possible(GOAL + SPARE) - SPARE) // POLLS_EACH * POLLS_EACH


async def measure_parked(
    count: int, stage: Stage = FEED, *, to_a_key: int = 1_000, to_an_account: int = 200, idle_s: float = 5.0
) -> Parked:
    """Park this many polls, wake them in several ways, and stop the server while they wait.

    Raises:
        ChildFailed: A server did not start, or polls received unexpected responses.
    """
    async with open_stage(stage) as target:
        polls = PollLoad(
            target.url,
            target.control,
            target.pid,
            count,
            # Few polls use few keys, and the window of a key limits how often its polls can be sent per minute.
            to_a_key=min(to_a_key, count),
            to_an_account=min(to_an_account, count // POLLS_A_KEY),
            idle_s=idle_s,
        )
        return await _measured("parked", polls, Parked, PARKED_S)


async def measure_reads(*, events: int = 200_000, consumers: int = 16, seconds: float = 5.0) -> ReadFigures:
    """Read this many events from the start, then acknowledge pages of them with several consumers.

    Raises:
        ChildFailed: A server did not start, or a reader received an unexpected response.
    """
    async with open_stage(Stage("feed", {**TRANSPARENT, **_NODE})) as target:
        wanted = Reads(target.url, target.control, target.pid, events, consumers, seconds)
        return await _measured("feed_reads", wanted, ReadFigures, READS_S + seconds)


async def measure_depth(events: int, *, reads: int = 2_000) -> DepthFigures:
    """Read pages of a log of this many events from the store."""
    return await _measured("depth", Depth(events, reads), DepthFigures, READS_S + events * DEPTH_S_AN_EVENT)


async def measure_growth(wanted: GrowthSetting) -> GrowthFigures:
    """Settle misses in a store."""
    return await _measured("growth", wanted, GrowthFigures, READS_S + wanted.charges * GROWTH_S_A_CHARGE)


async def measure_monitors(count: int, *, stored: int, lead_s: float = 15.0) -> DueFigures:
    """Run `count` monitors with the same slot, with `stored` others in the store.

    Raises:
        ChildFailed: A server did not start, or a run was not ok.
    """
    async with open_stage(FEED) as target:
        wanted = DueLoad(target.control, target.pid, count, stored, lead_s)
        return await _measured("due", wanted, DueFigures, MONITORS_S)


async def measure_deliveries(mail: Callable[[ControlAddress, int], Mail]) -> DeliveryFigures:
    """Measure the deliveries of the `Mail` that `mail` returns for a node's address and process id.

    Raises:
        ChildFailed: A server did not start, or deliveries did not arrive.
    """
    async with open_stage(SENDING) as target:
        wanted = mail(target.control, target.pid)
        return await _measured("deliveries", wanted, DeliveryFigures, DELIVERIES_S + wanted.held * DELIVERIES_S_EACH)


async def _measured(module: str, wanted: object, kind: type[T], limit_s: float) -> T:
    """Run a module of this package in a process of its own, and return its figures."""
    written = await generate(f"bench.scenarios.{module}", msgspec.json.encode(wanted), limit_s)
    return msgspec.json.decode(written, type=kind)
