"""The growth of a store, computed from its samples, with virtual time and simulated sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from storage import growth
from storage.disk_watch import DiskWatch
from storage.errors import StoreUnavailable
from storage.growth import DAY_S, EVERY_S, HOUR_S, MIGRATIONS, Growth, StoreGrowth, growth_of
from storage.store import DiskSpace, StoreSize, TableSize
from tests.fakes.inline_store import InlineStore

EPOCH = 1_800_000_000.0
TABLES = (TableSize("notes", 10, 900, 100),)


class GrowingStore(InlineStore):
    """A store that has grown at a constant rate since the start."""

    bytes_a_second = 10.0
    free_bytes = 0
    disk_free_bytes = 10_000_000_000
    jumped_s = 0.0

    async def measure(self) -> StoreSize:
        await trio.lowlevel.checkpoint()
        return StoreSize(round(1_000 + self.bytes_a_second * trio.current_time()), self.free_bytes, TABLES)

    async def probe(self) -> DiskSpace:
        await trio.lowlevel.checkpoint()
        return DiskSpace(100_000_000_000, self.disk_free_bytes)

    def now(self) -> float:
        return EPOCH + trio.current_time() + self.jumped_s


class GrowingNode:
    """A node on such a store, which charges calls."""

    def __init__(self, store: GrowingStore) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.calls = 0
        self.growth = StoreGrowth(store, DiskWatch(store.probe, 1_000_000_000), now=store.now)

    def event(self, _level: str, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    async def run(self, seconds: float) -> None:
        """Run for this long, charging 60 calls per minute."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.growth.keep_measuring, self.event, lambda: self.calls)
            with trio.move_on_after(seconds):
                while True:
                    await trio.sleep(60)
                    self.calls += 60
            nursery.cancel_scope.cancel()


@pytest.fixture
def store() -> Iterator[GrowingStore]:
    with closing(GrowingStore([MIGRATIONS])) as opened:
        yield opened


def test_growth_covers_the_last_day_and_is_unknown_in_the_first_hour() -> None:
    assert growth_of([]) is None
    assert growth_of([(0.0, 10, 0)]) is None
    assert growth_of([(0.0, 10, 0), (HOUR_S - 1, 20, 5)]) is None
    assert growth_of([(0.0, 10, 7), (HOUR_S, 30, 5)]) == Growth(HOUR_S, 20, 5)
    older = [(-DAY_S, 0, 900), (-1.0, 5, 900)]
    assert growth_of([*older, (0.0, 10, 7), (HOUR_S, 30, 5), (DAY_S, 40, 2)]) == Growth(DAY_S, 30, 7)


def test_growth_is_converted_to_rates_per_day_and_per_thousand_calls() -> None:
    half = Growth(DAY_S / 2, 600, 3_000)
    assert (half.bytes_a_day, half.bytes_per_thousand_calls) == (1_200, 200)
    assert Growth(DAY_S, 600, 999).bytes_per_thousand_calls is None
    assert Growth(DAY_S, -600, 0).bytes_a_day == -600


async def test_node_reports_its_growth_after_an_hour(store: GrowingStore, autojump_clock: MockClock) -> None:
    node = GrowingNode(store)
    await node.run(HOUR_S)
    assert (await node.growth.report())["growth_bytes_a_day"] is None
    node = GrowingNode(store)
    await node.run(2 * HOUR_S)
    report = await node.growth.report()
    assert report["growth_bytes_a_day"] == pytest.approx(10 * DAY_S, rel=0.01)
    assert report["bytes_per_thousand_calls"] == pytest.approx(10_000, rel=0.2)
    assert 1 <= report["measured_over_h"] <= 3
    assert report["days_until_full"] == pytest.approx(9_000_000_000 / (10 * DAY_S), rel=0.01)
    assert report["disk"] == {"total_bytes": 10**11, "free_bytes": 10**10, "floor_bytes": 10**9}
    assert report["tables"] == [{"name": "notes", "rows": 10, "bytes": 900, "index_bytes": 100}]


async def test_free_space_in_the_file_is_used_before_the_disk(store: GrowingStore, autojump_clock: MockClock) -> None:
    node = GrowingNode(store)
    await node.run(3 * HOUR_S)
    before = node.growth.days_left()
    store.free_bytes = 9_000_000_000
    await node.growth.measure()
    assert before is not None
    assert node.growth.days_left() == pytest.approx(2 * before)


async def test_store_that_does_not_grow_has_no_days_left(store: GrowingStore, autojump_clock: MockClock) -> None:
    store.bytes_a_second = 0
    node = GrowingNode(store)
    await node.run(3 * HOUR_S)
    report = await node.growth.report()
    assert (report["growth_bytes_a_day"], report["days_until_full"]) == (0, None)
    assert node.events == []


async def test_calls_of_all_nodes_count_and_samples_survive_a_restart(
    store: GrowingStore, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(GrowingNode(store).run, 5 * HOUR_S)
    node = GrowingNode(store)
    await node.growth.measure()
    assert node.growth.growth is not None
    assert node.growth.growth.calls == pytest.approx(2 * node.growth.growth.over_s, rel=0.01)


async def test_old_and_future_samples_are_removed(store: GrowingStore, autojump_clock: MockClock) -> None:
    store.jumped_s = 40 * DAY_S
    await GrowingNode(store).run(2 * EVERY_S)
    store.jumped_s = 0
    await GrowingNode(store).run(3 * DAY_S)
    hours = [hour for (hour,) in store.look(lambda tx: tx.all("SELECT hour FROM store_samples ORDER BY hour"))]
    assert hours[-1] == store.now() // HOUR_S
    assert len(hours) == hours[-1] - hours[0] + 1 == 49


async def test_node_warns_within_a_week_of_the_disk_floor(store: GrowingStore, autojump_clock: MockClock) -> None:
    store.bytes_a_second = 9e9 / (8 * DAY_S)
    node = GrowingNode(store)
    await node.run(3 * HOUR_S)
    assert node.events == []
    store.disk_free_bytes = 5_000_000_000
    await node.run(EVERY_S)
    (event, fields), *_ = node.events
    assert event == "disk_fills"
    assert fields["days_left"] == pytest.approx(3.6, abs=0.1)


async def test_unavailable_store_is_measured_later(store: GrowingStore, autojump_clock: MockClock) -> None:
    node = GrowingNode(store)
    store.failing = StoreUnavailable("it is away")
    await node.run(2 * EVERY_S)
    assert {event for event, _ in node.events} == {"store_not_measured"}
    store.failing = None
    await node.run(2 * EVERY_S)
    assert len(store.look(lambda tx: tx.all(growth.READ))) == 1


async def test_measuring_makes_one_call_to_the_writer(store: GrowingStore, autojump_clock: MockClock) -> None:
    node = GrowingNode(store)
    before = store.statistics().calls
    await node.run(EVERY_S + 1)
    assert store.statistics().calls - before == 1
