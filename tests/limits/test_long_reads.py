"""Turns of long reads: a few for each account, held until they are released."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from limits.errors import LongReadsReached
from limits.long_reads import EACH_MAX, WAIT_S, LongReads

pytestmark = pytest.mark.critical


async def test_each_account_has_its_own_turns(autojump_clock: Any) -> None:
    reads = LongReads()
    turns = [await reads.take("a") for _ in range(EACH_MAX)]
    began = trio.current_time()
    with pytest.raises(LongReadsReached):
        await reads.take("a")
    assert trio.current_time() - began == pytest.approx(WAIT_S)
    other = await reads.take("b")
    turns[0].release()
    turns[0].release()
    async with reads.turn("a"):
        with trio.move_on_after(1.0) as scope:
            await reads.take("a")
        assert scope.cancelled_caught
    for turn in (*turns, other):
        turn.release()
    assert len(reads) == 0


async def test_released_turn_goes_to_the_waiting_read(autojump_clock: Any) -> None:
    reads, began = LongReads(), list[int]()

    async def read(number: int) -> None:
        async with reads.turn("a"):
            began.append(number)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        for number in range(3 * EACH_MAX):
            nursery.start_soon(read, number)
    assert sorted(began) == list(range(3 * EACH_MAX))
    assert trio.current_time() == pytest.approx(3.0)
    assert len(reads) == 0


async def test_work_runs_in_one_thread_and_its_errors_are_raised() -> None:
    reads, under_way, most = LongReads(), 0, 0

    def work() -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        under_way -= 1
        return 1 // 1

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(reads.run, f"acc_{number % 3}", work)
    assert most == 1
    with pytest.raises(ZeroDivisionError):
        await reads.run("a", lambda: 1 // 0)
