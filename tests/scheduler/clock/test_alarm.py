"""The alarm that wakes the clock."""

import trio

from scheduler.clock.alarm import Alarm
from tests.fakes.patient_clock import VIRTUALLY


@VIRTUALLY
async def test_ring_during_work_ends_the_next_wait() -> None:
    alarm = Alarm()
    assert not alarm.reset()
    alarm.ring()  # the loop is busy
    await alarm.wait()
    assert trio.current_time() == 0.0
    assert alarm.reset()
    assert not alarm.reset()


@VIRTUALLY
async def test_ring_wakes_a_waiting_loop() -> None:
    alarm = Alarm()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(alarm.wait)
        await trio.sleep(3.0)
        alarm.ring()
    assert trio.current_time() == 3.0
    assert alarm.reset()
