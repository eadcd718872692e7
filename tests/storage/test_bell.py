"""A bell wakes a task from a thread. A wait can end early only if no ring follows."""

import random
from collections.abc import Iterator
from contextlib import closing

import pytest
import trio

from storage.batching import Bell


@pytest.fixture
def bell() -> Iterator[Bell]:
    with closing(Bell()) as one:
        yield one


def never() -> bool:
    return False


async def test_each_ring_ends_one_wait_in_either_order(bell: Bell) -> None:
    rng = random.Random(1)
    with trio.fail_after(10):
        for _ in range(200):
            async with trio.open_nursery() as nursery:
                if rng.random() < 0.5:
                    bell.ring()
                else:
                    nursery.start_soon(trio.to_thread.run_sync, bell.ring)
                await bell.wait(never)
    with trio.move_on_after(0.01) as scope:
        await bell.wait(lambda: True)
    assert scope.cancelled_caught, "no ring is left over"


async def test_wait_that_may_not_give_up_continues_until_the_ring(bell: Bell) -> None:
    has_heard = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ring_later, bell)
        with trio.CancelScope() as scope:
            scope.cancel()
            await bell.wait(never)
            has_heard = True
    assert has_heard


async def _ring_later(bell: Bell) -> None:
    await trio.sleep(0.02)
    bell.ring()
