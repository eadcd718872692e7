import time

import pytest
import trio

from tests.fakes.patient_clock import BRISKLY, STEP_S, PatientClock


async def test_time_asleep_counts_in_full() -> None:
    began, really = trio.current_time(), time.perf_counter()
    await trio.sleep(0.1)
    assert trio.current_time() - began >= 0.1
    assert time.perf_counter() - really >= 0.1


async def test_busy_time_between_two_checkpoints_hardly_counts() -> None:
    with trio.move_on_after(0.1) as bound:
        for _ in range(4):
            time.sleep(0.1)  # noqa: ASYNC251 - blocks the process on purpose
            await trio.lowlevel.checkpoint()
    assert not bound.cancelled_caught


async def test_late_wakeup_does_not_lengthen_a_sleep() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 0.05)
        began = trio.current_time()
        await trio.sleep(0.01)
        time.sleep(0.2)  # noqa: ASYNC251 - as above
        assert trio.current_time() - began < 0.01 + 4 * STEP_S


@BRISKLY
async def test_brisk_test_sleeps_a_fifth_of_the_time() -> None:
    began, really = trio.current_time(), time.perf_counter()
    await trio.sleep(0.5)
    assert 0.5 <= trio.current_time() - began < 0.5 + 4 * 5 * STEP_S
    assert time.perf_counter() - really >= 0.1


@pytest.mark.trio(run=trio.run)
async def test_test_may_use_the_real_clock() -> None:
    began = trio.current_time()
    time.sleep(0.1)  # noqa: ASYNC251 - the clock must count this time
    await trio.lowlevel.checkpoint()
    assert trio.current_time() - began >= 0.1


async def test_test_may_use_its_own_clock(autojump_clock: trio.testing.MockClock) -> None:
    await trio.sleep(80_000)
    assert autojump_clock.current_time() >= 80_000


def test_clock_never_goes_back() -> None:
    clock = PatientClock()
    clock.start_clock()
    seen = [clock.current_time(), -clock.deadline_to_sleep_time(0.0), clock.current_time()]
    assert seen == sorted(seen)
