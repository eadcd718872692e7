"""The thread in which accounts take turns."""

from __future__ import annotations

import threading
from functools import partial

import trio
import trio.testing

from limits.fair_thread import FairThread


async def test_busy_account_does_not_block_others() -> None:
    thread, order = FairThread(), list[str]()
    may_end = threading.Event()

    def work(name: str) -> None:
        assert may_end.wait(10)
        order.append(name)

    async with trio.open_nursery() as nursery:
        for at in range(5):
            nursery.start_soon(thread.run, "busy", partial(work, f"busy {at}"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(thread.run, "other", partial(work, "other"))
        await trio.testing.wait_all_tasks_blocked()
        may_end.set()
    assert order.index("other") == 1, "the call waits only for the work that was running"


async def test_work_of_an_account_runs_in_order_one_at_a_time() -> None:
    thread, running, most, order = FairThread(), 0, 0, list[int]()

    def work(at: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        order.append(at)
        running -= 1
        return at

    async with trio.open_nursery() as nursery:
        for at in range(20):
            nursery.start_soon(thread.run, "one", partial(work, at))
            await trio.testing.wait_all_tasks_blocked()
    assert (most, order) == (1, list(range(20)))
    assert await thread.run("one", lambda: "value") == "value"
