"""Worker processes: a result comes back, a refusal too, and one that takes too long or dies harms nobody else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from upstreams.model.errors import NotFound, UnexpectedBody, UpstreamFailed
from upstreams.model.steps import Task
from upstreams.workers.pool import TASKS_EACH, ProcessPool

HERE = __name__
LONG_S = 60.0


def echo(*values: object) -> object:
    return [os.getpid(), *values]


def spin() -> None:
    while True:
        pass


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def eat() -> int:
    return len(b"x" * 2**34)


def refuse(kind: str) -> None:
    if kind == "absent":
        raise NotFound("Nothing is there.", reason="empty")
    if kind == "odd":
        raise UnexpectedBody("it is odd")
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


async def test_values_come_back_as_they_went_and_a_process_is_used_again() -> None:
    with open_workers(1) as workers:
        assert workers.started_total == 0, "nobody needs one yet"
        values = (b"\0\xff" * 500_000, "text", None, {"a": [1, 2.5, True]})
        first = await run(workers, "echo", *values)
        second = await run(workers, "echo")
        assert isinstance(first, list)
        assert isinstance(second, list)
        assert first[1:] == list(values)
        assert first[0] == second[0] != os.getpid()
        assert workers.started_total == 1


async def test_a_refusal_comes_as_it_was_raised_and_a_slip_as_a_failure() -> None:
    with open_workers(1) as workers:
        with pytest.raises(NotFound) as absent:
            await run(workers, "refuse", "absent")
        assert (str(absent.value), absent.value.reason) == ("Nothing is there.", "empty")
        with pytest.raises(UpstreamFailed, match="it is odd"):
            await run(workers, "refuse", "odd")
        with pytest.raises(UpstreamFailed, match="another shape"):
            await run(workers, "refuse", "slip")
        assert workers.started_total == 1


@pytest.mark.parametrize("name", ["die", "eat"])
async def test_a_process_that_dies_or_eats_too_much_fails_its_own_task_alone(name: str) -> None:
    with open_workers(1) as workers:
        with pytest.raises(UpstreamFailed):
            await run(workers, name)
        assert await run(workers, "echo", 1)


async def test_a_task_that_takes_too_long_is_ended_in_time_and_leaves_no_process() -> None:
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


async def test_a_caller_who_leaves_ends_the_task_and_the_next_one_has_its_turn() -> None:
    with open_workers(1) as workers:
        for _ in range(5):
            with trio.move_on_after(0.05) as leaving:
                await run(workers, "spin")
            assert leaving.cancelled_caught
        assert await run(workers, "echo")


async def test_more_tasks_than_processes_wait_and_all_are_done() -> None:
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


async def test_a_worn_process_is_replaced() -> None:
    with open_workers(1) as workers:
        pids = {str((await run(workers, "echo"))[0]) for _ in range(TASKS_EACH + 1)}  # type: ignore[index]
        assert len(pids) == 2


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
