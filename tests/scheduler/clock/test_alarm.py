"""The alarm that wakes the clock."""

import trio
from trio.testing import MockClock

from scheduler.clock.alarm import Alarm


async def test_ring_during_work_ends_the_next_wait(autojump_clock: MockClock) -> None:
    alarm = Alarm()
    assert not alarm.reset()
    alarm.ring()  # the loop is busy
    await alarm.wait()
    assert trio.current_time() == 0.0
    assert alarm.reset()
    assert not alarm.reset()


async def test_ring_wakes_a_waiting_loop(autojump_clock: MockClock) -> None:
    alarm = Alarm()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(alarm.wait)
        await trio.sleep(3.0)
        alarm.ring()
    assert trio.current_time() == 3.0
    assert alarm.reset()
