"""Measures reads of pages in a long log.

`python -m bench.scenarios.depth` reads a `Depth` and prints `DepthFigures`.
"""

import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import trio

from bench.control.feed_node import A_WRITE, fact
from bench.load.histogram import Histogram
from events.filters import Filters
from events.log.log import EventLog
from events.log.pages import PageQuery, read_head, read_page
from events.positions import Position
from gateway.config.ids import id_maker
from gateway.feed.pages import PageView, still_holding, tag
from gateway.feed.queries import LIMIT_DEFAULT, FeedQuery
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from storage.store import Store

ACCOUNT, KEY = "acc_bench", "key_bench"


@dataclass(frozen=True, slots=True)
class Depth:
    """The length of the log, and the number of reads at random positions."""

    events: int = 1_000_000
    reads: int = 2_000


@dataclass(frozen=True, slots=True)
class DepthFigures:
    """Histograms of the times of reads, including the way to the store's thread and back."""

    events: int
    page: dict[int, int]
    """Reading a page of 100 events."""
    unchanged: dict[int, int]
    """Checking for a 304: whether a client already has the last page, without reading the page."""
    fill_s: float


async def measure(depth: Depth) -> DepthFigures:
    """Fill a new store and read it."""
    with TemporaryDirectory(prefix="sluice-bench-depth-") as folder:
        async with open_store(f"sqlite:///{folder}/sluice.db", MIGRATIONS) as store:
            began_s = time.monotonic()
            await _fill(store, depth.events)
            fill_s = time.monotonic() - began_s
            rng = Random(0)
            starts = [rng.randrange(max(depth.events - LIMIT_DEFAULT, 1)) for _ in range(depth.reads)]
            page = await _timed([partial(_read, store, start) for start in starts])
            unchanged = await _timed([await _unchanged(store, depth.events)] * depth.reads)
    return DepthFigures(depth.events, dict(page.counts), dict(unchanged.counts), fill_s)


async def _fill(store: Store, events: int) -> None:
    log = EventLog(
        now=time.time, make_id=id_maker(time.time, Random(0)), base_url="http://127.0.0.1", publish=lambda _moved: None
    )
    one = fact(ACCOUNT)
    for first in range(0, events, A_WRITE):
        await store.write(partial(log.append, facts=[one] * min(A_WRITE, events - first)))


async def _timed(reads: list[Callable[[], Awaitable[None]]]) -> Histogram:
    took = Histogram()
    for read in reads:
        began_ns = time.perf_counter_ns()
        await read()
        took.record(time.perf_counter_ns() - began_ns)
    return took


async def _read(store: Store, start: int) -> None:
    page = await store.read(partial(read_page, query=PageQuery(ACCOUNT, KEY, start, LIMIT_DEFAULT, Filters())))
    assert page.items[0].pos == start + 1


async def _unchanged(store: Store, events: int) -> Callable[[], Awaitable[None]]:
    """Return a function that checks the tag of the log's last page."""
    query = FeedQuery("oldest", None, "oldest", None, LIMIT_DEFAULT, 0, {})
    start = max(events - LIMIT_DEFAULT // 2, 0)
    page = await store.read(partial(read_page, query=PageQuery(ACCOUNT, KEY, start, LIMIT_DEFAULT, Filters())))
    sent = tag(PageView(page, Position(start, 0.0), Filters()), query, KEY)

    async def decide() -> None:
        head = await store.read(partial(read_head, account_id=ACCOUNT))
        assert still_holding(sent, query, KEY, after=start, head=head)

    return decide


if __name__ == "__main__":
    found = trio.run(measure, msgspec.json.decode(sys.stdin.buffer.read(), type=Depth))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
