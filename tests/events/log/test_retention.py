"""Retention on each real engine: whole days go, readers see one step, and a dead sweep is continued (spec 8)."""

import random
from functools import partial

import pytest
import trio

from events.errors import CursorExpired
from events.log import retention
from events.log.retention import DAY_S, FEEDS_A_READ, cutoff, jump
from events.positions import LogHead, Position
from tests.events.desk import ACCOUNT, EPOCH, Desk, alert, all_rows, low, open_desk, places
from tests.servers.postgres import PostgresServer

MIDNIGHT = EPOCH // DAY_S * DAY_S


async def sweep(desk: Desk, now: float, days: int) -> int:
    """Use small chunks without a pause, so that a few events act like many."""
    return await retention.sweep(desk.store, now, days, chunk=3, pause_s=0.0)


async def fill(desk: Desk, days: int, *, a_day: int = 4, account_id: str = ACCOUNT) -> None:
    """Add events spread over days. The first is at midnight, and the last just before the next midnight."""
    for day in range(days):
        for number in range(a_day):
            desk.time = MIDNIGHT + day * DAY_S + number * (DAY_S - 1) / max(1, a_day - 1)
            await desk.append(alert(account_id=account_id))


def test_cutoff_is_a_midnight() -> None:
    assert cutoff(MIDNIGHT + 40 * DAY_S, 30) == MIDNIGHT + 10 * DAY_S
    assert cutoff(MIDNIGHT + 41 * DAY_S - 0.001, 30) == MIDNIGHT + 10 * DAY_S
    assert cutoff(MIDNIGHT + 41 * DAY_S, 30) == MIDNIGHT + 11 * DAY_S


async def test_sweep_removes_whole_days_but_nothing_younger_than_the_retention(desk: Desk) -> None:
    await fill(desk, 5)
    assert await sweep(desk, MIDNIGHT + 4 * DAY_S + 5, 3) == 4
    assert await desk.head() == LogHead(5, MIDNIGHT + DAY_S, 20, MIDNIGHT + 5 * DAY_S - 1)
    assert await sweep(desk, MIDNIGHT + 5 * DAY_S - 1, 3) == 0
    assert await sweep(desk, MIDNIGHT + 6 * DAY_S, 3) == 8
    rows = await desk.store.read(all_rows)
    assert [row[1] for row in rows] == list(range(13, 21))
    assert places(await desk.page(12)) == list(range(13, 21))
    with pytest.raises(CursorExpired):
        await desk.page(11)


async def test_log_may_be_removed_completely_and_start_again(desk: Desk) -> None:
    await fill(desk, 2)
    assert await sweep(desk, MIDNIGHT + 90 * DAY_S, 30) == 8
    gone = await desk.head()
    assert gone == LogHead(9, MIDNIGHT + 2 * DAY_S - 1, 8, MIDNIGHT + 2 * DAY_S - 1)
    assert (await desk.page(8)).end == gone.end == gone.start
    assert await sweep(desk, MIDNIGHT + 90 * DAY_S, 30) == 0
    desk.time = MIDNIGHT + 90 * DAY_S
    await desk.append(low())
    assert await desk.head() == LogHead(9, desk.time, 9, desk.time)
    assert (await desk.head()).start == Position(8, desk.time)


async def test_every_account_is_swept(desk: Desk) -> None:
    names = [f"acc_{number:04}" for number in range(FEEDS_A_READ + 7)]
    for day in range(2):
        desk.time = MIDNIGHT + day * DAY_S
        await desk.append(*[low(name) for name in names if day == 0 or name < "acc_0100"])
    assert await sweep(desk, MIDNIGHT + 3 * DAY_S, 2) == len(names)
    assert [row[:2] for row in await desk.store.read(all_rows)] == [(name, 2) for name in names[:100]]


async def test_interrupted_sweep_is_continued_by_the_next(desk: Desk) -> None:
    await fill(desk, 4)
    await desk.store.write(partial(jump, ACCOUNT, 9))
    assert (await desk.head()).first_pos == 9
    assert await desk.store.read(lambda tx: tx.one("SELECT COUNT(*) FROM events")) == (16,)
    assert await sweep(desk, MIDNIGHT, 3650) == 8  # the days themselves have nothing to remove
    assert [row[1] for row in await desk.store.read(all_rows)] == list(range(9, 17))
    assert await desk.store.read(lambda tx: tx.one("SELECT purged_pos FROM feeds")) == (8,)


