"""How a node spaces the steps of its jobs."""

from __future__ import annotations

from itertools import pairwise

import trio

from scheduler.jobs.turns import BUSY_PER_S, PACE_S, WINDOW_S, Turns
from scheduler.pressure import Pressure
from tests.fakes.patient_clock import VIRTUALLY


async def begin_steps(turns: Turns, count: int) -> list[float]:
    """Return the start times of `count` steps that become ready at the same moment, each for a different account."""
    begun = list[float]()

    async def step(account: int) -> None:
        async with turns.of(f"acc_{account}"):
            begun.append(trio.current_time())
            await trio.sleep(1.0)

    async with trio.open_nursery() as nursery:
        for account in range(count):
            nursery.start_soon(step, account)
    return begun


@VIRTUALLY
async def test_steps_start_immediately_without_requests() -> None:
    turns = Turns()
    before = trio.current_time()
    assert await begin_steps(turns, 20) == [before] * 20


@VIRTUALLY
async def test_steps_start_at_intervals_only_during_requests() -> None:
    per_s = 1.2 * BUSY_PER_S
    turns = Turns(Pressure(answered=lambda: int(trio.current_time() * per_s)))
    await begin_steps(turns, 1)
    await trio.sleep(WINDOW_S)
    begun = await begin_steps(turns, 20)
    assert [round(later - before, 6) for before, later in pairwise(begun)] == [PACE_S] * 19
    per_s = 0.8 * BUSY_PER_S
    await begin_steps(turns, 1)
    await trio.sleep(WINDOW_S)
    before = trio.current_time()
    assert await begin_steps(turns, 20) == [before] * 20
