"""Worker processes return results and refusals. A slow or dying process affects only its own task."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest
import trio

from tests.servers.waiting import until
from tests.upstreams.workers.tasks import LONG_S, open_workers, run, task
from upstreams.model.errors import NotFound, PageTooCostly, UpstreamFailed
from upstreams.workers.pool import CHARGED_CPU_S, TASKS_EACH, ProcessPool
from upstreams.workers.process import CPU_S

FEW_CPU_S = 0.5
"""The CPU limit of processes in these tests, which would otherwise use up `CPU_S` again and again."""


async def test_values_and_refusals_pass_and_the_process_is_reused() -> None:
    with open_workers() as workers:
        assert workers.started_total == 0, "no process is needed yet"
        values = [b"\0\xff" * 500_000, "text", None, {"a": [1, 2.5, True]}]
        pid, *returned = await run(workers, "echo", *values)
        assert returned == values
        with pytest.raises(NotFound) as absent:
            await run(workers, "refuse", "absent")
        assert (str(absent.value), absent.value.reason) == ("The page is empty.", "empty")
        with pytest.raises(UpstreamFailed, match="the work failed"):
            await run(workers, "refuse", "odd")
        with pytest.raises(UpstreamFailed, match="documented structure"):
            await run(workers, "refuse", "slip")
        assert await run(workers, "echo") == [pid] != [os.getpid()]
        assert workers.started_total == 1


async def test_killed_process_fails_only_its_task() -> None:
    with open_workers() as workers:
        with pytest.raises(UpstreamFailed):
            await run(workers, "die")
        assert await run(workers, "echo", 1)


@pytest.mark.critical
async def test_task_over_its_limits_is_killed_and_charged() -> None:
    """Method: the process's own CPU limit, also during a single C call that never returns to Python."""
    with open_workers() as workers:
        assert CPU_S - 1 < await run(workers, "limit_cpu", FEW_CPU_S) <= CPU_S <= 10
        for name in ("eat", "crash", "spin", "spin_in_c", "say_much"):
            await run(workers, "limit_cpu", FEW_CPU_S)
            with pytest.raises(PageTooCostly):
                await run(workers, name, within_s=600.0)
        assert await run(workers, "echo", 1)


async def test_cpu_time_does_not_add_up_over_tasks() -> None:
    with open_workers() as workers:
        await run(workers, "limit_cpu", FEW_CPU_S)
        for _ in range(3):
            assert await run(workers, "spin", 0.4 * FEW_CPU_S, within_s=600.0)
        assert workers.started_total == 1


async def test_task_past_its_deadline_is_killed_and_leaves_no_process() -> None:
    with open_workers() as workers:
        [before] = await run(workers, "echo")
        began = time.monotonic()
        with pytest.raises(UpstreamFailed, match="no time left"):
            await run(workers, "spin", within_s=0.3)
        assert time.monotonic() - began < LONG_S / 2
        assert await run(workers, "echo") != [before]
        with trio.fail_after(LONG_S):
            await until(lambda: not _runs(before))


@pytest.mark.critical
async def test_task_that_uses_its_time_is_charged_but_not_remembered() -> None:
    """Otherwise, a caller could get seconds of work for free, again and again, with a short `timeout`."""
    remembered: list[bool] = []
    with open_workers() as workers:
        failing = partial(_failure, workers, "spin_and_sleep", CHARGED_CPU_S + 0.2, remembered=remembered)
        assert not isinstance(await failing(within_s=0.05), PageTooCostly)
        for within_s in (3.5, 10.0, 30.0):  # the work takes long on a busy machine
            if isinstance(failure := await failing(within_s=within_s), PageTooCostly):
                break
    assert isinstance(failure, PageTooCostly)
    assert not remembered


async def _failure(
    workers: ProcessPool, name: str, *values: object, remembered: list[bool], within_s: float = LONG_S
) -> Exception:
    worked = task(name, *values, remember=lambda: remembered.append(True))
    with pytest.raises((PageTooCostly, UpstreamFailed)) as failed:
        await workers.run(worked, trio.current_time() + within_s, source="web", account_id="a")
    return failed.value


@pytest.mark.critical
async def test_costly_page_is_remembered() -> None:
    remembered: list[bool] = []
    with open_workers() as workers:
        assert isinstance(await _failure(workers, "crash", remembered=remembered), PageTooCostly)
    assert remembered == [True]


async def test_cancelled_caller_ends_the_task_and_the_next_one_runs() -> None:
    with open_workers() as workers:
        for _ in range(2):
            with trio.move_on_after(0.05) as leaving:
                await run(workers, "spin")
            assert leaving.cancelled_caught
        assert await run(workers, "echo")


async def test_excess_tasks_wait_and_complete() -> None:
    with open_workers(2) as workers:
        found: list[int] = []

        async def one(number: int) -> None:
            found.append((await run(workers, "echo", number))[1])

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(one, number)
        assert sorted(found) == list(range(40))
        assert workers.started_total <= 2


async def test_worn_out_process_is_replaced() -> None:
    with open_workers() as workers:
        assert len({(await run(workers, "echo"))[0] for _ in range(TASKS_EACH + 1)}) == 2


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
