"""Requests that wait until discover runs settle, which means that the runs end or are paused.

A run that settles on this node wakes its waiters. Runs can also settle on another node or disappear with their account,
so one of the waiters, the looker, regularly reads the runs of all waiters from the store. The cost is one query per
`RUNS_AT_ONCE` runs, no matter how many requests wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from scheduler.jobs import job_rows
from storage.store import Store

CHECK_EVERY_S: Final = 1.0
RUNS_AT_ONCE: Final = 500
"""How many runs are read per query."""


class _Waiter:
    """One waiting request. Only `RunWaits` changes it."""

    __slots__ = ("is_done", "run_id", "woken")

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.is_done = False
        self.woken = trio.Event()

    def wake(self, *, is_done: bool) -> None:
        self.is_done = self.is_done or is_done
        self.woken.set()

    async def sleep(self) -> None:
        """Wait until woken."""
        await self.woken.wait()
        if not self.is_done:
            self.woken = trio.Event()


class RunWaits:
    """The waiters of one node by run. While there are waiters, one of them is the looker."""

    def __init__(self, store: Store, *, look_every_s: float = CHECK_EVERY_S) -> None:
        self._store = store
        self._look_every_s = look_every_s
        self._waiting: dict[str, dict[_Waiter, None]] = {}
        self._looker: _Waiter | None = None

    def publish(self, run_id: str) -> None:
        """Wake the waiters of a run that has settled."""
        for waiter in self._waiting.get(run_id, ()):
            waiter.wake(is_done=True)

    async def wait(self, run_id: str, *, within_s: float, stopping: Callable[[], bool]) -> None:
        """Wait until a run has settled or was deleted.

        Also return soon after the node starts to stop, or after `within_s` seconds.

        Raises:
            StorageError: the store is unavailable.
        """
        waiter = _Waiter(run_id)
        self._waiting.setdefault(run_id, {})[waiter] = None
        try:
            with trio.move_on_after(within_s):
                await self._check([run_id])
                while not waiter.is_done:
                    if self._looker is None:
                        self._looker = waiter
                    if self._looker is waiter:
                        await self._check_all(waiter, stopping)
                    else:
                        await waiter.sleep()
        finally:
            self._leave(waiter)

    async def _check_all(self, waiter: _Waiter, stopping: Callable[[], bool]) -> None:
        with trio.move_on_after(self._look_every_s):
            await waiter.sleep()
        if stopping():
            for run_id in list(self._waiting):
                self.publish(run_id)
        elif not waiter.is_done:
            run_ids = list(self._waiting)
            for begin in range(0, len(run_ids), RUNS_AT_ONCE):
                await self._check(run_ids[begin : begin + RUNS_AT_ONCE])

    async def _check(self, run_ids: list[str]) -> None:
        """Wake the waiters of the given runs that have settled."""
        open_ = await self._store.read(partial(job_rows.unsettled_of, job_ids=run_ids))
        for run_id in run_ids:
            if run_id not in open_:
                self.publish(run_id)

    def _leave(self, waiter: _Waiter) -> None:
        of_run = self._waiting[waiter.run_id]
        del of_run[waiter]
        if not of_run:
            del self._waiting[waiter.run_id]
        if self._looker is waiter:
            self._looker = None
            if (next_of := next(iter(self._waiting.values()), None)) is not None:
                next(iter(next_of)).wake(is_done=False)
