"""The queue of the worker processes: the order of tasks, refusals with a wait, and turns that are never lost."""

from __future__ import annotations

from itertools import chain, repeat
from random import Random

import pytest
import trio

from tests.fakes.patient_clock import run_virtually
from upstreams.model.errors import WorkersBusy
from upstreams.workers.line import BYTE_S, TASK_S, TaskLine

trio_run = run_virtually

MB = 1_000_000
LONG_S = 1_000.0


async def work(line: TaskLine, size: int, takes_s: float, *, within_s: float = LONG_S, account: str = "a") -> float:
    """Run a task of this size, and return when it started."""
    async with line.turn(account, size, trio.current_time() + within_s):
        began = trio.current_time()
        await trio.sleep(takes_s)
    return began


async def test_short_task_passes_long_ones_without_starving_them() -> None:
    line, begun = TaskLine(1), list[str]()

    async def run(name: str, size: int, takes_s: float) -> None:
        async with line.turn("a", size, trio.current_time() + LONG_S):
            begun.append(name)
            await trio.sleep(takes_s)

    async with trio.open_nursery() as nursery:
        for name in ("first", "long", "longer"):
            nursery.start_soon(run, name, 2 * MB, 2.0)
            await trio.sleep(0.01)
        for number in range(40):  # one after the other, each before the queue is empty
            nursery.start_soon(run, f"short {number}", 10_000, 0.5)
            await trio.sleep(0.5)
    assert begun[:2] == ["first", "short 0"]
    assert begun.index("long") < begun.index("longer") < begun.index("short 39")


async def test_task_that_would_be_late_is_refused_immediately() -> None:
    line = TaskLine(2)
    cost_s = 2 * MB * BYTE_S + TASK_S
    refused, waited = list[float](), list[float]()

    async def run() -> None:
        began = trio.current_time()
        try:
            await work(line, 2 * MB, cost_s, within_s=30)
        except WorkersBusy as busy:
            refused.append(busy.retry_after_s or 0.0)
            waited.append(trio.current_time() - began)

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(run)
    assert 100 - len(refused) == pytest.approx(2 * 30 / cost_s, abs=2), "as many tasks as there is time for"
    assert refused
    assert set(waited) == {0.0}
    assert all(20 < one <= 60 for one in refused)
    assert trio.current_time() <= 31


async def test_late_task_does_not_start_unless_the_queue_is_empty() -> None:
    line = TaskLine(1)
    assert await work(line, 100 * MB, 1.0, within_s=0.5) == 0.0, "the queue is empty, so the task may try"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, line, 1_000, 60.0)  # takes longer than expected
        await trio.sleep(0.01)
        began = trio.current_time()
        with pytest.raises(WorkersBusy):
            await work(line, 1_000, 1.0, within_s=5)
        assert trio.current_time() - began == pytest.approx(5, abs=0.1)


async def test_queue_learns_the_cost_per_byte_and_closes_when_full() -> None:
    line = TaskLine(1)
    line.check_room("a")
    for _ in range(20):
        await work(line, MB, 10.0)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(work, line, MB, 10.0)
        await trio.sleep(1)
        with pytest.raises(WorkersBusy) as busy:
            line.check_room("a")
        assert busy.value.retry_after_s == pytest.approx(39, rel=0.05)
        await trio.sleep(29)
        line.check_room("a")


async def test_turns_are_never_lost_or_assigned_twice() -> None:
    """Method: 400 tasks, two thirds of which are cancelled at random moments, while they are queued or running."""
    line, rng, most, under_way = TaskLine(2), Random(3), 0, 0

    async def run(wait_s: float, takes_s: float, leaves_s: float) -> None:
        nonlocal most, under_way
        await trio.sleep(wait_s)
        with trio.move_on_after(leaves_s):
            async with line.turn("a", rng.randrange(200_000), trio.current_time() + LONG_S):
                under_way += 1
                most = max(most, under_way)
                try:
                    await trio.sleep(takes_s)
                finally:
                    under_way -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(400):
            leaves_s = rng.choice((rng.random(), rng.random() * 10, LONG_S))
            nursery.start_soon(run, rng.random() * 20, rng.random() * 0.2, leaves_s)
    assert (most, under_way) == (2, 0)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(work, line, 1, 1.0)
    assert trio.current_time() - began == pytest.approx(1.0)


# Two accounts

EXPENSIVE_S = 30.0


async def attack(line: TaskLine, until_s: float) -> None:
    """Keep eight tasks of one account in the queue.

    Each uses all of its time, and the last ones are for pages of 10 MB.
    """

    async def again() -> None:
        with trio.move_on_at(until_s):
            for size in chain(repeat(MB, 6), repeat(10 * MB)):
                try:
                    line.check_room("hostile")
                    with trio.move_on_after(EXPENSIVE_S):
                        async with line.turn("hostile", size, trio.current_time() + EXPENSIVE_S):
                            await trio.sleep_forever()
                except WorkersBusy as busy:
                    await trio.sleep(busy.retry_after_s or 1.0)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(again)


@pytest.mark.critical
@pytest.mark.parametrize("at_once", [1, 2])
async def test_expensive_tasks_do_not_refuse_or_delay_other_accounts(at_once: int) -> None:
    """Regression: because of one expensive task, 56 of 58 scrapes of another account returned 503."""
    line, waits = TaskLine(at_once), list[float]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(attack, line, 600.0)
        await trio.sleep(0.5)
        for _ in range(500):
            line.check_room("victim")
            joined_at = trio.current_time()
            waits.append(await work(line, 50_000, 0.07, within_s=20, account="victim") - joined_at)
            await trio.sleep(1)
    assert set(waits) == {0.0}


async def test_accounts_share_the_time_that_a_hostile_one_leaves() -> None:
    line, waits = TaskLine(2), list[float]()

    async def scrape(account: str) -> None:
        for _ in range(100):
            line.check_room(account)
            joined_at = trio.current_time()
            waits.append(await work(line, 50_000, 0.07, within_s=20, account=account) - joined_at)
            await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attack, line, 60.0)
        await trio.sleep(0.5)
        for number in range(5):
            nursery.start_soon(scrape, f"victim {number}")
    assert max(waits) < 5 * 0.07, "at most the tasks of the other victims"


async def test_running_task_is_expected_to_end_by_its_deadline() -> None:
    line = TaskLine(1)
    with trio.move_on_after(300):
        async with line.turn("a", 10 * MB, 300.0):  # now one byte is expected to take at most 20 us
            await trio.sleep_forever()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: work(line, 50_000_000, 25.0, within_s=30))
        await trio.sleep(1)
        with pytest.raises(WorkersBusy) as busy:
            line.check_room("a")
        assert busy.value.retry_after_s == pytest.approx(29)
        await trio.sleep(10)
        line.check_room("a")


async def test_cost_per_byte_is_learned_per_account() -> None:
    line = TaskLine(1)
    for _ in range(20):
        async with line.turn("slow", MB, trio.current_time() + LONG_S):
            await trio.sleep(10)
    for account, is_refused in (("slow", True), ("quick", False)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold, line, account)
            await trio.sleep(0.1)
            if is_refused:
                with pytest.raises(WorkersBusy):
                    await hold(line, account)
            else:
                await hold(line, account)


async def hold(line: TaskLine, account: str) -> None:
    """Run a task of a megabyte that needs 1 s and must finish within 9 s."""
    async with line.turn(account, MB, trio.current_time() + 9):
        await trio.sleep(1)