async def test_sweep_that_dies_anywhere_leaves_a_consistent_log(desk: Desk) -> None:
    """Method: cancel it after each of its waits in turn, check the log, and let the next one continue."""
    await fill(desk, 6)
    whole = False
    for waits in range(200):
        with trio.CancelScope() as scope:
            instrument = _Ends(scope, waits % 7 + 1)
            trio.lowlevel.add_instrument(instrument)
            try:
                await sweep(desk, MIDNIGHT + 6 * DAY_S, 2)
                whole = True
            finally:
                trio.lowlevel.remove_instrument(instrument)
        head = await desk.head()
        assert places(await desk.page(head.first_pos - 1)) == list(range(head.first_pos, 25))
        if whole:
            break
    assert whole
    assert [row[1] for row in await desk.store.read(all_rows)] == list(range(17, 25))


class _Ends(trio.abc.Instrument):
    """Cancels a scope after a number of steps of any task."""

    def __init__(self, scope: trio.CancelScope, steps: int) -> None:
        self._scope = scope
        self._steps = steps

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps -= 1
        if self._steps == 0:
            self._scope.cancel()


async def test_readers_see_no_hole_during_a_sweep_and_appends(desk: Desk) -> None:
    await fill(desk, 6, a_day=30)
    done = False
    walks = 0

    async def walk() -> None:
        """Each page is dense from its start; a reader with an expired position restarts at the oldest."""
        nonlocal walks
        after = 0
        while not done:
            try:
                page = await desk.page(after, limit=20)
            except CursorExpired as exc:
                after = exc.head.first_pos - 1
                continue
            assert places(page) == list(range(after + 1, after + 1 + len(page.items)))
            assert page.head.first_pos <= after + 1
            after = page.end.pos if page.has_more else page.head.first_pos - 1
            walks += 1

    async def produce() -> None:
        while not done:
            await desk.append(alert())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(walk)
        nursery.start_soon(walk)
        nursery.start_soon(produce)
        removed = 0
        for day in range(1, 5):
            removed += await sweep(desk, MIDNIGHT + (day + 2) * DAY_S, 2)
        done = True
    assert removed == 120
    assert walks > 2
    rows = await desk.store.read(all_rows)
    assert [row[1] for row in rows] == list(range(121, 121 + len(rows)))


async def test_jump_never_moves_backward(desk: Desk) -> None:
    await fill(desk, 3)
    await desk.store.write(partial(jump, ACCOUNT, 9))
    await desk.store.write(partial(jump, ACCOUNT, 5))
    assert await desk.head() == LogHead(9, MIDNIGHT + 2 * DAY_S, 12, MIDNIGHT + 3 * DAY_S - 1)


async def test_log_that_grew_during_its_removal_starts_with_the_new_events(desk: Desk) -> None:
    await fill(desk, 1)
    desk.time = MIDNIGHT + 50 * DAY_S
    await desk.append(low())
    await desk.store.write(partial(jump, ACCOUNT, 5))
    assert await desk.head() == LogHead(5, desk.time, 5, desk.time)


async def test_concurrent_sweeps_remove_each_event_once(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    rng = random.Random(3)
    removed: list[int] = []

    async def sweep_often(desk: Desk) -> None:
        for day in range(3, 7):
            await trio.sleep(rng.random() * 0.02)
            removed.append(await sweep(desk, MIDNIGHT + day * DAY_S, 2))

    async def produce(desk: Desk) -> None:
        for _ in range(40):
            await desk.append(low("acc_0"), low("acc_1"), low("acc_2"))

    async with open_desk(url, "a") as one, open_desk(url, "b") as two, open_desk(url, "c") as three:
        for number in range(5):
            await fill(one, 6, account_id=f"acc_{number}")
        two.time = three.time = one.time
        async with trio.open_nursery() as nursery:
            for desk in (one, two, three):
                nursery.start_soon(sweep_often, desk)
                nursery.start_soon(produce, desk)
        assert sum(removed) == 5 * 4 * 4
        rows = await one.store.read(all_rows)
        for number in range(5):
            kept = [row[1] for row in rows if row[0] == f"acc_{number}"]
            assert kept == list(range(17, 17 + (8 + 120 if number < 3 else 8)))
