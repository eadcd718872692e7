"""Requests that wait for discover runs are woken immediately, and many cost little more than one. In virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from scheduler.jobs.discover.waiting import CHECK_EVERY_S, RunWaits
from storage.store import Store
from tests.fakes.patient_clock import VIRTUALLY

WAIT_S = 55.0
MANY = 1_000


class Jobs:
    """A replacement for the store: the unsettled jobs, and how often they were read."""

    def __init__(self, *open_: str) -> None:
        self.open = set(open_)
        self.reads = 0
        self.stopping = False
        self.ended: list[tuple[str, float]] = []
        self.waits = RunWaits(cast("Store", self))

    async def read(self, fn: Callable[[Any], set[str]]) -> set[str]:
        self.reads += 1
        await trio.lowlevel.checkpoint()
        return fn(self)

    def all_in(self, _sql: str, ids: Sequence[str]) -> list[tuple[str]]:
        return [(one,) for one in ids if one in self.open]

    async def wait(self, run_id: str, within_s: float = WAIT_S) -> None:
        await self.waits.wait(run_id, within_s=within_s, stopping=lambda: self.stopping)
        self.ended.append((run_id, trio.current_time()))


@VIRTUALLY
async def test_waiter_returns_when_its_run_settles() -> None:
    jobs = Jobs("a", "b")
    async with trio.open_nursery() as nursery:
        for run_id in ("a", "a", "b"):
            nursery.start_soon(jobs.wait, run_id)
        await trio.sleep(0.3)
        jobs.open.remove("a")
        jobs.waits.publish("a")
        await wait_all_tasks_blocked()
        assert jobs.ended == [("a", 0.3)] * 2
    assert jobs.ended[-1] == ("b", WAIT_S)
    assert not jobs.waits._waiting
    assert jobs.waits._looker is None


@VIRTUALLY
async def test_waiting_for_a_settled_run_returns_immediately() -> None:
    jobs = Jobs()
    await jobs.wait("gone")
    assert (jobs.ended, jobs.reads) == ([("gone", 0.0)], 1)


@VIRTUALLY
async def test_polling_compensates_for_a_lost_wake() -> None:
    """Method: the job is settled as if on another node, or its account is deleted."""
    jobs = Jobs("a", "b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jobs.wait, "a")
        nursery.start_soon(jobs.wait, "b")
        await trio.sleep(10.2)
        jobs.open.clear()
    assert all(10.2 < at <= 10.2 + CHECK_EVERY_S for _, at in jobs.ended)
    assert len(jobs.ended) == 2


@pytest.mark.critical
@VIRTUALLY
async def test_many_waiters_read_the_store_as_rarely_as_a_few() -> None:
    """Regression: each waiter used to read the store every second, which made 55,000 reads for this many waiters."""
    jobs = Jobs(*(f"run {number}" for number in range(MANY)))
    async with trio.open_nursery() as nursery:
        for number in range(MANY):
            nursery.start_soon(jobs.wait, f"run {number}")
    assert len(jobs.ended) == MANY
    assert jobs.reads - MANY <= 2 * WAIT_S / CHECK_EVERY_S, "one check of all runs per second, in two queries"


@VIRTUALLY
async def test_polling_waiter_hands_over_when_it_leaves() -> None:
    jobs = Jobs("a", "b", "c")
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as first:
            nursery.start_soon(jobs.wait, "b", 30.0)
            nursery.start_soon(jobs.wait, "c")
            first.deadline = trio.current_time() + 3.5
            await jobs.wait("a")
        await trio.sleep_until(35.2)
        jobs.open.remove("c")
    assert jobs.ended[0] == ("b", 30.0)
    assert 35.2 < jobs.ended[1][1] <= 35.2 + CHECK_EVERY_S


@VIRTUALLY
async def test_all_waiters_return_soon_after_the_node_stops() -> None:
    jobs = Jobs("a", "b")
    async with trio.open_nursery() as nursery:
        for run_id in ("a", "b", "b"):
            nursery.start_soon(jobs.wait, run_id)
        await trio.sleep(5.5)
        jobs.stopping = True
    assert [at for _, at in jobs.ended] == [6.0] * 3
