"""The queue of tasks for the worker processes. Accounts take turns, and tasks that would end too late do not start.

A task that cannot end in time is refused immediately. Its expected time is its size in bytes times the time per byte,
which is learned from the last tasks of its account. Therefore an account with slow pages waits longer, without delaying
others. `limits.fair_turns` decides which account is next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from limits.fair_turns import FairTurn, FairTurns, TurnStatistics
from upstreams.model.errors import WorkersBusy

SPARE: Final = 1
"""Additional tasks beyond `at_once`, for accounts without a running task.

Such an account need not wait for the long tasks that another account started while there was no competition.
"""
BYTE_S: Final = 1e-6
"""The expected seconds per byte before any task was measured."""
BYTE_S_LEAST: Final = 1e-7
BYTE_S_MOST: Final = 2e-5
TASK_S: Final = 0.02
"""The fixed part of the expected seconds of a task, in addition to the time for its bytes."""
LEARNED: Final = 0.2
"""The weight of the latest task in the expected time."""
LEARNED_BYTES_MIN: Final = 32 * 1024
"""Shorter tasks are not measured, because they say little about the time per byte."""
LEARNED_ACCOUNTS_MAX: Final = 1_000
"""Maximum number of accounts with a known time per byte. The least recently active account is dropped."""
FULL_S: Final = 20.0
"""The expected wait in seconds above which work is refused."""


class TaskLine:
    """Assigns turns to at most `at_once` tasks, and to `SPARE` more."""

    def __init__(self, at_once: int) -> None:
        self._turns = FairTurns(at_once, spare=SPARE)
        self._byte_s = OrderedDict[str, float]()

    def check_room(self, account_id: str) -> None:
        """Refuse work if the account would have to wait too long.

        Raises:
            WorkersBusy: The expected wait exceeds `FULL_S`.
        """
        wait_s = self._turns.expected_wait_s(account_id)
        if wait_s > FULL_S:
            raise WorkersBusy(wait_s)

    @asynccontextmanager
    async def turn(self, account_id: str, size_bytes: int, deadline_at: float) -> AsyncIterator[FairTurn]:
        """Wait for a turn for a task of this size, which must end by `deadline_at` on Trio's clock.

        Raises:
            WorkersBusy: The turn is not expected in time, or did not come in time.
        """
        cost_s = TASK_S + size_bytes * self._byte_s.get(account_id, BYTE_S)
        turn = self._turns.take_nowait(account_id, cost_s, over_at=deadline_at)
        if turn is None:
            turn = await self._wait(account_id, cost_s, deadline_at)
        is_done = False
        try:
            yield turn
            is_done = True
        finally:
            took_s = trio.current_time() - turn.began_at
            if is_done or took_s > cost_s:  # a task whose caller left early says little about the cost
                self._learn(account_id, size_bytes, took_s)
            self._turns.end(turn)

    def statistics(self) -> TurnStatistics:
        """Return the current statistics."""
        return self._turns.statistics()

    async def _wait(self, account_id: str, cost_s: float, deadline_at: float) -> FairTurn:
        """Wait for a turn as long as the task could still end in time."""
        wait_s = self._turns.expected_wait_s(account_id, cost_s)
        if trio.current_time() + wait_s + cost_s > deadline_at:
            raise WorkersBusy(wait_s)
        with trio.move_on_at(deadline_at - cost_s):
            return await self._turns.take(account_id, cost_s, over_at=deadline_at)
        raise WorkersBusy(self._turns.expected_wait_s(account_id, cost_s))

    def _learn(self, account_id: str, size_bytes: int, took_s: float) -> None:
        if size_bytes < LEARNED_BYTES_MIN:
            return
        found_s = min(max(took_s / size_bytes, BYTE_S_LEAST), BYTE_S_MOST)
        known_s = self._byte_s.get(account_id, BYTE_S)
        self._byte_s[account_id] = known_s + LEARNED * (found_s - known_s)
        self._byte_s.move_to_end(account_id)
        if len(self._byte_s) > LEARNED_ACCOUNTS_MAX:
            self._byte_s.popitem(last=False)
