"""Two accounts with real worker processes. A busy account neither delays the other one nor causes its refusal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from limits.fair_turns import FairTurn, TurnStatistics
from upstreams.model.errors import UpstreamFailed, WorkersBusy
from upstreams.model.steps import Task
from upstreams.workers.line import SPARE
from upstreams.workers.pool import PROCESSES_MAX, ProcessPool, _counted

HERE = __name__
HOSTILE_S = 90.0
"""How long each hostile task runs, which is far longer than the other account waits, even on the busiest machine."""
WAIT_S_MAX = 30.0
"""The longest wait of the other account. Starting a process takes most of it."""


def spin(cpu_s: float) -> float:
    end_at = time.process_time() + cpu_s
    while time.process_time() < end_at:
        pass
    return cpu_s


def nap(for_s: float) -> float:
    time.sleep(for_s)
    return for_s


def pid() -> int:
    return os.getpid()


@contextmanager
def open_workers(count: int = PROCESSES_MAX) -> Iterator[ProcessPool]:
    workers = ProcessPool(count)
    try:
        yield workers
    finally:
        workers.close()


async def run(workers: ProcessPool, account: str, name: str, *values: float, within_s: float = 60.0) -> object:
    task = Task(f"{HERE}:{name}", values, None)
    return (await workers.run(task, trio.current_time() + within_s, source="web", account_id=account)).body


@pytest.mark.critical
@pytest.mark.trio(run=trio.run)
async def test_busy_account_does_not_delay_others() -> None:
    with open_workers() as workers:
        refused = 0

        async def attack() -> None:
            nonlocal refused
            try:
                await run(workers, "hostile", "spin", 1_000.0, within_s=HOSTILE_S)
            except (UpstreamFailed, WorkersBusy):
                refused += 1

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(attack)
            await trio.sleep(1)
            busy = workers.statistics()
            assert busy.in_use <= PROCESSES_MAX
            assert busy.in_use + busy.waiting + refused == 6
            for _ in range(10):
                workers.check_room("victim")
                began_at = trio.current_time()
                await run(workers, "victim", "spin", 0.02, within_s=HOSTILE_S)
                assert trio.current_time() - began_at < WAIT_S_MAX
            assert workers.started_total <= PROCESSES_MAX + SPARE
            nursery.cancel_scope.cancel()
        assert workers.statistics() == TurnStatistics(0, 0)


async def test_account_does_not_take_another_accounts_process() -> None:
    with open_workers() as workers:
        first = await run(workers, "a", "pid")
        second = await run(workers, "b", "pid")
        assert first != second
        for _ in range(2):
            assert await run(workers, "a", "pid") == first
            assert await run(workers, "b", "pid") == second


async def test_account_that_kills_processes_does_not_affect_other_accounts() -> None:
    """Method: a cancelled task ends its process, but the other account's process stays."""
    with open_workers() as workers:

        async def attack() -> None:
            with trio.move_on_after(0.5):
                await run(workers, "hostile", "spin", 1_000.0)

        async with trio.open_nursery() as nursery:
            for _ in range(PROCESSES_MAX):
                nursery.start_soon(attack)
        started = await run(workers, "victim", "pid")
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for _ in range(PROCESSES_MAX):
                    nursery.start_soon(attack)
            assert await run(workers, "victim", "pid") == started


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has a CPU clock of another process")
async def test_turn_costs_the_cpu_time_of_its_task() -> None:
    with open_workers(1) as workers:
        await run(workers, "a", "nap", 0.0)  # the process is already running
        worker = workers._idle[0]
        used_s = []
        for name, value in (("spin", 0.3), ("nap", 0.3)):
            turn = FairTurn("a", 0.0, 0.0)
            with _counted(worker, turn):
                await run(workers, "a", name, value)
            assert turn.used_s is not None
            used_s.append(turn.used_s)
    assert 0.3 <= used_s[0] < 0.6
    assert used_s[1] < 0.1
