"""Worker processes return results and refusals. A slow or dying process affects only its own task."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from upstreams.model.errors import NotFound, PageTooCostly, UnexpectedBody, UpstreamFailed
from upstreams.model.steps import Task
from upstreams.workers.pool import CHARGED_CPU_S, RESULT_BYTES_MAX, TASKS_EACH, ProcessPool
from upstreams.workers.process import CPU_S

HERE = __name__
LONG_S = 60.0


def echo(*values: object) -> object:
    return [os.getpid(), *values]


def spin() -> None:
    while True:
        pass


def spin_in_c() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def work(cpu_s: float) -> bool:
    ends_at = time.process_time() + cpu_s
    while time.process_time() < ends_at:
        pass
    return True


def work_and_sleep(cpu_s: float) -> None:
    work(cpu_s)
    time.sleep(600.0)


def crash() -> None:
    os.abort()


def say_much() -> bytes:
    return bytes(RESULT_BYTES_MAX + 1)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def eat() -> int:
    return len(b"x" * 2**34)


def refuse(kind: str) -> None:
    if kind == "absent":
        raise NotFound("The page is empty.", reason="empty")
    if kind == "odd":
        raise UnexpectedBody("the work failed")
    raise ZeroDivisionError(kind)


def task(name: str, *args: object) -> Task:
    return Task(f"{HERE}:{name}", args, None)


@contextmanager
def open_workers(count: int = 2) -> Iterator[ProcessPool]:
    workers = ProcessPool(count)
    try:
        yield workers
    finally:
        workers.close()


async def run(workers: ProcessPool, name: str, *args: object, within_s: float = LONG_S) -> object:
    done = await workers.run(task(name, *args), trio.current_time() + within_s, source="web", account_id="a")
    return done.body


async def test_values_round_trip_and_the_process_is_reused() -> None:
    with open_workers(1) as workers:
        assert workers.started_total == 0, "no process is needed yet"
        values = (b"\0\xff" * 500_000, "text", None, {"a": [1, 2.5, True]})
        first = await run(workers, "echo", *values)
        second = await run(workers, "echo")
        assert isinstance(first, list)
        assert isinstance(second, list)
        assert first[1:] == list(values)
        assert first[0] == second[0] != os.getpid()
        assert workers.started_total == 1


async def test_refusal_is_raised_and_error_becomes_a_failure() -> None:
    with open_workers(1) as workers:
        with pytest.raises(NotFound) as absent:
            await run(workers, "refuse", "absent")
        assert (str(absent.value), absent.value.reason) == ("The page is empty.", "empty")
        with pytest.raises(UpstreamFailed, match="the work failed"):
            await run(workers, "refuse", "odd")
        with pytest.raises(UpstreamFailed, match="documented structure"):
            await run(workers, "refuse", "slip")
        assert workers.started_total == 1


async def test_killed_process_fails_only_its_task() -> None:
    with open_workers(1) as workers:
        with pytest.raises(UpstreamFailed):
            await run(workers, "die")
        assert await run(workers, "echo", 1)


@pytest.mark.critical
@pytest.mark.parametrize("name", ["eat", "crash", "spin", "spin_in_c", "say_much"])
async def test_task_over_its_limits_is_killed_and_charged(name: str) -> None:
    """Method: the process's own CPU limit, also during a single C call that never returns to Python."""
    with open_workers(1) as workers:
        with pytest.raises(PageTooCostly):
            await run(workers, name, within_s=600.0)
        assert await run(workers, "echo", 1)


async def test_cpu_time_does_not_add_up_over_tasks() -> None:
    with open_workers(1) as workers:
        for _ in range(3):
            assert await run(workers, "work", 0.4 * CPU_S, within_s=600.0)
        assert workers.started_total == 1


async def test_task_past_its_deadline_is_killed_and_leaves_no_process() -> None:
    with open_workers(1) as workers:
        before = await run(workers, "echo")
        assert isinstance(before, list)
        began = time.monotonic()
        with pytest.raises(UpstreamFailed, match="no time left"):
            await run(workers, "spin", within_s=0.3)
        assert time.monotonic() - began < LONG_S / 2
        after = await run(workers, "echo")
        assert isinstance(after, list)
        assert after[0] != before[0]
        with trio.fail_after(LONG_S):
            while _runs(before[0]):  # noqa: ASYNC110 - another process ends, which tells nobody
                await trio.sleep(0.01)


@pytest.mark.critical
async def test_task_that_uses_its_time_is_charged_but_not_remembered() -> None:
    """Otherwise, a caller could get seconds of work for free, again and again, with a short `timeout`."""
    remembered: list[bool] = []
    worked = Task(f"{HERE}:work_and_sleep", (CHARGED_CPU_S + 0.5,), None, lambda: remembered.append(True))
    with open_workers(1) as workers:
        failures = [await _failure(workers, worked, within_s) for within_s in (0.05, 6.0, 30.0)]
    assert not isinstance(failures[0], PageTooCostly)
    assert any(isinstance(one, PageTooCostly) for one in failures), "the work takes long on a busy machine"
    assert not remembered


async def _failure(workers: ProcessPool, worked: Task, within_s: float) -> Exception:
    with pytest.raises((PageTooCostly, UpstreamFailed)) as failed:
        await workers.run(worked, trio.current_time() + within_s, source="web", account_id="a")
    return failed.value


@pytest.mark.critical
async def test_costly_page_is_remembered() -> None:
    remembered: list[bool] = []
    with open_workers(1) as workers:
        failed = await _failure(workers, Task(f"{HERE}:crash", (), None, lambda: remembered.append(True)), LONG_S)
    assert isinstance(failed, PageTooCostly)
    assert remembered == [True]


async def test_cancelled_caller_ends_the_task_and_the_next_one_runs() -> None:
    with open_workers(1) as workers:
        for _ in range(5):
            with trio.move_on_after(0.05) as leaving:
                await run(workers, "spin")
            assert leaving.cancelled_caught
        assert await run(workers, "echo")


async def test_excess_tasks_wait_and_complete() -> None:
    with open_workers(2) as workers:
        found: list[object] = []

        async def one(number: int) -> None:
            value = await run(workers, "echo", number)
            assert isinstance(value, list)
            found.append(value[1])

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(one, number)
        assert sorted(found, key=str) == sorted(range(40), key=str)
        assert workers.started_total <= 2


async def test_worn_out_process_is_replaced() -> None:
    with open_workers(1) as workers:
        pids = {str((await run(workers, "echo"))[0]) for _ in range(TASKS_EACH + 1)}  # type: ignore[index]
        assert len(pids) == 2


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
