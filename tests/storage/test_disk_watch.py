"""The floor below which new charges are refused, with a simulated disk in virtual time."""

from typing import Any

import trio
from trio.testing import MockClock

from storage.disk_watch import CHECK_S, WARN_EVERY_S, DiskWatch
from storage.errors import StoreUnavailable
from storage.store import DiskSpace

FLOOR = 1_000
WHOLE = 1_000_000


class Disk:
    """A simulated disk, and a record of everything logged about it."""

    def __init__(self, free: int | None, *, whole: int = WHOLE, floor: int = FLOOR) -> None:
        self.free = free
        self.whole = whole
        self.error: Exception | None = None
        self.watch = DiskWatch(self.probe, floor)
        self.events: list[tuple[str, str]] = []

    async def probe(self) -> DiskSpace | None:
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        return None if self.free is None else DiskSpace(self.whole, self.free)

    def event(self, level: str, event: str, **_fields: Any) -> None:
        self.events.append((level, event))

    async def at(self, free: int | None) -> str | None:
        """Return the refusal once the disk has this much free."""
        self.free = free
        await self.watch.check()
        return self.watch.refusal


async def test_watch_refuses_from_below_the_floor_until_a_tenth_above_it() -> None:
    disk = Disk(FLOOR)
    assert await disk.at(FLOOR) is None
    said = await disk.at(FLOOR - 1)
    assert said == "999 bytes are free on the disk, 1000 are required (store.disk_floor_bytes)"
    assert await disk.at(FLOOR) == "1000 bytes are free on the disk, 1100 are required (store.disk_floor_bytes)"
    assert await disk.at(1_100) is None


async def test_floor_is_at_most_a_quarter_of_the_disk_and_0_disables_it() -> None:
    small = Disk(2_001, whole=8_000, floor=10_000)
    assert await small.at(2_000) is None
    assert await small.at(1_999) is not None
    assert small.watch.floor_bytes == 2_000
    assert await Disk(0, floor=0).at(0) is None


async def test_unknown_disk_has_no_floor() -> None:
    disk = Disk(None)
    assert await disk.at(None) is None
    assert await disk.at(0) is not None
    assert await disk.at(None) is None


async def test_changes_are_logged_once_and_a_low_disk_once_an_hour(autojump_clock: MockClock) -> None:
    disk = Disk(10 * FLOOR)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(disk.watch.keep_checking, disk.event)
        await trio.sleep(CHECK_S / 2)
        assert disk.events == []
        for free, level, event in (
            (3 * FLOOR, "warning", "disk_low"),
            (0, "error", "disk_full"),
            (10 * FLOOR, "warning", "disk_has_room"),
        ):
            disk.free = free
            await trio.sleep(3 * CHECK_S)
            assert disk.events.pop() == (level, event)
            assert disk.events == []
        disk.free = 3 * FLOOR
        await trio.sleep(2 * WARN_EVERY_S)
        assert disk.events == [("warning", "disk_low")] * 2
        nursery.cancel_scope.cancel()


async def test_failed_check_changes_nothing(autojump_clock: MockClock) -> None:
    disk = Disk(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(disk.watch.keep_checking, disk.event)
        await trio.sleep(CHECK_S / 2)
        disk.error = StoreUnavailable("the disk is gone")
        await trio.sleep(CHECK_S)
        assert disk.watch.refusal is not None
        assert disk.events == [("error", "disk_full"), ("warning", "disk_not_seen")]
        disk.error, disk.free = None, WHOLE
        await trio.sleep(CHECK_S)
        assert disk.watch.refusal is None
        nursery.cancel_scope.cancel()
